"""What git knows about a commit, read with few processes however large the repository."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gitlab_nightshift.repository.git import PLAIN_DIFF, GitError, split_names
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.tree_listing import list_tree

MOST_COMMITS = 100
_MARK = "\1"
_FILE = "100"
"""How the mode of a regular file begins: neither a link's nor a submodule's does."""


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


def read_repository_facts(repository: Repository, commit: str) -> RepositoryFacts:
    """Read the facts. Names are as git stores them, with surrogate escapes. Raises GitError."""
    walk = ("-z", "--first-parent", "--diff-merges=first-parent", "--name-only", *PLAIN_DIFF)
    form = f"--format={_MARK}%ct%x00%d%x00%s"
    shown = (form, f"--max-count={MOST_COMMITS}", commit)
    # The oldest commit of a shallow clone would otherwise appear to add every file.
    settings = ("log.showRoot=false",)
    log = repository.run("log", *walk, "--decorate=short", *shown, settings=settings)
    rows = list(_parse_log(log))
    return RepositoryFacts(
        files=tuple(_list_files(repository, commit)),
        commits=tuple(PastCommit(subject, files) for _, _, subject, files in rows),
        committed_at=rows[0][0] if rows else 0.0,
        cut=bool(rows) and "grafted" in rows[-1][1],
    )


def _list_files(repository: Repository, commit: str) -> Iterator[TrackedFile]:
    try:
        listed = list_tree(repository, commit)
    except GitError:  # a partial clone does not know sizes
        names = split_names(repository.run("ls-tree", "-r", "-z", "--full-tree", commit))
        rows = (name.partition("\t") for name in names)
        yield from (TrackedFile(path, 0) for row, _, path in rows if row.startswith(_FILE))
    else:
        files = ((path, file) for path, file in listed.items() if file.mode.startswith(_FILE))
        yield from (TrackedFile(path, file.size) for path, file in files)


def _parse_log(log: bytes) -> Iterator[tuple[float, str, str, tuple[str, ...]]]:
    """Time, decoration, subject and files of each commit."""
    for record in log.decode("utf-8", "surrogateescape").split(_MARK)[1:]:
        fields = record.split("\0")
        if len(fields) > 3 and fields[0].isdecimal():  # else a file's name contains the mark
            files = (name.removeprefix("\n") for name in fields[3:])
            yield float(fields[0]), fields[1], fields[2], tuple(filter(None, files))
