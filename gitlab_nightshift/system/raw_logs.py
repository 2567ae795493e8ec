"""Logs of the raw output of programs: redacted, bounded, compressed if large.

A small output is a plain file. A larger one is a sequence of gzip members, each complete in itself:
after a full disk or a kill, it can be unpacked up to its last member.
"""

import contextlib
import gzip
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, cast

from gitlab_nightshift.errors import is_disk_full
from gitlab_nightshift.system.disk_reserve import Reserve
from gitlab_nightshift.system.file_names import open_to_append
from gitlab_nightshift.system.openat import write_all

if TYPE_CHECKING:
    from gitlab_nightshift.redaction.redactor import Redactor

GZIP_MEMBER_BYTES = 1_000_000
"""Bytes beyond which an output is compressed, and the size of a gzip member before compression."""
OMISSION_MARK = b"[nightshift: output is left out here:"
MOST_PRINTED_BYTES = 100_000_000
"""Bytes to keep of both outputs of one program, before compression: no log unpacks to more."""
MOST_STORED_BYTES = 80_000_000
"""Bytes of all logs of a run on disk: by default GitLab refuses artifacts beyond 100 MB, and so the
result among them. Each program gets half of what is left, so that the next one gets some too."""
END_BYTES = 64 * 1024
"""Bytes of the end of an output that are always kept, as the end is the most useful part."""
SECRET_BYTES = 64 * 1024
"""Bytes before ``END_BYTES`` that are remembered too: a secret may begin there."""


class Sink(Protocol):
    """A destination of a program's output: an open file, or a log."""

    def write(self, data: bytes, /) -> object:
        """Append the next bytes."""
        ...


@dataclass
class _Allowance:
    """The bytes of a program's outputs that may still be kept: ``printed`` counts them before
    compression, ``stored`` on disk."""

    printed: int
    stored: int


class Log:
    """One output of a program, written as it comes. Never raises for a full disk."""

    def __init__(
        self, path: Path, allowance: _Allowance, redact: "Redactor", reserve: Reserve
    ) -> None:
        self._path, self._allowance, self._reserve = path, allowance, reserve
        self._redact, self._stream = redact, redact.build_stream()
        self._unstored, self._stored_size, self._cut_reason = bytearray(), 0, ""
        # At least END_BYTES and SECRET_BYTES together.
        self._last_chunks: deque[bytes] = deque()
        self._last_size = 0
        find_stored_log(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        path.touch(exist_ok=False)

    def write(self, data: bytes) -> None:
        """Append the next bytes; those beyond a limit are left out.

        If some are, so are the bytes before them that the redactor holds back: they may begin a
        secret.
        """
        self._remember(data)
        if self._cut_reason:
            return
        allowed = data[: self._allowance.printed]
        self._allowance.printed -= len(allowed)
        self._unstored += self._stream.feed(allowed)
        while len(self._unstored) > GZIP_MEMBER_BYTES:
            self._store(GZIP_MEMBER_BYTES)
        if len(allowed) < len(data):
            self._cut_reason = (
                f"no more than {MOST_PRINTED_BYTES // 1_000_000} MB of a program are kept"
            )

    def close(self) -> None:
        """Store what is left; of an output that was cut, the reason and the last bytes."""
        if not self._cut_reason:
            self._unstored += self._stream.finish()
        if len(self._unstored) > self._allowance.stored:
            self._cut("the logs of this run are large enough")
        if self._cut_reason:
            note = f" {self._cut_reason}; its end:]\n".encode()
            self._unstored += b"\n" + OMISSION_MARK + note + self._redact_end()
        self._store(len(self._unstored), last=True)

    def _store(self, size: int, *, last: bool = False) -> None:
        """Store the first ``size`` bytes of those that are not stored yet."""
        is_large = size < len(self._unstored) or size > GZIP_MEMBER_BYTES
        compressed = is_large or find_stored_log(self._path) != self._path
        data = bytes(self._unstored[:size])
        if compressed:
            # Members can simply follow one another (RFC 1952, 2.2); mtime 0: reproducible bytes.
            data = gzip.compress(data, 6, mtime=0)
        if not last and len(data) > self._allowance.stored:
            return self._cut("the logs of this run are large enough")
        # The plain file is still empty: nothing is stored before there is more than one member.
        if compressed and self._path.exists():
            self._path.rename(self._path.with_name(f"{self._path.name}.gz"))
        # The reserve is for the end: a running program would fill that space too.
        if not (self._append(data) or (last and self._reserve.release() and self._append(data))):
            return self._cut("the disk was full")
        del self._unstored[:size]
        self._allowance.stored -= len(data)

    def _cut(self, reason: str) -> None:
        self._cut_reason = self._cut_reason or reason
        self._unstored.clear()

    def _append(self, data: bytes) -> bool:
        """Append to the file, all or nothing; False if the disk is full."""
        if not data:
            return True
        with open_to_append(find_stored_log(self._path)) as file:
            try:
                write_all(file.fileno(), data)
            except OSError as error:
                if not is_disk_full(error):
                    raise
                file.truncate(self._stored_size)
                return False
        self._stored_size += len(data)
        return True

    def _remember(self, data: bytes) -> None:
        self._last_chunks.append(data)
        self._last_size += len(data)
        while self._last_size - len(self._last_chunks[0]) >= END_BYTES + SECRET_BYTES:
            self._last_size -= len(self._last_chunks.popleft())

    def _redact_end(self) -> bytes:
        """The last bytes, redacted, also if a secret begins before them."""
        from gitlab_nightshift.redaction.redactor import REDACTED

        text = b"".join(self._last_chunks)
        # Not before SECRET_BYTES: a secret that begins before the first chunk would not be found.
        position = max(len(text) - END_BYTES, min(SECRET_BYTES, len(text)))
        parts: list[bytes] = []
        for start, end in self._redact.find_spans(text):
            if end > position:
                parts += [text[position : max(start, position)], REDACTED.encode()]
                position = end
        return b"".join((*parts, text[position:]))


@dataclass(frozen=True)
class Logs:
    """The logs in a private folder. If the disk is full, ``reserve`` is released for their ends."""

    folder: Path
    redact: "Redactor"
    reserve: Reserve

    @contextlib.contextmanager
    def open_logs(self, *names: str) -> Iterator[tuple[Sink, ...]]:
        """New logs, such as ``1.out`` and ``1.err``, for as long as a program runs."""
        stored = sum(path.stat().st_size for path in self.folder.iterdir())
        allowance = _Allowance(MOST_PRINTED_BYTES, max(MOST_STORED_BYTES - stored, 0) // 2)
        with contextlib.ExitStack() as stack:
            logs = (Log(self.folder / name, allowance, self.redact, self.reserve) for name in names)
            yield tuple(stack.enter_context(contextlib.closing(log)) for log in logs)

    def find_log(self, name: str) -> Path:
        """The path of a log by its plain name, compressed or not."""
        return find_stored_log(self.folder / name)

    def read_tail(self, name: str, size: int) -> bytes:
        """The last ``size`` bytes of a log, b"" if there is none."""
        path = self.find_log(name)
        with contextlib.suppress(FileNotFoundError), open_log(path) as file:
            if path.suffix != ".gz":
                file.seek(max(path.stat().st_size - size, 0))
            tail = b""
            while data := file.read(GZIP_MEMBER_BYTES):
                tail = (tail + data)[-size:]
            return tail
        return b""

    def rename(self, old: str, new: str) -> None:
        """Give both outputs of a program another name."""
        for kind in ("out", "err"):
            path = self.find_log(f"{old}.{kind}")
            path.rename(path.with_name(path.name.replace(old, new, 1)))

    def write(self, name: str, text: str) -> None:
        """Write a text of this program, such as a traceback, redacted."""
        path = self.folder / name
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            with path.open("x", encoding="utf-8", errors="backslashreplace") as file:
                file.write(self.redact(text))


def build_logs(private: Path, redact: "Redactor") -> Logs:
    """The logs in the private folder of a run."""
    folder = private / "logs"
    folder.mkdir(exist_ok=True)
    return Logs(folder, redact, Reserve(private / "reserve"))


def find_stored_log(path: Path) -> Path:
    """The path at which a log is stored: ``path``, or with ``.gz`` if the log is compressed."""
    compressed = path.with_name(f"{path.name}.gz")
    return compressed if compressed.exists() else path


def open_log(path: Path) -> IO[bytes]:
    """Open a log to read it decompressed."""
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def move_logs(source: Path, target: Path) -> None:
    """Move the logs of a folder to another one, such as the results'."""
    target.mkdir(parents=True, exist_ok=True)
    for log in source.iterdir():
        log.rename(target / log.name)
