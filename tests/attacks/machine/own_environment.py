from tests.attacks.places import Places, flag_in, read

TITLE = "its own environment"
TRIES = "Reads what it was started with."
PROMISE = "secrets"
MUST_FAIL = "The environment of every child is built from an allowlist."


def attack(places: Places) -> str | None:
    return flag_in(read("/proc/self/environ")) or flag_in(read(f"/proc/{places.runner}/environ"))
