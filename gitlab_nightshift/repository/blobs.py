"""Reads and writes blobs and trees of a private repository."""

import hashlib
import os
import zlib
from collections.abc import Iterable, Sequence

from gitlab_nightshift.repository.git import PLAIN_DIFF, GitError, split_names
from gitlab_nightshift.repository.private_repository import (
    GONE,
    Repository,
    open_scratch_index,
    write_tree,
)

MOST_KEPT_BYTES = 16_000_000
"""Of blobs, kept for whoever asks again."""


def read_blobs(repository: Repository, blobs: Iterable[str]) -> dict[str, bytes]:
    """The bytes of blobs by id; missing and damaged ones are left out."""
    wanted, known = set(blobs), repository.blobs
    found = {blob: known[blob] for blob in wanted if blob in known}
    new = read_objects(repository, sorted(wanted - found.keys()), "blob")
    if sum(map(len, (*known.values(), *new.values()))) <= MOST_KEPT_BYTES:
        known.update(new)
    return found | new


def read_objects(repository: Repository, ids: Sequence[str], kind: str) -> dict[str, bytes]:
    """The bytes of objects of one kind by id; missing and damaged ones are left out."""
    if not ids:
        return {}
    stdin = "".join(f"{blob}\n" for blob in ids).encode()
    try:
        out = repository.run("cat-file", "--batch", stdin=stdin)
    except GitError:
        return {}
    contents: dict[str, bytes] = {}
    at = 0
    for name in ids:
        end = out.index(b"\n", at)
        size = out[at:end].split()[-1]
        at = end + 1
        if size.isdigit():
            data = out[at : at + int(size)]
            at += int(size) + 1
            if _compute_id(kind, [data], len(data), len(name)) == name:
                contents[name] = data
    return contents


def read_tree_file(repository: Repository, tree: str, path: str) -> bytes | None:
    """The bytes of a file or link in a tree or commit; None if there is none, or its blob is
    missing or damaged. Raises GitError.

    Unlike this, ``git.py: read_file`` is for a person's own repository: there a link is no file,
    and a missing object is an error.
    """
    entries = split_names(repository.run("ls-tree", "-z", "--full-tree", tree, "--", path))
    blobs = [entry.split("\t")[0].split(" ")[2] for entry in entries if " blob " in entry]
    return read_blobs(repository, blobs).get(blobs[0]) if blobs else None


def compute_blob_id(parts: Iterable[bytes], size: int, length: int) -> str:
    """The object id (``length`` hex digits) of a blob of ``size`` bytes, given in parts."""
    return _compute_id("blob", parts, size, length)


def _compute_id(kind: str, parts: Iterable[bytes], size: int, length: int) -> str:
    digest = hashlib.sha1() if length == 40 else hashlib.sha256()  # noqa: S324
    digest.update(b"%s %d\0" % (kind.encode(), size))
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def write_blob(repository: Repository, data: bytes, length: int) -> str:
    """Store a blob; returns its id, which has ``length`` hex digits."""
    return write_object(repository, "blob", data, length)


def write_object(repository: Repository, kind: str, data: bytes, length: int) -> str:
    """Store a loose object; returns its id, which has ``length`` hex digits."""
    name = _compute_id(kind, [data], len(data), length)
    file = repository.folder / "objects" / name[:2] / name[2:]
    file.parent.mkdir(exist_ok=True)
    if not file.exists():
        file.write_bytes(zlib.compress(b"%s %d\0" % (kind.encode(), len(data)) + data, 1))
    return name


def make_tree(repository: Repository, base: str, entries: Iterable[tuple[str, str, str]]) -> str:
    """Make the tree that differs from ``base`` in these paths: (mode, blob, path), with mode
    ``000000`` for a deleted one. Returns its id. Reads no blob.

    Raises GitError, ValueError if other paths differ: git skips some names, such as ``.git``.
    """
    # Deletions first: a deleted file's path may now be a folder.
    wanted = sorted(entries, key=lambda entry: (entry[0] != GONE, entry))
    rows = (f"{mode} {blob}\t".encode() + os.fsencode(path) for mode, blob, path in wanted)
    with open_scratch_index(repository, base) as index:
        stdin = b"".join(row + b"\0" for row in rows)
        repository.run("update-index", "-z", "--index-info", stdin=stdin, index=index)
        tree = write_tree(repository, index)
    raw = split_names(repository.run("diff-tree", "-r", "-z", "--raw", *PLAIN_DIFF, base, tree))
    pairs = zip(raw[::2], raw[1::2], strict=True)
    differing = [(meta.split(" ")[1], meta.split(" ")[3], path) for meta, path in pairs]
    if sorted(differing) != sorted(wanted):
        raise ValueError("git cannot make a tree of these files")
    return tree
