"""The sender's side of the output: events, logs and records go to the redactor, one way.

Nothing ever comes back: an answer would reveal what is a secret.
"""

import json
import os
import select
import threading
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.events import Event, Note
from gitlab_nightshift.system.signals import defer_signals
from gitlab_nightshift.wire.protocol import (
    LARGEST_EVENT,
    LARGEST_FRAME,
    FrameKind,
    encode_event,
    encode_frame,
    split,
)

LONGEST_LOG_TEXT = 150_000
"""Characters of a text that is sent as a log, so that it fits into one frame, escaped."""


class OutputChannel:
    """A pipe to the redactor, for all threads of a process; calling it sends an event.

    A full pipe makes the caller wait. If the redactor is gone, or has cut this sender off, one
    NightshiftError (``E_INTERNAL``) is raised; later messages are dropped, so that clean-up can go
    on. After an ``Interruption`` by a signal, the next message first sends the rest of the last.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)  # a blocking write would not let a signal through
        os.set_inheritable(descriptor, False)
        self._descriptor, self._unsent = descriptor, bytearray()
        self._lock = threading.Lock()
        self._logs = 0
        self.gone = False

    def __call__(self, event: Event) -> None:
        """Send an event."""
        data = encode_event(event)
        if len(data) > LARGEST_EVENT:
            text = f"an event of {len(data)} bytes is left out: {type(event).__name__}"
            data = encode_event(Note(text, warning=True))
        *parts, last = split(data)
        self._send(*((FrameKind.PART, part) for part in parts), (FrameKind.EVENT, last))

    def send_record(self, name: str, data: bytes) -> None:
        """Send a whole file of the results, by its name in them; a later one replaces it."""
        parts = split(data) if data else []
        self._send(
            *((FrameKind.PART, part) for part in parts), (FrameKind.RECORD, _encode_json(name))
        )

    def send_text(self, name: str, text: str) -> None:
        """Send a log of this program's own, such as a traceback; of a long one its end."""
        data = _encode_json({"name": name, "text": text[-LONGEST_LOG_TEXT:]})
        self._send((FrameKind.TEXT, data))

    def open_logs(self, *names: str) -> int:
        """Begin logs that share a bound. The first one's number in ``log``; the others follow."""
        with self._lock:
            first, self._logs = self._logs, self._logs + len(names)
        self._send((FrameKind.OPEN, _encode_json({"first": first, "names": names})))
        return first

    def log(self, number: int, data: bytes) -> None:
        """Send more of a log."""
        head = number.to_bytes(8, "big")
        for part in split(data, LARGEST_FRAME - len(head)):
            self._send((FrameKind.DATA, head + part))

    def close_logs(self, first: int) -> None:
        """End the logs that were opened together."""
        self._send((FrameKind.CLOSE, _encode_json({"first": first})))

    def rename_log(self, old: str, new: str) -> None:
        """Give a log that is closed another name."""
        self._send((FrameKind.RENAME, _encode_json({"old": old, "new": new})))

    def close(self) -> None:
        """Send the rest of an interrupted message, and close the pipe."""
        self._send()
        os.close(self._descriptor)
        self.gone = True

    def _send(self, *frames: tuple[FrameKind, bytes]) -> None:
        data = b"".join(encode_frame(kind, payload) for kind, payload in frames)
        # Of all frames at once: parts of two threads' messages would be joined to one.
        with self._lock:
            if self.gone:
                return
            with defer_signals():
                self._unsent += data
            try:
                self._flush()
            except OSError as error:
                self.gone = True
                text = f"the redactor has ended ({error.strerror}): nothing can be logged or kept"
                raise NightshiftError(Code.INTERNAL, text) from None

    def _flush(self) -> None:
        """Write all. Signals are handled between two writes, and while the pipe is full."""
        ready = select.poll()
        ready.register(self._descriptor, select.POLLOUT)
        while self._unsent:
            ready.poll()
            # Between write and del an exception would make the same bytes be sent twice.
            with defer_signals():
                try:
                    del self._unsent[: os.write(self._descriptor, self._unsent[: 1 << 16])]
                except BlockingIOError:
                    continue


def _encode_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
