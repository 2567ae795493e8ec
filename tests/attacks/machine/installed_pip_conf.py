from tests.attacks.places import Places, flag_in, read

TITLE = "a pip.conf that everybody may read"
TRIES = "Reads the mirror's password in a well-known place: in the settings of an environment."
PROMISE = "secrets"
MUST_FAIL = "Files in which tools keep credentials for the whole machine are hidden, unless named."


def needs(places: Places) -> None:
    assert read(places.files["installed_pip_conf"]), "needs root that may mount"


def attack(places: Places) -> str | None:
    return flag_in(read(places.files["installed_pip_conf"]))
