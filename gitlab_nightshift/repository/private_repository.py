"""A private bare repository to make trees and commits in; it borrows the checkout's objects.

No git command here runs in the checkout or has it as work tree, and none reads its configuration,
so nothing that an agent planted there can run.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from gitlab_nightshift.repository.git import (
    PLAIN_DIFF,
    CommitIdentity,
    Git,
    GitError,
    RepositoryPaths,
    split_names,
)
from gitlab_nightshift.repository.git_folder import NO_BRANCH, borrow, write_git_folder
from gitlab_nightshift.repository.object_reader import ObjectReader
from gitlab_nightshift.repository.object_rows import Row, is_full_id
from gitlab_nightshift.repository.packed_listing import TreeListing

GONE = "000000"
"""The mode of a path that does not exist."""
PLAIN_MODES = frozenset({GONE, "100644", "100755"})
"""Git's modes of regular files and of deleted ones."""
_WHOLE_PATCH = ("--patch", "--binary", "--full-index", "--src-prefix=a/", "--dst-prefix=b/")
_NOT_ON_CHECKOUT = frozenset(("false", "no", "off", "0", "", "input"))
"""Values of core.autocrlf with which a checkout converts nothing (git-config(1))."""
MOST_KEPT = 3
"""Indexes of trees that were read before, besides the newest."""


class Relation(StrEnum):
    """How a patch relates to another commit's tree."""

    APPLIES = "applies"
    CONTAINED = "contained"
    CONFLICT = "conflict"


@dataclass(frozen=True)
class DiffFile:
    """One path of a difference. ``status`` is A, M, D or T (type changed), counts are lines,
    ``mode`` and ``blob`` are git's own after the change (zeros where the path is gone).

    A binary file counts all of its old lines as deleted and all of its new ones as added.
    """

    path: str
    status: str
    mode: str
    blob: str
    added: int
    deleted: int


@dataclass(frozen=True)
class Repository:
    """A private bare repository. Unless it ``converts_files``, git writes files as their blobs are,
    where no attribute file of the tree says otherwise; unless it ``may_have_attributes``, no file
    outside of the tree gives a path attributes."""

    git: Git
    folder: Path
    converts_files: bool = True
    may_have_attributes: bool = True
    blobs: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    """Bytes of blobs."""
    differences: dict[tuple[str, str], tuple[DiffFile, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Files that differ between two trees."""
    patches: dict[tuple[str, str], tuple[bytes, bytes]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Raw rows and patch of the difference between two trees."""
    trees: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Trees of commits."""
    folders: dict[str, Mapping[str, Row]] = field(default_factory=dict, repr=False, compare=False)
    """Entries of folders."""
    listings: dict[str, TreeListing] = field(default_factory=dict, repr=False, compare=False)
    """All files of trees. This and the above cache what was read before, by full ids, which name
    the same objects for ever."""
    reader: ObjectReader | None = field(default=None, repr=False, compare=False)

    @contextlib.contextmanager
    def open_reader(self) -> Iterator[ObjectReader]:
        """The process that reads this repository's objects, or one for this block alone."""
        if self.reader:
            yield self.reader
        else:
            with contextlib.closing(ObjectReader(self.git, self.folder)) as reader:
                yield reader

    def run(self, *args: str, index: Path | None = None, **options: Any) -> bytes:
        """Run a git command in this repository, with the options of ``Git.run``; returns its
        stdout. Raises GitError."""
        env = {"GIT_DIR": str(self.folder), **({"GIT_INDEX_FILE": str(index)} if index else {})}
        return self.git.run(*args, cwd=self.folder, env=env, **options)

    def run_in(
        self,
        work_tree: Path,
        index: Path,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run a git command with a private work tree; returns its stdout. Raises GitError."""
        paths = {"GIT_DIR": self.folder, "GIT_WORK_TREE": work_tree, "GIT_INDEX_FILE": index}
        whole = {**{name: str(path) for name, path in paths.items()}, **(env or {})}
        return self.git.run(*args, cwd=work_tree, stdin=stdin, env=whole)


@dataclass(frozen=True)
class RepositoryParts:
    """The parts of a checkout's repository that a private one takes over: its object folders, and
    the content of its exclude, attributes and shallow files (empty if the history is complete)."""

    objects: tuple[Path, ...]
    object_format: str
    exclude: bytes = b""
    attributes: bytes = b""
    shallow: bytes = b""


def read_parts(source: RepositoryPaths) -> RepositoryParts:
    """Read the parts; after that, only the checkout's objects are needed."""
    files = (source.exclude, source.attributes, source.shallow)
    return RepositoryParts(source.objects, source.object_format, *map(_read_bytes, files))


def _read_bytes(file: Path | None) -> bytes:
    with contextlib.suppress(FileNotFoundError):
        return file.read_bytes() if file else b""
    return b""


def create_private_repository(
    git: Git,
    folder: Path,
    source: RepositoryPaths | RepositoryParts,
    config: Mapping[str, str] | None = None,
) -> Repository:
    """Make a bare repository in ``folder`` (new, mode 0700) that borrows ``source``'s objects.

    ``config`` are settings it needs from the checkout (``git.read_conversion_config``).
    """
    parts = source if isinstance(source, RepositoryParts) else read_parts(source)
    folder.mkdir(mode=0o700, parents=True)
    # protectHFS and protectNTFS refuse names that mean .git on other systems (git-config(1)).
    fixed = dict.fromkeys(
        ("core.bare", "core.protectHFS", "core.protectNTFS", "core.symlinks"), "true"
    )
    settings = {"core.fileMode": "true", **(config or {}), **fixed}
    write_git_folder(folder, settings, head=NO_BRANCH, object_format=parts.object_format)
    borrow(folder / "objects", parts.objects)
    files = (("info/exclude", parts.exclude), ("info/attributes", parts.attributes))
    for name, data in (*files, ("shallow", parts.shallow)):
        if data:
            (folder / name).write_bytes(data)
    plain = settings.get("core.autocrlf", "false").lower() in _NOT_ON_CHECKOUT
    may_have_attributes = bool(parts.attributes) or "GIT_ATTR_NOSYSTEM" not in git.env
    return Repository(
        git,
        folder,
        converts_files=may_have_attributes or not plain,
        may_have_attributes=may_have_attributes,
    )


@contextlib.contextmanager
def keep_reading(repository: Repository) -> Iterator[Repository]:
    """This repository, whose objects are read by one process until the end of the block."""
    with repository.open_reader() as reader:
        yield replace(repository, reader=reader)


# --- trees and commits ------------------------------------------------------------------------


def has_commit(repository: Repository, commit: str) -> bool:
    """True if the repository has (or borrows) that commit."""
    try:
        repository.run("cat-file", "-e", f"{commit}^{{commit}}")
    except GitError:
        return False
    return True


@contextlib.contextmanager
def open_scratch_index(repository: Repository, revision: str) -> Iterator[Path]:
    """A temporary index with a revision's tree. Raises GitError."""
    # The tree of a full id never changes, and read-tree takes longest in a large repository.
    known = _find_index(repository, revision) if is_full_id(revision) else None
    with tempfile.TemporaryDirectory(prefix="index-", dir=repository.folder) as folder:
        index = Path(folder) / "index"
        if known and known.exists():
            shutil.copyfile(known, index)
        else:
            repository.run("read-tree", revision, index=index)
            if known:
                keep_index(repository, index, revision)
        yield index


def _find_index(repository: Repository, tree: str) -> Path:
    return repository.folder / "indexes" / tree


def keep_index(repository: Repository, index: Path, tree: str) -> None:
    """Keep the index of a tree or commit for later, and of the others the newest: each may have
    megabytes."""
    known = _find_index(repository, tree)
    known.parent.mkdir(mode=0o700, exist_ok=True)
    by_age = sorted(known.parent.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    for old in by_age[:-MOST_KEPT]:
        old.unlink()
    shutil.copyfile(index, known)


def write_tree(repository: Repository, index: Path) -> str:
    """Write an index as a tree and return its id (in a partial clone objects may be missing)."""
    return repository.run("write-tree", "--missing-ok", index=index).decode().strip()


def commit_tree(
    repository: Repository,
    tree: str,
    *,
    parent: str,
    message: bytes,
    author: CommitIdentity,
    committer: CommitIdentity,
    date: str,
) -> str:
    """Make a commit and return its id; the same arguments give the same id.

    ``date`` is ISO 8601 with a zone, or ``<epoch seconds> +0000``. Raises GitError.
    """
    env = {"GIT_DIR": str(repository.folder)}
    for role, person in (("AUTHOR", author), ("COMMITTER", committer)):
        env |= {f"GIT_{role}_NAME": person.name, f"GIT_{role}_EMAIL": person.email}
        env[f"GIT_{role}_DATE"] = date
    argv = ("commit-tree", "--no-gpg-sign", "-p", parent, "-F", "-", tree)
    done = repository.git.run(*argv, cwd=repository.folder, stdin=message, env=env)
    return done.decode().strip()


# --- differences ------------------------------------------------------------------------------


def build_diff_patch(repository: Repository, old: str, new: str) -> bytes:
    """The difference of two trees as a binary-safe patch with full object ids. Raises GitError."""
    if not (is_full_id(old) and is_full_id(new)):
        return repository.run("diff-tree", "-r", *PLAIN_DIFF, *_WHOLE_PATCH, old, new)
    if (old, new) not in repository.patches:
        asked = ("-r", "-z", "--raw", "--numstat", *PLAIN_DIFF, *_WHOLE_PATCH)
        listed, _, patch = repository.run("diff-tree", *asked, old, new).partition(b"\0\0")
        rows = split_names(listed)
        raw = 2 * sum(part.startswith(":") for part in rows[::2])
        repository.patches.clear()  # each may have megabytes
        repository.patches[old, new] = os.fsencode("\0".join(rows[:raw])), patch
        repository.differences[old, new] = _parse_diff_files(repository, rows)
    return repository.patches[old, new][1]


def read_diff_text(repository: Repository, old: str, new: str, around: int) -> str:
    """The difference of two trees, for people, with so many lines around it. Raises GitError."""
    shape = ("--patch", f"--unified={around}", "--src-prefix=a/", "--dst-prefix=b/")
    return repository.run("diff-tree", "-r", *PLAIN_DIFF, *shape, old, new).decode(errors="replace")


def list_diff_files(repository: Repository, old: str, new: str) -> tuple[DiffFile, ...]:
    """The paths in which two trees differ, with their line counts. Raises GitError."""
    if not (is_full_id(old) and is_full_id(new)):
        return _read_diff_files(repository, old, new)
    known = repository.differences
    if (old, new) not in known:
        known[old, new] = _read_diff_files(repository, old, new)
    return known[old, new]


def _read_diff_files(repository: Repository, old: str, new: str) -> tuple[DiffFile, ...]:
    arguments = ("-r", "-z", "--raw", "--numstat")
    out = split_names(repository.run("diff-tree", *arguments, *PLAIN_DIFF, old, new))
    return _parse_diff_files(repository, out)


def _parse_diff_files(repository: Repository, out: Sequence[str]) -> tuple[DiffFile, ...]:
    raw = 2 * sum(part.startswith(":") for part in out[::2])
    counts = _parse_line_counts(out[raw:])
    found: list[DiffFile] = []
    for meta, path in zip(out[:raw:2], out[1:raw:2], strict=True):
        _, mode, before, after, status = meta.split(" ")
        added, deleted = counts.get(path, (0, 0))
        if added is None or deleted is None:
            deleted, added = _count_lines(repository, before), _count_lines(repository, after)
        found.append(DiffFile(path, status[0], mode, after, added, deleted))
    return tuple(found)


def _parse_line_counts(numstat: Sequence[str]) -> dict[str, tuple[int | None, int | None]]:
    """Added and deleted lines by path; None for a file that git considers binary."""
    rows = (row.split("\t", 2) for row in numstat)
    return {path: (_parse_count(added), _parse_count(deleted)) for added, deleted, path in rows}


def _parse_count(text: str) -> int | None:
    return None if text == "-" else int(text)


def _count_lines(repository: Repository, blob: str) -> int:
    if not blob.strip("0"):
        return 0
    with repository.open_reader() as reader:
        data = reader.read([blob], "blob").get(blob)
    if data is None:  # git says what is wrong
        data = repository.run("cat-file", "blob", blob)
    return data.count(b"\n") + (not data.endswith(b"\n") if data else 0)
