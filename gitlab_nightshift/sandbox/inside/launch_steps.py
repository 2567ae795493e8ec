"""The launcher's steps: each succeeds, or ends the process with its own exit status and a line."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from types import TracebackType

NOT_FOUND = 127
STATUSES = {
    "spec": 101,
    "descriptors": 102,
    "session": 103,
    "limits": 104,
    "monitor": 105,
    "user": 106,
    "privileges": 107,
    "parent": 108,
    "keyring": 109,
    "folder": 110,
    "files": 111,
    "calls": 112,
    "gates": 113,
    "program": NOT_FOUND,
}


class Steps:
    """Reports the progress of the launch on the status pipe."""

    def __init__(self, status: int) -> None:
        self._status = status

    def run_step(self, name: str) -> _Step:
        """One step, for a ``with`` statement."""
        return _Step(self._status, name)

    def report_ready(self) -> None:
        """Report that the boundary is in force. Raises OSError if the parent is gone."""
        os.write(self._status, b"ready\n")


class _Step:
    def __init__(self, status: int, name: str) -> None:
        self._status, self._name = status, name

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            return
        line = f"failed {self._name}: {error}"[:500].encode("utf-8", "backslashreplace")
        try:
            os.write(self._status, line.replace(b"\n", b" ") + b"\n")
        finally:
            os._exit(STATUSES[self._name])
