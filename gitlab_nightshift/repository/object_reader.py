"""Reads git objects through one process, however often somebody asks."""

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gitlab_nightshift.repository.git import Git
from gitlab_nightshift.repository.git_formats import is_full_id, parse_header
from gitlab_nightshift.sandbox.dialogue import LONGEST_REQUEST, Dialogue


class ObjectReader:
    """Objects of the repository in ``folder``, by ``git cat-file --batch``. It starts with the
    first question and again after a damaged object, at which git ends; call ``close``.

    It may run beside an agent, so an answer counts only if it has the id that was asked for.
    """

    def __init__(self, git: Git, folder: Path) -> None:
        self._git, self._folder = git, folder
        self._stack = contextlib.ExitStack()
        self._dialogue: Dialogue | None = None
        self._lock = threading.Lock()

    def read(self, names: Sequence[str], kind: str) -> dict[str, bytes]:
        """The bytes of objects of one kind by their names, such as ids; missing and damaged ones
        are left out, and those that follow a damaged one."""
        found: dict[str, bytes] = {}
        with self._lock, contextlib.suppress(EOFError, OSError), self._close_on_error():
            for request in _split_requests(names):
                found.update(self._ask(request, kind))
        return found

    def measure(self, ids: Iterable[str], largest: int) -> dict[str, int]:
        """The sizes in bytes of objects, up to the first that is larger than ``largest``; missing
        ones are left out. Raises EOFError if git ends, as it does at a damaged one, and OSError."""
        sizes: dict[str, int] = {}
        with self._lock, self._close_on_error():
            for name in ids:
                dialogue = self._send([name])
                if header := parse_header(os.fsdecode(dialogue.read_line())):
                    sizes[name] = size = header[1]
                    if size > largest:
                        self.close()
                        break
                    dialogue.read(size + 1)
        return sizes

    def close(self) -> None:
        """End the process, if there is one."""
        self._dialogue = None
        self._stack.close()

    @contextlib.contextmanager
    def _close_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:  # what is left of the answer would be taken for the next one
            self.close()
            raise

    def _send(self, names: Sequence[str]) -> Dialogue:
        if self._dialogue is None:
            opened = self._git.open_dialogue(
                "cat-file", "--batch", cwd=self._folder, env={"GIT_DIR": str(self._folder)}
            )
            self._dialogue = self._stack.enter_context(opened)
        self._dialogue.send(b"".join(os.fsencode(name) + b"\n" for name in names))
        return self._dialogue

    def _ask(self, names: Sequence[str], kind: str) -> Iterator[tuple[str, bytes]]:
        dialogue = self._send(names)
        for name in names:
            if header := parse_header(os.fsdecode(dialogue.read_line())):
                found, size = header
                data = dialogue.read(size + 1)[:-1]
                named = found == name or not is_full_id(name)
                if named and compute_id(kind, [data], size, len(found)) == found:
                    yield name, data


def _split_requests(names: Sequence[str]) -> Iterator[list[str]]:
    request: list[str] = []
    size = 0
    for name in (name for name in names if "\n" not in name):  # it would be two questions
        length = len(os.fsencode(name)) + 1
        if size + length > LONGEST_REQUEST:
            yield request
            request, size = [], 0
        request.append(name)
        size += length
    if request:
        yield request


def compute_id(kind: str, parts: Iterable[bytes], size: int, length: int) -> str:
    """The object id of any kind of object."""
    digest = hashlib.sha1() if length == 40 else hashlib.sha256()  # noqa: S324
    digest.update(b"%s %d\0" % (kind.encode(), size))
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
