"""``events.jsonl``: every event of a run as a line of JSON, as it happens."""

import contextlib
import errno
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.errors import is_disk_full
from gitlab_nightshift.records.events import Event, Note, RunEnded, to_line
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.system.file_names import open_to_append

EVENTS = "events.jsonl"
MOST_BYTES = 20_000_000


class EventFile:
    """A sink that appends every event to a file as it happens.

    Each line has the id of the run. The file is bounded, but for the last event of all. What a full
    disk does not take is left out and counted: the next event that can be written says how many are
    missing.
    """

    def __init__(self, path: Path, redact: Callable[[str], str], run_id: str) -> None:
        self._path, self._redact, self._run_id = path, redact, run_id
        self._size = self._missing = 0

    def __call__(self, event: Event) -> None:
        if self._size >= MOST_BYTES and not isinstance(event, RunEnded):
            self._missing += 1
            return
        lines = self._encode(map_texts(event, self._redact))
        if self._missing:
            text = f"{self._missing} events are missing here: full disk, or more than is kept"
            lines = self._encode(Note(text, warning=True)) + lines
        self._append(lines)

    def _append(self, lines: bytes) -> None:
        try:
            with open_to_append(self._path) as file:
                if file.write(lines) < len(lines):
                    raise OSError(errno.ENOSPC, "no space left")
        except OSError as error:
            if not is_disk_full(error):
                raise
            self._missing += 1
            with contextlib.suppress(FileNotFoundError):
                os.truncate(self._path, self._size)  # half a line is no JSON
        else:
            self._size, self._missing = self._size + len(lines), 0

    def _encode(self, event: Event) -> bytes:
        return to_line(event, datetime.now(UTC), self._run_id).encode() + b"\n"
