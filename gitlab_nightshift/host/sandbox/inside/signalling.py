"""Signals stay inside the tree where Landlock cannot see to it (ABI below 6, Linux below 6.12).

All arguments are numbers, so nothing can be changed after the look.
"""

from __future__ import annotations

import os

from .family import Process, descends, processes
from .notify import Call
from .numbers import NUMBERS
from .seccomp import SIGNALS

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from collections.abc import Callable

EPERM = 1


class Signalling:
    """Lets a signal through where every receiver is in the tree below this process."""

    def __init__(self, refuse: Callable[[str], None]) -> None:
        self._refuse, self._keeper = refuse, os.getpid()

    def handlers(self) -> dict[int, Callable[[Call], None]]:
        """What is done for which call."""
        return {NUMBERS[name]: self._signal for name in SIGNALS}

    def _signal(self, call: Call) -> None:
        target = call.int_argument(0)
        receivers = [target] if target > 0 else self._group(call, -target)
        if all(descends(pid, self._keeper) for pid in receivers):
            call.let_through()
            return
        self._refuse(f"signal to process {target}")
        call.answer(EPERM)

    def _group(self, call: Call, group: int) -> list[int]:
        """The members of a process group; 0 is the caller's own, 1 (from -1) is everybody."""
        if group == 1:
            return [os.getppid()]
        group = group or Process(call.thread).group
        return [p.pid for p in processes() if p.group == group and p.pid != self._keeper]
