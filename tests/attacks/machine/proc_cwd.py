from tests.attacks.places import Places, flag_in, night, read

TITLE = "files through another process's folder"
TRIES = "Opens /proc/P/cwd/FILE: no path above it needs to be passed."
PROMISE = "secrets"
MUST_FAIL = "Following the link asks for the right to trace; the folder behind it is not allowed."


def attack(places: Places) -> str | None:
    return flag_in(read(f"/proc/{night(places)}/cwd/results/result.json"))
