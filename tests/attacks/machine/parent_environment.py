from tests.attacks.places import Places, above, flag_in, read

TITLE = "the environment of the parent"
TRIES = "Opens /proc/PARENT/environ, which stays as it was when the program started."
PROMISE = "secrets"
MUST_FAIL = "The parent is a monitor that cannot be dumped, or the first process of a namespace."


def attack(places: Places) -> str | None:
    return flag_in(read(f"/proc/{above(places)[0]}/environ"))
