from tests.attacks.places import Places, flag_in, read

TITLE = "a public file in a private folder of /opt"
TRIES = "Reads a file of mode 0644 by its whole path: the folder around it has mode 0700."
PROMISE = "secrets"
MUST_FAIL = "A folder that not everybody may enter is hidden with all that is in it."


def needs(places: Places) -> None:
    assert read(places.files["installed_folder"]), "needs root that may mount"


def attack(places: Places) -> str | None:
    return flag_in(read(places.files["installed_folder"]))
