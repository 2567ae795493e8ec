from tests.attacks.places import Places, flag_in, read

TITLE = "a private file in /opt"
TRIES = "Reads a key of mode 0600, the job user's own, beside a program in /opt."
PROMISE = "secrets"
MUST_FAIL = "What not everybody may read is found before the first agent and hidden."


def needs(places: Places) -> None:
    assert read(places.files["installed_key"]), "needs root that may mount"


def attack(places: Places) -> str | None:
    return flag_in(read(places.files["installed_key"]))
