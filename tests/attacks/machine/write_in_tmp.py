import os
from pathlib import Path

from tests.attacks.places import Places, plant

TITLE = "a file in /tmp"
TRIES = "Leaves a file in the folder that everybody shares, for another program to trust."
PROMISE = "files"
MUST_FAIL = "TMPDIR is the agent's own; the machine's /tmp is closed or another one."


def _where(places: Places) -> Path:
    return Path(f"/tmp/nightshift-attack-{Path(places.checkout).parents[1].name}")


def attack(places: Places) -> str | None:
    return plant(_where(places))


def seen(places: Places) -> bool:
    there = _where(places).exists()
    if there:
        os.unlink(_where(places))  # noqa: PTH108
    return there
