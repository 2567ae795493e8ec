"""Reads and writes objects of a private repository."""

import zlib
from collections.abc import Iterable, Sequence

from gitlab_nightshift.repository.object_reader import compute_id
from gitlab_nightshift.repository.private_repository import Repository

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
    """The bytes of objects of one kind by their names, such as ids; missing and damaged ones are
    left out."""
    if not ids:
        return {}
    with repository.open_reader() as reader:
        return reader.read(ids, kind)


def compute_blob_id(parts: Iterable[bytes], size: int, length: int) -> str:
    """The object id (``length`` hex digits) of a blob of ``size`` bytes, given in parts."""
    return compute_id("blob", parts, size, length)


def write_blob(repository: Repository, data: bytes, length: int) -> str:
    """Store a blob; returns its id, which has ``length`` hex digits."""
    return write_object(repository, "blob", data, length)


def write_object(repository: Repository, kind: str, data: bytes, length: int) -> str:
    """Store a loose object; returns its id, which has ``length`` hex digits."""
    name = compute_id(kind, [data], len(data), length)
    file = repository.folder / "objects" / name[:2] / name[2:]
    file.parent.mkdir(exist_ok=True)
    if not file.exists():
        file.write_bytes(zlib.compress(b"%s %d\0" % (kind.encode(), len(data)) + data, 1))
    return name
