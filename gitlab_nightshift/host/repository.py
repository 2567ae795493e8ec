"""A private bare repository that borrows the checkout's objects: where trees and commits are made.

No git command here has the checkout as its folder or work tree, and no configuration of the
checkout is read, so nothing that an agent planted there can run.
"""

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gitlab_nightshift.host.git import PLAIN_DIFF, Git, GitError, Identity, Place, split_names

APPLY_MEMORY = 512 * 1024 * 1024
"""Bytes. A binary patch of some hundred may say that it makes gigabytes."""


class Relation(StrEnum):
    """What a patch is to another commit's tree."""

    APPLIES = "applies"
    CONTAINED = "contained"
    CONFLICT = "conflict"


@dataclass(frozen=True)
class ChangedFile:
    """One path of a difference. ``status`` is A, M, D or T (type changed), counts are lines,
    ``mode`` is git's own after the change (``000000`` where the path is gone).

    A binary file counts all of its old lines as deleted and all of its new ones as added.
    """

    path: str
    status: str
    mode: str
    added: int
    deleted: int


@dataclass(frozen=True)
class Repository:
    """A private bare repository."""

    git: Git
    folder: Path

    def run(
        self,
        *args: str,
        stdin: bytes = b"",
        index: Path | None = None,
        memory: int | None = None,
    ) -> bytes:
        """Stdout of a git command in this repository. Raises GitError."""
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
        """The same over a private work tree. Raises GitError."""
        paths = {"GIT_DIR": self.folder, "GIT_WORK_TREE": work_tree, "GIT_INDEX_FILE": index}
        whole = {**{name: str(path) for name, path in paths.items()}, **(env or {})}
        return self.git.run(*args, cwd=work_tree, stdin=stdin, env=whole)


def private_repository(
    git: Git, folder: Path, source: Place, config: Mapping[str, str] | None = None
) -> Repository:
    """Make a bare repository in ``folder`` (new, mode 0700) that borrows ``source``'s objects.

    ``config`` are settings it needs from the checkout (``git.conversion_config``).
    """
    folder.mkdir(mode=0o700, parents=True)
    form = f"--object-format={source.object_format}"
    git.run("init", "--quiet", "--bare", "--template=", form, str(folder), cwd=folder)
    repository = Repository(git, folder)
    fixed = {"core.protectHFS": "true", "core.protectNTFS": "true", "core.symlinks": "true"}
    _configure(folder / "config", {"core.fileMode": "true", **(config or {}), **fixed})
    borrow(folder / "objects", source.objects)
    (folder / "info").mkdir(exist_ok=True)
    for part, name in ((source.exclude, "info/exclude"), (source.attributes, "info/attributes")):
        copy_if_there(part, folder / name)
    if source.shallow:
        copy_if_there(source.shallow, folder / "shallow")
    return repository


def _configure(file: Path, config: Mapping[str, str]) -> None:
    """Add settings of ``core`` to a configuration; a value that is no single word is left out."""
    words = {key: value for key, value in config.items() if re.fullmatch(r"\w+", value)}
    lines = (f"\t{key.removeprefix('core.')} = {value}\n" for key, value in words.items())
    with file.open("a") as text:
        text.write("[core]\n" + "".join(lines))


def borrow(objects: Path, lenders: Sequence[Path]) -> None:
    """Let an object folder read from others."""
    (objects / "info").mkdir(parents=True, exist_ok=True)
    listed = b"".join(os.fsencode(lender) + b"\n" for lender in lenders)
    (objects / "info/alternates").write_bytes(listed)


def copy_if_there(source: Path, target: Path) -> None:
    """Copy a file's bytes where it exists."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(source, target)


# --- trees and commits ------------------------------------------------------------------------


def has_commit(repository: Repository, commit: str) -> bool:
    """True where the repository has (or borrows) that commit."""
    try:
        repository.run("cat-file", "-e", f"{commit}^{{commit}}")
    except GitError:
        return False
    return True


def tree_of(repository: Repository, revision: str) -> str:
    """The id of a revision's tree. Raises GitError."""
    return repository.run("rev-parse", "--verify", f"{revision}^{{tree}}").decode().strip()


@contextlib.contextmanager
def scratch_index(repository: Repository, revision: str) -> Iterator[Path]:
    """A throw-away index that holds a revision's tree. Raises GitError."""
    with tempfile.TemporaryDirectory(prefix="index-", dir=repository.folder) as folder:
        index = Path(folder) / "index"
        repository.run("read-tree", revision, index=index)
        yield index


def write_tree(repository: Repository, index: Path) -> str:
    """Write an index as a tree and return its id (objects that a partial clone lacks may lack)."""
    return repository.run("write-tree", "--missing-ok", index=index).decode().strip()


def apply_patch(repository: Repository, onto: str, patch: bytes) -> str:
    """The id of the tree that ``patch`` makes of revision ``onto``. Raises GitError."""
    return _applied(repository, onto, patch, "--binary")


def relation(repository: Repository, onto: str, patch: bytes) -> Relation:
    """Whether ``patch`` is already in ``onto``, applies to it (by a 3-way merge), or neither."""
    with contextlib.suppress(GitError):
        _applied(repository, onto, patch, "--binary", "--reverse")
        return Relation.CONTAINED
    try:
        merged = _applied(repository, onto, patch, "--3way")
    except GitError:
        return Relation.CONFLICT
    return Relation.CONTAINED if merged == tree_of(repository, onto) else Relation.APPLIES


def _applied(repository: Repository, onto: str, patch: bytes, *how: str) -> str:
    with scratch_index(repository, onto) as index:
        options = ("--cached", "--whitespace=nowarn", *how)
        asked = ("apply", *options, "-")
        repository.run(*asked, stdin=patch, index=index, memory=APPLY_MEMORY)
        return write_tree(repository, index)


def commit_tree(
    repository: Repository,
    tree: str,
    *,
    parent: str,
    message: bytes,
    author: Identity,
    committer: Identity,
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


# --- blobs ------------------------------------------------------------------------------------


def read_blobs(repository: Repository, blobs: Iterable[str]) -> dict[str, bytes]:
    """The bytes of blobs by their ids; one that is missing or damaged is left out."""
    wanted = sorted(set(blobs))
    asked = "".join(f"{blob}\n" for blob in wanted).encode()
    try:
        out = repository.run("cat-file", "--batch", stdin=asked)
    except GitError:
        return {}
    found: dict[str, bytes] = {}
    at = 0
    for blob in wanted:
        end = out.index(b"\n", at)
        size = out[at:end].split()[-1]
        at = end + 1
        if size.isdigit():
            data = out[at : at + int(size)]
            at += int(size) + 1
            if blob_id([data], len(data), len(blob)) == blob:
                found[blob] = data
    return found


def blob_id(parts: Iterable[bytes], size: int, length: int) -> str:
    """The object id, ``length`` hex digits, of a blob of ``size`` bytes that comes in parts."""
    digest = hashlib.sha1() if length == 40 else hashlib.sha256()  # noqa: S324
    digest.update(b"blob %d\0" % size)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


# --- differences ------------------------------------------------------------------------------


def diff_patch(repository: Repository, old: str, new: str) -> bytes:
    """The difference of two trees as a binary-safe patch with full object ids. Raises GitError."""
    shape = ("--patch", "--binary", "--full-index", "--src-prefix=a/", "--dst-prefix=b/")
    return repository.run("diff-tree", "-r", *PLAIN_DIFF, *shape, old, new)


def diff_files(repository: Repository, old: str, new: str) -> tuple[ChangedFile, ...]:
    """The paths in which two trees differ, with their line counts. Raises GitError."""
    asked = ("-r", "-z", "--raw", "--numstat")
    out = split_names(repository.run("diff-tree", *asked, *PLAIN_DIFF, old, new))
    raw = 2 * sum(part.startswith(":") for part in out[::2])
    counts = _counts(out[raw:])
    found: list[ChangedFile] = []
    for meta, path in zip(out[:raw:2], out[1:raw:2], strict=True):
        _, mode, before, after, status = meta.split(" ")
        added, deleted = counts.get(path, (0, 0))
        if added is None or deleted is None:
            deleted, added = _lines(repository, before), _lines(repository, after)
        found.append(ChangedFile(path, status[0], mode, added, deleted))
    return tuple(found)


def diff_sizes(repository: Repository, old: str, new: str) -> tuple[int, ...]:
    """Bytes of each file, before and after, in which two trees differ. Raises GitError."""
    raw = split_names(repository.run("diff-tree", "-r", "-z", "--raw", *PLAIN_DIFF, old, new))
    blobs = [blob for meta in raw[::2] for blob in meta.split(" ")[2:4] if blob.strip("0")]
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    found = repository.run("cat-file", "--batch-check=%(objectsize)", stdin=asked).split()
    return tuple(int(size) for size in found if size.isdigit())


def _counts(numstat: Sequence[str]) -> dict[str, tuple[int | None, int | None]]:
    """Added and deleted lines by path; None where git takes a file for binary."""
    rows = (row.split("\t", 2) for row in numstat)
    return {path: (_count(added), _count(deleted)) for added, deleted, path in rows}


def _count(text: str) -> int | None:
    return None if text == "-" else int(text)


def _lines(repository: Repository, blob: str) -> int:
    if not blob.strip("0"):
        return 0
    data = repository.run("cat-file", "blob", blob)
    return data.count(b"\n") + (not data.endswith(b"\n") if data else 0)
