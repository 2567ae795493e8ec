"""Reads git objects through one process, for any number of requests."""

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gitlab_nightshift.repository.git import Git
from gitlab_nightshift.repository.git_formats import is_full_id, parse_header
from gitlab_nightshift.sandbox.process import LONGEST_REQUEST, BatchProcess


class ObjectReader:
    """Reads objects of the repository in ``folder`` by ``git cat-file --batch``. The process starts
    with the first request, and again after a damaged object, at which git ends."""

    def __init__(self, git: Git, folder: Path) -> None:
        self._git, self._folder = git, folder
        self._stack = contextlib.ExitStack()
        self._process: BatchProcess | None = None
        self._lock = threading.Lock()

    def read(self, names: Sequence[str], kind: str) -> dict[str, bytes]:
        """The bytes of objects of one kind by their names, which may be ids or other revisions.
        Missing and damaged ones are left out, and so are those after a damaged one."""
        objects: dict[str, bytes] = {}
        with self._lock, contextlib.suppress(EOFError, OSError), self._close_on_error():
            for batch in _split_batches(names):
                objects.update(self._request(batch, kind))
        return objects

    def measure(self, ids: Iterable[str], largest: int) -> dict[str, int]:
        """The sizes in bytes of objects by id, up to the first one larger than ``largest``; missing
        ones are left out. Raises EOFError if git ends, as at a damaged object, and OSError."""
        sizes: dict[str, int] = {}
        with self._lock, self._close_on_error():
            for name in ids:
                process = self._send([name])
                if header := parse_header(os.fsdecode(process.read_line())):
                    sizes[name] = size = header[1]
                    if size > largest:  # end git rather than read all of its bytes
                        self.close()
                        break
                    process.read(size + 1)
        return sizes

    def close(self) -> None:
        """End the process, if it runs."""
        self._process = None
        self._stack.close()

    @contextlib.contextmanager
    def _close_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:  # the rest of this answer would be read as the next one
            self.close()
            raise

    def _send(self, names: Sequence[str]) -> BatchProcess:
        if self._process is None:
            opened = self._git.open_batch_process(
                "cat-file", "--batch", cwd=self._folder, env={"GIT_DIR": str(self._folder)}
            )
            self._process = self._stack.enter_context(opened)
        self._process.send(b"".join(os.fsencode(name) + b"\n" for name in names))
        return self._process

    def _request(self, names: Sequence[str], kind: str) -> Iterator[tuple[str, bytes]]:
        process = self._send(names)
        for name in names:
            if header := parse_header(os.fsdecode(process.read_line())):
                object_id, size = header
                data = process.read(size + 1)[:-1]
                # An agent may write to the object folders meanwhile: an answer counts only if its
                # bytes have the requested id.
                requested = object_id == name or not is_full_id(name)
                if requested and compute_id(kind, [data], size, len(object_id)) == object_id:
                    yield name, data


def _split_batches(names: Sequence[str]) -> Iterator[list[str]]:
    """The names in batches of up to ``LONGEST_REQUEST`` bytes."""
    batch: list[str] = []
    batch_size = 0
    for name in (name for name in names if "\n" not in name):  # it would be two requests
        size = len(os.fsencode(name)) + 1
        if batch_size + size > LONGEST_REQUEST:
            yield batch
            batch, batch_size = [], 0
        batch.append(name)
        batch_size += size
    if batch:
        yield batch


def compute_id(kind: str, parts: Iterable[bytes], size: int, id_length: int) -> str:
    """The id (``id_length`` hex digits) of an object of ``size`` bytes, which come in parts."""
    digest = hashlib.sha1() if id_length == 40 else hashlib.sha256()  # noqa: S324
    digest.update(b"%s %d\0" % (kind.encode(), size))
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
