"""A private bare repository to make trees and commits in; it borrows the checkout's objects.

No git command of this module runs in the checkout, has it as work tree or reads its configuration,
so nothing that an agent planted in it can run.
"""

import contextlib
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from gitlab_nightshift.repository.git_formats import (
    UNBORN_HEAD,
    GitEntry,
    is_full_id,
    write_alternates,
    write_git_folder,
)
from gitlab_nightshift.repository.object_reader import ObjectReader, compute_id
from gitlab_nightshift.repository.packed_listing import TreeListing

ABSENT_MODE = "000000"
"""Git's mode for a path that does not exist."""
PLAIN_MODES = frozenset({ABSENT_MODE, "100644", "100755"})
"""Git's modes of regular files and of deleted ones."""
# Full ids and binary content: such a patch can be applied to any tree.
_WHOLE_PATCH = ("--patch", "--binary", "--full-index", "--src-prefix=a/", "--dst-prefix=b/")
_NO_CONVERSION = frozenset(("false", "no", "off", "0", "", "input"))
"""Values of core.autocrlf with which a checkout converts no line ends (git-config(1))."""
MOST_CACHED_INDEXES = 3
"""Besides the newest one: each may have megabytes."""


class Relation(StrEnum):
    """How a patch relates to another commit's tree."""

    APPLIES = "applies"
    CONTAINED = "contained"
    CONFLICT = "conflict"


@dataclass(frozen=True)
class DiffFile:
    """One path of a difference. ``status`` is A, M, D or T (type changed); ``mode`` and ``blob``
    are git's own after the change, zeros for a deleted path; ``added`` and ``deleted`` count lines.

    Of a binary file, all old lines count as deleted and all new ones as added.
    """

    path: str
    status: str
    mode: str
    blob: str
    added: int
    deleted: int


@dataclass(frozen=True)
class Repository:
    """A private bare repository.

    ``converts_files``: a checkout may write other bytes than a blob's even without an attribute
    file in the tree. ``attributes_outside_tree``: a file outside of the tree may set attributes.
    ``reader`` is the process that reads its objects, if one is shared (``share_reader``).

    The dictionaries are caches by full ids, which always name the same objects.
    """

    git: Git
    folder: Path
    converts_files: bool = True
    attributes_outside_tree: bool = True
    blobs: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    """The bytes of blobs."""
    differences: dict[tuple[str, str], tuple[DiffFile, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """The files that differ between two trees."""
    patches: dict[tuple[str, str], tuple[bytes, bytes]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """The raw output and the patch of the difference between two trees."""
    trees: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The trees of commits."""
    folders: dict[str, Mapping[str, GitEntry]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """The entries of folders."""
    listings: dict[str, TreeListing] = field(default_factory=dict, repr=False, compare=False)
    """All files of trees."""
    reader: ObjectReader | None = field(default=None, repr=False, compare=False)

    @contextlib.contextmanager
    def open_reader(self) -> Iterator[ObjectReader]:
        """The shared process that reads this repository's objects, or else one for the block."""
        if self.reader:
            yield self.reader
        else:
            with contextlib.closing(ObjectReader(self.git, self.folder)) as reader:
                yield reader

    def run(self, *args: str, index: Path | None = None, **options: Any) -> bytes:
        """Run a git command in this repository; otherwise the same as ``Git.run``."""
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
        full_env = {**{name: str(path) for name, path in paths.items()}, **(env or {})}
        return self.git.run(*args, cwd=work_tree, stdin=stdin, env=full_env)


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
    """Read the parts; afterwards only the checkout's objects are needed."""
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

    ``config`` has the checkout's settings for conversions (``git.read_conversion_config``).
    """
    parts = source if isinstance(source, RepositoryParts) else read_parts(source)
    folder.mkdir(mode=0o700, parents=True)
    # protectHFS and protectNTFS refuse names that mean .git on other systems (git-config(1)).
    fixed = dict.fromkeys(
        ("core.bare", "core.protectHFS", "core.protectNTFS", "core.symlinks"), "true"
    )
    settings = {"core.fileMode": "true", **(config or {}), **fixed}
    write_git_folder(folder, settings, head=UNBORN_HEAD, object_format=parts.object_format)
    write_alternates(folder / "objects", parts.objects)
    files = (("info/exclude", parts.exclude), ("info/attributes", parts.attributes))
    for name, data in (*files, ("shallow", parts.shallow)):
        if data:
            (folder / name).write_bytes(data)
    converts_line_ends = settings.get("core.autocrlf", "false").lower() not in _NO_CONVERSION
    attributes_outside_tree = bool(parts.attributes) or "GIT_ATTR_NOSYSTEM" not in git.env
    return Repository(
        git,
        folder,
        converts_files=attributes_outside_tree or converts_line_ends,
        attributes_outside_tree=attributes_outside_tree,
    )


@contextlib.contextmanager
def share_reader(repository: Repository) -> Iterator[Repository]:
    """The repository with one process that reads its objects for everything in the block."""
    with repository.open_reader() as reader:
        yield replace(repository, reader=reader)


# --- trees and commits ------------------------------------------------------------------------


def has_commit(repository: Repository, commit: str) -> bool:
    """True if the repository has or borrows the commit."""
    try:
        repository.run("cat-file", "-e", f"{commit}^{{commit}}")
    except GitError:
        return False
    return True


@contextlib.contextmanager
def open_scratch_index(repository: Repository, revision: str) -> Iterator[Path]:
    """A temporary index with a revision's tree. Raises GitError."""
    # Indexes are cached: of all commands, read-tree takes longest in a large repository.
    cached = repository.folder / "indexes" / revision if is_full_id(revision) else None
    with tempfile.TemporaryDirectory(prefix="index-", dir=repository.folder) as folder:
        index = Path(folder) / "index"
        if cached and cached.exists():
            shutil.copyfile(cached, index)
        else:
            repository.run("read-tree", revision, index=index)
            if cached:
                _cache_index(index, cached)
        yield index


def _cache_index(index: Path, cached: Path) -> None:
    """Copy an index into the cache, and remove the oldest ones from it."""
    cached.parent.mkdir(mode=0o700, exist_ok=True)
    by_age = sorted(cached.parent.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    for old in by_age[:-MOST_CACHED_INDEXES]:
        old.unlink()
    shutil.copyfile(index, cached)


def write_tree(repository: Repository, index: Path) -> str:
    """Write an index as a tree, and return its id. Blobs may be missing, as in a partial clone."""
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
    command = ("commit-tree", "--no-gpg-sign", "-p", parent, "-F", "-", tree)
    out = repository.git.run(*command, cwd=repository.folder, stdin=message, env=env)
    return out.decode().strip()


# --- differences ------------------------------------------------------------------------------


def build_diff_patch(repository: Repository, old: str, new: str) -> bytes:
    """The difference of two trees as a binary-safe patch with full object ids. Raises GitError."""
    if not (is_full_id(old) and is_full_id(new)):
        return repository.run("diff-tree", "-r", *PLAIN_DIFF, *_WHOLE_PATCH, old, new)
    if (old, new) not in repository.patches:
        options = ("-r", "-z", "--raw", "--numstat", *PLAIN_DIFF, *_WHOLE_PATCH)
        out, _, patch = repository.run("diff-tree", *options, old, new).partition(b"\0\0")
        raw, numstat = _split_diff_output(out)
        repository.patches.clear()  # a patch may have megabytes: keep only the last one
        repository.patches[old, new] = os.fsencode("\0".join(raw)), patch
        repository.differences[old, new] = _parse_diff_files(repository, raw, numstat)
    return repository.patches[old, new][1]


def read_diff_text(repository: Repository, old: str, new: str, context: int) -> str:
    """A diff of two trees for people, with ``context`` lines around changes. Raises GitError."""
    options = ("--patch", f"--unified={context}", "--src-prefix=a/", "--dst-prefix=b/")
    patch = repository.run("diff-tree", "-r", *PLAIN_DIFF, *options, old, new)
    return patch.decode(errors="replace")


def list_diff_files(repository: Repository, old: str, new: str) -> tuple[DiffFile, ...]:
    """The paths in which two trees differ, with their line counts. Raises GitError."""
    if not (is_full_id(old) and is_full_id(new)):
        return _read_diff_files(repository, old, new)
    cache = repository.differences
    if (old, new) not in cache:
        cache[old, new] = _read_diff_files(repository, old, new)
    return cache[old, new]


def _read_diff_files(repository: Repository, old: str, new: str) -> tuple[DiffFile, ...]:
    arguments = ("-r", "-z", "--raw", "--numstat")
    out = repository.run("diff-tree", *arguments, *PLAIN_DIFF, old, new)
    return _parse_diff_files(repository, *_split_diff_output(out))


def _split_diff_output(out: bytes) -> tuple[Sequence[str], Sequence[str]]:
    """The output of ``--raw``, in which paths follow their rows, and that of ``--numstat``."""
    parts = split_names(out)
    length = 2 * sum(part.startswith(":") for part in parts[::2])
    return parts[:length], parts[length:]


def _parse_diff_files(
    repository: Repository, raw: Sequence[str], numstat: Sequence[str]
) -> tuple[DiffFile, ...]:
    counts = _parse_line_counts(numstat)
    files: list[DiffFile] = []
    for meta, path in zip(raw[::2], raw[1::2], strict=True):
        _, mode, before, after, status = meta.split(" ")
        added, deleted = counts.get(path, (0, 0))
        if added is None or deleted is None:
            deleted, added = _count_lines(repository, before), _count_lines(repository, after)
        files.append(DiffFile(path, status[0], mode, after, added, deleted))
    return tuple(files)


def _parse_line_counts(numstat: Sequence[str]) -> dict[str, tuple[int | None, int | None]]:
    """The numbers of added and deleted lines by path; None for a file that git considers binary."""
    rows = (row.split("\t", 2) for row in numstat)
    return {path: (_parse_count(added), _parse_count(deleted)) for added, deleted, path in rows}


def _parse_count(text: str) -> int | None:
    return None if text == "-" else int(text)


def _count_lines(repository: Repository, blob: str) -> int:
    if not blob.strip("0"):
        return 0
    with repository.open_reader() as reader:
        data = reader.read([blob], "blob").get(blob)
    if data is None:  # git's error says what is wrong
        data = repository.run("cat-file", "blob", blob)
    return data.count(b"\n") + (not data.endswith(b"\n") if data else 0)


# --- objects --------------------------------------------------------------------------------------


MOST_CACHED_BYTES = 16_000_000
"""Bytes of the blobs that are cached."""


def read_blobs(repository: Repository, blobs: Iterable[str]) -> dict[str, bytes]:
    """The bytes of blobs by id; missing and damaged ones are left out."""
    ids, cache = set(blobs), repository.blobs
    cached = {blob: cache[blob] for blob in ids if blob in cache}
    new = read_objects(repository, sorted(ids - cached.keys()), "blob")
    if sum(map(len, (*cache.values(), *new.values()))) <= MOST_CACHED_BYTES:
        cache.update(new)
    return cached | new


def read_objects(repository: Repository, ids: Sequence[str], kind: str) -> dict[str, bytes]:
    """The bytes of objects of one kind by id; missing and damaged ones are left out."""
    if not ids:
        return {}
    with repository.open_reader() as reader:
        return reader.read(ids, kind)


def compute_blob_id(parts: Iterable[bytes], size: int, id_length: int) -> str:
    """The id (``id_length`` hex digits) of a blob of ``size`` bytes, which come in parts."""
    return compute_id("blob", parts, size, id_length)


def write_blob(repository: Repository, data: bytes, id_length: int) -> str:
    """Store a blob; returns its id, which has ``id_length`` hex digits."""
    return write_object(repository, "blob", data, id_length)


def write_object(repository: Repository, kind: str, data: bytes, id_length: int) -> str:
    """Store a loose object; returns its id, which has ``id_length`` hex digits."""
    object_id = compute_id(kind, [data], len(data), id_length)
    file = repository.folder / "objects" / object_id[:2] / object_id[2:]
    file.parent.mkdir(exist_ok=True)
    if not file.exists():
        file.write_bytes(zlib.compress(b"%s %d\0" % (kind.encode(), len(data)) + data, 1))
    return object_id
