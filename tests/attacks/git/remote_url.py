from pathlib import Path

from tests.attacks.git_world import Places, run_git

TITLE = "Another URL of origin"
TRIES = "remote.origin.url is the attacker's server."
MUST_FAIL = "Pushed to a URL of the job's variables, never to a remote by its name."
GAINS = ("connection", "token")


def attack(checkout: Path, places: Places) -> None:
    run_git(
        checkout,
        "config",
        "--replace-all",
        "--file",
        ".git/config",
        "remote.origin.url",
        f"{places.evil}/acme/shop.git",
    )
