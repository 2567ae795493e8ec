import os
import shutil
from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "Damaged objects"
TRIES = "The packs of .git are cut short: nothing can be read or pushed from it."
MUST_FAIL = "The agent's objects are its own; the real ones lie in the real .git."
GAINS = ("change lost",)


def attack(checkout: Path, places: Places) -> None:
    for pack in (checkout / ".git/objects").rglob("*.pack"):
        pack.chmod(0o644)
        os.truncate(pack, 20)
    for loose in (checkout / ".git/objects").glob("[0-9a-f][0-9a-f]"):
        shutil.rmtree(loose)
