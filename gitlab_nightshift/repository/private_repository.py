"""A private bare repository to make trees and commits in; it borrows the checkout's objects.

No git command here runs in the checkout or has it as work tree, and none reads its configuration,
so nothing that an agent planted there can run.
"""

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from gitlab_nightshift.repository.git import (
    PLAIN_DIFF,
    CommitIdentity,
    Git,
    GitError,
    RepositoryPaths,
    split_names,
)
from gitlab_nightshift.repository.git_folder import NO_BRANCH, borrow, write_git_folder

GONE = "000000"
"""The mode of a path that does not exist."""
PLAIN_MODES = frozenset({GONE, "100644", "100755"})
"""Git's modes of regular files and of deleted ones."""
_NOT_ON_CHECKOUT = frozenset(("false", "no", "off", "0", "", "input"))
"""Values of core.autocrlf with which a checkout converts nothing (git-config(1))."""
MOST_KEPT = 3
"""Indexes of trees that were read before, besides the newest."""
APPLY_MEMORY = 512 * 1024 * 1024
"""Bytes. A binary patch of a few hundred bytes may claim to produce gigabytes."""


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


Row = tuple[str, str]
"""An entry of a folder: its mode, as git stores it, and its id."""


@dataclass(frozen=True)
class Repository:
    """A private bare repository. Unless it ``converts_files``, git writes the bytes of their blobs,
    where no attribute file of the tree says otherwise."""

    git: Git
    folder: Path
    converts_files: bool = True
    blobs: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    differences: dict[tuple[str, str], tuple[DiffFile, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )
    trees: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    folders: dict[str, Mapping[str, Row]] = field(default_factory=dict, repr=False, compare=False)
    """What was read before, by full ids, which name the same objects for ever: bytes of blobs,
    differences of trees, a commit's tree, and the entries of folders."""

    def run(
        self, *args: str, stdin: bytes = b"", index: Path | None = None, memory: int | None = None
    ) -> bytes:
        """Run a git command in this repository; returns its stdout. Raises GitError."""
        env = {"GIT_DIR": str(self.folder)}
        if index:
            env["GIT_INDEX_FILE"] = str(index)
        return self.git.run(*args, cwd=self.folder, stdin=stdin, env=env, memory=memory)

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
    machine = "GIT_ATTR_NOSYSTEM" not in git.env
    return Repository(git, folder, converts_files=bool(parts.attributes or machine or not plain))


# --- trees and commits ------------------------------------------------------------------------


def has_commit(repository: Repository, commit: str) -> bool:
    """True if the repository has (or borrows) that commit."""
    try:
        repository.run("cat-file", "-e", f"{commit}^{{commit}}")
    except GitError:
        return False
    return True


def is_full_id(revision: str) -> bool:
    """True for the whole id of an object, which names no other one later."""
    return re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", revision) is not None


def resolve_tree(repository: Repository, revision: str) -> str:
    """The id of a revision's tree. Raises GitError."""
    return repository.run("rev-parse", "--verify", f"{revision}^{{tree}}").decode().strip()


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


def apply_patch(
    repository: Repository, onto: str, patch: bytes, *how: str, memory: int | None = APPLY_MEMORY
) -> str:
    """Apply ``patch`` to revision ``onto``; returns the new tree's id. Raises GitError.

    ``memory`` limits git's data (bytes); None if this process is limited already.
    """
    with open_scratch_index(repository, onto) as index:
        options = ("--cached", "--whitespace=nowarn", *(how or ("--binary",)))
        repository.run("apply", *options, "-", stdin=patch, index=index, memory=memory)
        return write_tree(repository, index)


def find_relation(
    repository: Repository, onto: str, patch: bytes, memory: int | None = APPLY_MEMORY
) -> Relation:
    """Whether ``patch`` is already in ``onto``, applies to it (by a 3-way merge), or neither."""
    with contextlib.suppress(GitError):
        apply_patch(repository, onto, patch, "--binary", "--reverse", memory=memory)
        return Relation.CONTAINED
    try:
        merged = apply_patch(repository, onto, patch, "--3way", memory=memory)
    except GitError:
        return Relation.CONFLICT
    return Relation.CONTAINED if merged == resolve_tree(repository, onto) else Relation.APPLIES


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
    shape = ("--patch", "--binary", "--full-index", "--src-prefix=a/", "--dst-prefix=b/")
    return repository.run("diff-tree", "-r", *PLAIN_DIFF, *shape, old, new)


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


def read_diff_sizes(repository: Repository, old: str, new: str) -> tuple[int, ...]:
    """Bytes of each file, before and after, in which two trees differ. Raises GitError."""
    raw = split_names(repository.run("diff-tree", "-r", "-z", "--raw", *PLAIN_DIFF, old, new))
    blobs = [blob for meta in raw[::2] for blob in meta.split(" ")[2:4] if blob.strip("0")]
    arguments = "".join(f"{blob}\n" for blob in blobs).encode()
    found = repository.run("cat-file", "--batch-check=%(objectsize)", stdin=arguments).split()
    return tuple(int(size) for size in found if size.isdigit())


def _parse_line_counts(numstat: Sequence[str]) -> dict[str, tuple[int | None, int | None]]:
    """Added and deleted lines by path; None for a file that git considers binary."""
    rows = (row.split("\t", 2) for row in numstat)
    return {path: (_parse_count(added), _parse_count(deleted)) for added, deleted, path in rows}


def _parse_count(text: str) -> int | None:
    return None if text == "-" else int(text)


def _count_lines(repository: Repository, blob: str) -> int:
    if not blob.strip("0"):
        return 0
    data = repository.run("cat-file", "blob", blob)
    return data.count(b"\n") + (not data.endswith(b"\n") if data else 0)
