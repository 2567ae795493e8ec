from pathlib import Path

from tests.attacks.places import Places, plant, planted

TITLE = "a hook in the real .git"
TRIES = "Leaves a pre-push hook where the repository was moved to."
PROMISE = "files"
MUST_FAIL = "The real repository lies in a folder that no tier lets an agent write."


def attack(places: Places) -> str | None:
    return plant(Path(places.files["git_hooks"], "pre-push"))


def seen(places: Places) -> bool:
    return planted(Path(places.files["git_hooks"], "pre-push"))
