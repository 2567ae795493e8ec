"""Makes variants of a tree: a change without a part of it, or with a mutated line."""

import os
from collections.abc import Iterable, Mapping

from gitlab_nightshift.repository.blobs import write_blob
from gitlab_nightshift.repository.git import split_names
from gitlab_nightshift.repository.private_repository import (
    GONE,
    Repository,
    keep_index,
    open_scratch_index,
    write_tree,
)

PLAIN_FILE = "100644"


def write_modified_tree(
    repository: Repository, tree: str, files: Mapping[str, bytes | None]
) -> str:
    """The id of ``tree`` with these files replaced, added or (None) removed. Raises GitError.

    Paths are raw; a file keeps its mode.
    """
    with open_scratch_index(repository, tree) as index:
        modes = _read_modes(repository, tree, files)
        rows = b"".join(
            _build_index_row(repository, len(tree), path, data, modes.get(path, PLAIN_FILE))
            for path, data in files.items()
        )
        repository.run("update-index", "-z", "--index-info", stdin=rows, index=index)
        made = write_tree(repository, index)
        keep_index(repository, index, made)  # it is checked out next
        return made


def _read_modes(repository: Repository, tree: str, paths: Iterable[str]) -> dict[str, str]:
    listed = split_names(repository.run("ls-tree", "-z", "--full-tree", tree, "--", *paths))
    rows = (entry.split("\t", 1) for entry in listed)
    return {path: meta.split(" ", 1)[0] for meta, path in rows}


def _build_index_row(
    repository: Repository, length: int, path: str, data: bytes | None, mode: str
) -> bytes:
    if data is None:
        mode, blob = GONE, "0" * length
    else:
        blob = write_blob(repository, data, length)
    return f"{mode} {blob}\t".encode() + os.fsencode(path) + b"\0"
