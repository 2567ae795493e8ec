from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "A program that signs"
TRIES = "commit.gpgSign with gpg.program: the commit runs it."
MUST_FAIL = "Commits are made with --no-gpg-sign in a private repository."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "commit.gpgSign", "true")
    configure(checkout, "gpg.program", places.program())
