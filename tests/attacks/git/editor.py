from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "An editor"
TRIES = "core.editor and sequence.editor are programs of the agent's."
MUST_FAIL = "No git here opens an editor."
GAINS = ("program",)
HELD_BY_GIT = "commit with -m opens no editor"


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "core.editor", places.program())
    configure(checkout, "sequence.editor", places.program())
