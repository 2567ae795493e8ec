"""What programs print, kept raw: without secrets, bounded, compressed where it is large.

A small output is a plain file. A larger one is a row of gzip members, each whole by itself: what a
full disk or a kill leaves can be unpacked to its last member.
"""

import contextlib
import gzip
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from gitlab_nightshift.errors import is_disk_full
from gitlab_nightshift.host.space import Reserve
from gitlab_nightshift.redaction import REDACTED, Redactor

LARGE = 1_000_000
"""Bytes beyond which an output is compressed, and of which a gzip member is made."""
MOST_PRINTED = 100_000_000
"""Bytes that are kept of both outputs of one program, before they are compressed: who unpacks a
log gets no more."""
MOST_STORED = 80_000_000
"""Bytes of all logs of a run on disk. GitLab refuses artifacts beyond 100 MB by default, and with
them the result. A program gets half of what is left, so that none leaves nothing to the next."""
LAST = 64 * 1024
"""Bytes of the end of an output that are kept in any case: it tells most."""
SECRET = 64 * 1024
"""Bytes before those, read with them: a secret that begins there is found."""


@dataclass
class _Allowance:
    """What may still be kept of a program's outputs, in bytes as printed and as stored."""

    printed: int
    stored: int


class Log:
    """One output of a program, written while it comes. Never raises for a full disk."""

    def __init__(
        self, path: Path, allowance: _Allowance, redact: Redactor, reserve: Reserve
    ) -> None:
        self._path, self._allowance, self._reserve = path, allowance, reserve
        self._redact, self._stream = redact, redact.stream()
        self._block, self._size, self._why = bytearray(), 0, ""
        self._last: deque[bytes] = deque()
        self._last_size = 0
        stored(path).unlink(missing_ok=True)
        path.touch()

    def write(self, data: bytes) -> None:
        """Take what was printed; what goes beyond a bound is left out.

        What the stream holds back then stays out as well: it may be the beginning of a secret.
        """
        self._remember(data)
        if self._why:
            return
        kept = data[: self._allowance.printed]
        self._allowance.printed -= len(kept)
        self._block += self._stream.feed(kept)
        while len(self._block) > LARGE:
            self._store(LARGE)
        if len(kept) < len(data):
            self._why = f"no more than {MOST_PRINTED // 1_000_000} MB of a program are kept"

    def close(self) -> None:
        """Write what is waiting; of an output that was cut, say why, and its last bytes."""
        if not self._why:
            self._block += self._stream.finish()
        if len(self._block) > self._allowance.stored:
            self._cut("the logs of this run are large enough")
        if self._why:
            told = f"\n[nightshift: output is left out here: {self._why}; its end:]\n"
            self._block += told.encode() + self._end()
        self._store(len(self._block), last=True)

    def _store(self, size: int, *, last: bool = False) -> None:
        packed = self._size > 0 or size < len(self._block) or size > LARGE
        data = bytes(self._block[:size])
        data = gzip.compress(data, 6, mtime=0) if packed else data
        if not last and len(data) > self._allowance.stored:
            return self._cut("the logs of this run are large enough")
        if packed and self._path.exists():
            self._path.rename(self._path.with_name(f"{self._path.name}.gz"))
        # The reserve is for the end: while a program runs it would fill that, too.
        if not (
            self._appended(data) or (last and self._reserve.release() and self._appended(data))
        ):
            return self._cut("the disk was full")
        del self._block[:size]
        self._allowance.stored -= len(data)

    def _cut(self, why: str) -> None:
        self._why = self._why or why
        self._block.clear()

    def _appended(self, data: bytes) -> bool:
        """Add to the file, all or nothing; False where the disk is full."""
        left = data
        try:
            with stored(self._path).open("ab", buffering=0) as file:
                while left:
                    left = left[file.write(left) :]
        except OSError as error:
            if not is_disk_full(error):
                raise
            os.truncate(stored(self._path), self._size)
            return False
        self._size += len(data)
        return True

    def _remember(self, data: bytes) -> None:
        self._last.append(data)
        self._last_size += len(data)
        while self._last_size - len(self._last[0]) >= LAST + SECRET:
            self._last_size -= len(self._last.popleft())

    def _end(self) -> bytes:
        """The last bytes, without what may be the rest of a secret that begins before them."""
        whole = b"".join(self._last)
        at = max(len(whole) - LAST, min(SECRET, len(whole)))
        parts: list[bytes] = []
        for start, end in self._redact.spans(whole):
            if end > at:
                parts += [whole[at : max(start, at)], REDACTED.encode()]
                at = end
        return b"".join((*parts, whole[at:]))


@dataclass(frozen=True)
class Logs:
    """A private folder of logs. ``reserve`` is given up for them where the disk is full."""

    folder: Path
    redact: Redactor
    reserve: Reserve

    @contextlib.contextmanager
    def opened(self, *names: str) -> Iterator[tuple[Log, ...]]:
        """New logs, such as ``1.out`` and ``1.err``, for as long as a program runs."""
        now = sum(path.stat().st_size for path in self.folder.iterdir())
        allowance = _Allowance(MOST_PRINTED, max(MOST_STORED - now, 0) // 2)
        with contextlib.ExitStack() as stack:
            yield tuple(stack.enter_context(self._log(name, allowance)) for name in names)

    @contextlib.contextmanager
    def _log(self, name: str, allowance: _Allowance) -> Iterator[Log]:
        log = Log(self.folder / name, allowance, self.redact, self.reserve)
        try:
            yield log
        finally:
            log.close()

    def path(self, name: str) -> Path:
        """A log by its plain name: where it is now, compressed or not."""
        return stored(self.folder / name)

    def tail(self, name: str, most: int) -> bytes:
        """The last ``most`` bytes of a log, b"" where there is none."""
        path = self.path(name)
        with contextlib.suppress(FileNotFoundError), reading(path) as file:
            if path.suffix != ".gz":
                file.seek(max(path.stat().st_size - most, 0))
            end = b""
            while data := file.read(LARGE):
                end = (end + data)[-most:]
            return end
        return b""

    def rename(self, old: str, new: str) -> None:
        """Give both outputs of a program another name."""
        for kind in ("out", "err"):
            path = self.path(f"{old}.{kind}")
            path.rename(path.with_name(path.name.replace(old, new, 1)))

    def write(self, name: str, text: str) -> None:
        """A text of this program's own, such as a traceback."""
        with contextlib.suppress(OSError):
            (self.folder / name).write_text(self.redact(text), encoding="utf-8")


def logs_in(private: Path, redact: Redactor) -> Logs:
    """The logs of a run with that private folder."""
    folder = private / "logs"
    folder.mkdir(exist_ok=True)
    return Logs(folder, redact, Reserve(private / "reserve"))


def stored(path: Path) -> Path:
    """A log by its plain name: where it is now."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if packed.exists() else path


def reading(path: Path) -> IO[bytes]:
    """A log open for reading, unpacked."""
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")
