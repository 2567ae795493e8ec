"""The last commits of a history, as far as a checkout has them."""

from pathlib import Path

from gitlab_nightshift.repository.git import PLAIN_DIFF, Git, split_names

_RECENT = ("--first-parent", "--min-parents=1")


def list_recent_files(
    git: Git, checkout: Path, count: int, revision: str = "HEAD"
) -> frozenset[str]:
    """Files touched by the last ``count`` commits of a revision.

    Merges count by their first parent; the root and a shallow boundary do not count (contract,
    ``avoid_recent_commits``).
    """
    shown = ("--name-only", "-z", "--format=", f"--max-count={count}", revision)
    walk = (*_RECENT, "--diff-merges=first-parent")
    return frozenset(split_names(git.run("log", *walk, *PLAIN_DIFF, *shown, cwd=checkout)))


def count_recent_commits(git: Git, checkout: Path, most: int, revision: str = "HEAD") -> int:
    """The number of commits that ``list_recent_files`` would read, up to ``most``."""
    walk = ("--count", *_RECENT, f"--max-count={most}", revision)
    return int(git.run("rev-list", *walk, cwd=checkout))
