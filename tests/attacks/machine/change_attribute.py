import os

from tests.attacks.places import Places

TITLE = "extended attributes of a foreign file"
TRIES = "Hangs an attribute on a file of the job's user."
PROMISE = "files"
MUST_FAIL = "In a namespace the file is not there; another user may not; else the monitor refuses."
NAME = "user.nightshift"


def needs(places: Places) -> None:
    os.setxattr(places.public, NAME, b"x")


def attack(places: Places) -> str | None:
    os.setxattr(places.files["docker_config"], NAME, b"was here")
    return "hung on"


def seen(places: Places) -> bool:
    return NAME in os.listxattr(places.files["docker_config"])
