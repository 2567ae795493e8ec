from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "A second configuration file"
TRIES = "extensions.worktreeConfig makes git read .git/config.worktree too."
MUST_FAIL = "No configuration of the agent's is read."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "core.repositoryFormatVersion", 1)
    configure(checkout, "extensions.worktreeConfig", "true")
    configure(checkout, "core.fsmonitor", places.program(), file=".git/config.worktree")
