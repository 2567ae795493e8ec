from tests.attacks.places import Places, flag_in, read

TITLE = "a file of a group in /usr/local"
TRIES = "Reads a file of mode 0640, which the job's user may read as a member of the group."
PROMISE = "secrets"
MUST_FAIL = "What a group may read is not what everybody may read, so it is hidden."


def needs(places: Places) -> None:
    assert read(places.files["installed_for_a_group"]), "needs root that may mount"


def attack(places: Places) -> str | None:
    return flag_in(read(places.files["installed_for_a_group"]))
