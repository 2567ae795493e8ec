import shutil
from pathlib import Path

from tests.attacks.places import Places

TITLE = "a folder in shared memory"
TRIES = "Leaves a folder with a file in /dev/shm, where programs meet and nobody cleans up."
PROMISE = "lifetime"
MUST_FAIL = "It is another one, cannot be written, or what is the agent's there is removed."


def _where(places: Places) -> Path:
    return Path(f"/dev/shm/nightshift-attack-{places.own_name}")


def attack(places: Places) -> str | None:
    (_where(places) / "inner").mkdir(parents=True)
    (_where(places) / "inner/file").write_text("here")
    return "left behind"


def seen(places: Places) -> bool:
    there = _where(places).exists()
    shutil.rmtree(_where(places), ignore_errors=True)
    return there
