from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "A diff program"
TRIES = "diff.external runs as soon as somebody looks at the change, and shows what it likes."
MUST_FAIL = "The diff is made in a private repository, with --no-ext-diff."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "diff.external", places.program(then="echo nothing changed"))
