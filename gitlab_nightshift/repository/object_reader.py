"""Reads git objects through one process, however often somebody asks."""

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gitlab_nightshift.repository.git import Git
from gitlab_nightshift.sandbox.dialogue import LONGEST_REQUEST, Dialogue


class ObjectReader:
    """Objects of the repository in ``folder``, by ``git cat-file --batch``. It starts with the
    first question and again after a damaged object, at which git ends; call ``close``."""

    def __init__(self, git: Git, folder: Path) -> None:
        self._git, self._folder = git, folder
        self._stack = contextlib.ExitStack()
        self._dialogue: Dialogue | None = None
        self._lock = threading.Lock()

    def read(self, names: Sequence[str], kind: str) -> dict[str, bytes]:
        """The bytes of objects of one kind by their names, such as ids; missing and damaged ones
        are left out, and those that follow a damaged one."""
        found: dict[str, bytes] = {}
        with self._lock:
            try:
                for request in _split_requests(names):
                    found.update(self._ask(request, kind))
            except (EOFError, OSError):
                self.close()
            except BaseException:  # what is left of the answer would be taken for the next one
                self.close()
                raise
        return found

    def close(self) -> None:
        """End the process, if there is one."""
        self._dialogue = None
        self._stack.close()

    def _ask(self, names: Sequence[str], kind: str) -> Iterator[tuple[str, bytes]]:
        if self._dialogue is None:
            opened = self._git.open_dialogue(
                "cat-file", "--batch", cwd=self._folder, env={"GIT_DIR": str(self._folder)}
            )
            self._dialogue = self._stack.enter_context(opened)
        dialogue = self._dialogue
        dialogue.send(b"".join(os.fsencode(name) + b"\n" for name in names))
        for name in names:
            # "<id> <type> <size>", or "<name> missing"; a name may have spaces (git-cat-file(1))
            found, *_, size = os.fsdecode(dialogue.read_line()).split(" ")
            if not size.isdigit():
                continue
            data = dialogue.read(int(size) + 1)[:-1]
            if compute_id(kind, [data], len(data), len(found)) == found:
                yield name, data


def _split_requests(names: Sequence[str]) -> Iterator[list[str]]:
    request: list[str] = []
    size = 0
    for name in names:
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
