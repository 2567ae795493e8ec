"""Makes variants of a tree: a change without a part of it, or with a mutated line."""

import os
from collections.abc import Mapping

from gitlab_nightshift.repository.private_repository import (
    Repository,
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
        rows = b"".join(
            _build_index_row(repository, tree, path, data) for path, data in files.items()
        )
        repository.run("update-index", "-z", "--index-info", stdin=rows, index=index)
        return write_tree(repository, index)


def _build_index_row(repository: Repository, tree: str, path: str, data: bytes | None) -> bytes:
    name = os.fsencode(path)
    if data is None:
        return b"0 " + b"0" * len(tree) + b"\t" + name + b"\0"
    blob = repository.run("hash-object", "-w", "--stdin", stdin=data).strip()
    listed = repository.run("ls-tree", tree, "--", path)
    mode = listed.split(b" ", 1)[0] or PLAIN_FILE.encode()
    return mode + b" " + blob + b"\t" + name + b"\0"
