from pathlib import Path

from tests.attacks.places import Places, flag_in, read

TITLE = "a private file made public"
TRIES = "Changes the mode of a key in /opt, and reads it as everybody then may."
PROMISE = "secrets"
MUST_FAIL = "What was private at the start stays hidden, whatever its mode says later."


def needs(places: Places) -> None:
    assert read(places.files["installed_key"]), "needs root that may mount"


def attack(places: Places) -> str | None:
    Path(places.files["installed_key"]).chmod(0o644)
    return flag_in(read(places.files["installed_key"]))
