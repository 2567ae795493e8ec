from pathlib import Path

from tests.attacks.git_world import Places, hook

TITLE = "A pre-push hook"
TRIES = "Write .git/hooks/pre-push, which gets the URL and runs beside the token."
MUST_FAIL = "Pushed from a private repository without hooks, and with --no-verify."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    hook(checkout, "pre-push", places)
