"""What git knows about a commit, read with two processes however large the repository."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gitlab_nightshift.repository.git import PLAIN_DIFF, GitError, split_names

RunGit = Callable[..., bytes]
"""``Git.run`` in a repository: the verb and its arguments, ``settings`` for git's configuration."""
MOST_COMMITS = 100
_MARK = "\1"


class TrackedFile(NamedTuple):
    """A regular file of the commit. ``size`` is bytes, 0 if a partial clone lacks the file."""

    path: str
    size: int


@dataclass(frozen=True)
class PastCommit:
    """A commit of the main line, and the files that it changed against its first parent."""

    subject: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class RepositoryFacts:
    """A commit's files, and the commits before it, newest first, ``MOST_COMMITS`` at most.

    ``committed_at`` is in seconds since 1970. ``cut``: the clone is shallow, so its history
    ends with the last of them.
    """

    files: tuple[TrackedFile, ...]
    commits: tuple[PastCommit, ...]
    committed_at: float
    cut: bool


def read_repository_facts(run: RunGit, commit: str) -> RepositoryFacts:
    """Read the facts. Names are as git stores them, with surrogate escapes. Raises GitError."""
    walk = ("-z", "--first-parent", "--diff-merges=first-parent", "--name-only", *PLAIN_DIFF)
    form = f"--format={_MARK}%ct%x00%d%x00%s"
    shown = (form, f"--max-count={MOST_COMMITS}", commit)
    # The oldest commit of a shallow clone would otherwise appear to add every file.
    log = run("log", *walk, "--decorate=short", *shown, settings=("log.showRoot=false",))
    rows = list(_parse_log(log))
    return RepositoryFacts(
        files=_list_files(run, commit),
        commits=tuple(PastCommit(subject, files) for _, _, subject, files in rows),
        committed_at=rows[0][0] if rows else 0.0,
        cut=bool(rows) and "grafted" in rows[-1][1],
    )


def _list_files(run: RunGit, commit: str) -> tuple[TrackedFile, ...]:
    try:
        listed = run("ls-tree", "-r", "-z", "-l", "--full-tree", commit)
    except GitError:  # a partial clone does not know sizes
        listed = run("ls-tree", "-r", "-z", "--full-tree", commit)
    return tuple(_parse_tree(listed))


def _parse_tree(listed: bytes) -> Iterator[TrackedFile]:
    for entry in split_names(listed):
        head, _, path = entry.partition("\t")
        if head.startswith("100"):  # neither links nor submodules
            size = head.rpartition(" ")[2]
            yield TrackedFile(path, int(size) if size.isdecimal() else 0)


def _parse_log(log: bytes) -> Iterator[tuple[float, str, str, tuple[str, ...]]]:
    """Time, decoration, subject and files of each commit."""
    for record in log.decode("utf-8", "surrogateescape").split(_MARK)[1:]:
        fields = record.split("\0")
        if len(fields) > 3 and fields[0].isdecimal():  # else a file's name contains the mark
            files = (name.removeprefix("\n") for name in fields[3:])
            yield float(fields[0]), fields[1], fields[2], tuple(filter(None, files))
