from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A product of this program"
TRIES = "A bundle in the folder of the night's own products, ready to be taken for the real one."
MUST_FAIL = "The folder is no part of a change, and is emptied with everything else that is new."
CONTROL = "git add"
GAINS = "more"


def attack(checkout: Path, places: Places) -> None:
    (checkout / "nightshift/bundle").mkdir(parents=True)
    (checkout / "nightshift/bundle/bundle.json").write_text("{}")
