from pathlib import Path

from tests.attacks.places import Places, flag_in, read

TITLE = "~/.docker/config.json by a hard link"
TRIES = "Gives the registry's credentials a second name inside the checkout and reads that."
PROMISE = "secrets"
MUST_FAIL = "Landlock refuses to link across its rules; in a namespace the file is not there."


def attack(places: Places) -> str | None:
    name = Path(places.checkout, "config.json")
    name.hardlink_to(places.files["docker_config"])
    return flag_in(read(name))
