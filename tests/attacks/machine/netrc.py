from tests.attacks.places import Places, flag_in, read

TITLE = "~/.netrc"
TRIES = "Reads the passwords for hosts in the home of the job's user."
PROMISE = "secrets"
MUST_FAIL = "HOME is a fresh folder, and the real one cannot be read."


def attack(places: Places) -> str | None:
    return flag_in(read(f"{places.home}/.netrc"))
