from tests.attacks.places import Places, flag_in, read

TITLE = "a file that everybody may read"
TRIES = "Reads a world-readable file elsewhere: another project's checkout, a cache."
PROMISE = "files"
MUST_FAIL = "Only the public system, the checkout and what is named may be read."


def attack(places: Places) -> str | None:
    return flag_in(read(places.files["public_file"]))
