from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "Another folder as the work tree"
TRIES = "core.worktree makes `git add` take the files of HOME, secrets among them."
MUST_FAIL = "The files are read below the checkout, whatever .git says."
GAINS = ("other content",)


def attack(checkout: Path, places: Places) -> None:
    (places.home / "id_rsa").write_text("a private key")
    configure(checkout, "core.bare", "false")
    configure(checkout, "core.worktree", places.home)
