"""Applies patches to trees, by ``git apply`` in an index."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gitlab_nightshift.repository.git import GitError
from gitlab_nightshift.repository.git_formats import read_index, write_index
from gitlab_nightshift.repository.private_repository import (
    Relation,
    Repository,
    open_scratch_index,
    write_tree,
)
from gitlab_nightshift.repository.tree_objects import (
    find_entries,
    list_differences,
    resolve_tree,
    write_tree_with_entries,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

APPLY_MEMORY = 512 * 1024 * 1024
"""Bytes. A binary patch of a few hundred bytes may claim to produce gigabytes."""
# The lines of a patch that name files (git-diff(1), "Generating patch text with -p").
_FILE_HEADERS = (b"--- ", b"+++ ")
_MOVE_HEADERS = (b"rename from ", b"rename to ", b"copy from ", b"copy to ")
# How git quotes a path with unusual bytes (core.quotePath, git-config(1)): as a C string.
_ESCAPES = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))
_ESCAPED = compile_lazily(rb"\\([0-3][0-7]{2}|[abtnvfr\"\\])")


def apply_patch(
    repository: Repository, onto: str, patch: bytes, memory: int | None = APPLY_MEMORY
) -> str:
    """Apply ``patch`` to revision ``onto``; returns the new tree's id. Raises GitError.

    ``memory`` limits git's data (bytes); None if this process is limited already.
    """
    # A small index is faster. If it does not suffice, a full one decides, and gives the error.
    with contextlib.suppress(GitError, ValueError):
        return _apply_in_small_index(repository, onto, patch, memory)
    return _apply_in_full_index(repository, onto, patch, memory, "--binary")


def _apply_in_full_index(
    repository: Repository, onto: str, patch: bytes, memory: int | None, *options: str
) -> str:
    with open_scratch_index(repository, onto) as index:
        _apply(repository, index, patch, memory, *options)
        return write_tree(repository, index)


def _apply(
    repository: Repository, index: Path, patch: bytes, memory: int | None, *options: str
) -> None:
    arguments = ("--cached", "--whitespace=nowarn", *options, "-")
    repository.run("apply", *arguments, stdin=patch, index=index, memory=memory)


def _apply_in_small_index(
    repository: Repository, onto: str, patch: bytes, memory: int | None
) -> str:
    """Apply the patch in an index of only the files that it names, which is fast even in a large
    tree. Raises GitError, and ValueError if an index of all files might give another tree."""
    paths = set(list_patch_paths(patch))
    before = find_entries(repository, onto, paths)
    base = resolve_tree(repository, onto)
    with tempfile.TemporaryDirectory(prefix="index-", dir=repository.folder) as folder:
        index = Path(folder, "index")
        write_index(index, before, len(base))
        _apply(repository, index, patch, memory, "--binary")
        after = read_index(index, len(base))
    changes = {
        path: after.get(path) for path in {**before, **after} if before.get(path) != after.get(path)
    }
    tree = write_tree_with_entries(repository, base, changes)
    if not paths.issuperset(changes) or list_differences(repository, base, tree) != changes:
        raise ValueError("the patch names files in a way that only git understands")
    return tree


def list_patch_paths(patch: bytes) -> Iterator[str]:
    """The raw paths in a patch's headers, and in lines of files that look like headers."""
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):
            # "a/PATH b/PATH": the same path twice; of a moved file, other headers name both paths.
            both = line.removeprefix(b"diff --git ")
            middle = len(both) // 2
            old, new = (_strip_folder(_unquote(p)) for p in (both[:middle], both[middle + 1 :]))
            if old == new:
                yield os.fsdecode(new)
        elif line.startswith(_FILE_HEADERS):
            yield os.fsdecode(_strip_folder(_unquote(line[4:].partition(b"\t")[0])))
        elif line.startswith(_MOVE_HEADERS):
            yield os.fsdecode(_unquote(line.partition(b" ")[2].partition(b" ")[2]))


def _strip_folder(path: bytes) -> bytes:
    """The path without its first folder, as ``git apply -p1`` reads it."""
    return path.partition(b"/")[2]


def _unquote(name: bytes) -> bytes:
    """The raw name of a path that git may have quoted."""
    if len(name) < 2 or not (name.startswith(b'"') and name.endswith(b'"')):
        return name
    return _ESCAPED.sub(_unescape, name[1:-1])


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) if len(code) == 3 else _ESCAPES[code[0]]])


def find_relation(
    repository: Repository, onto: str, patch: bytes, memory: int | None = APPLY_MEMORY
) -> Relation:
    """Whether ``patch`` is already in ``onto``, applies to it (by a 3-way merge), or neither."""
    with contextlib.suppress(GitError):
        _apply_in_full_index(repository, onto, patch, memory, "--binary", "--reverse")
        return Relation.CONTAINED
    try:
        merged = _apply_in_full_index(repository, onto, patch, memory, "--3way")
    except GitError:
        return Relation.CONFLICT
    return Relation.CONTAINED if merged == resolve_tree(repository, onto) else Relation.APPLIES
