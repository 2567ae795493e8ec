"""Keeps signals inside the tree if Landlock cannot (ABI below 6, Linux below 6.12).

All arguments are numbers, so nothing can change between the check and the call.
"""

from __future__ import annotations

import os

from .denied_calls import SIGNALS
from .notification import SystemCall
from .process_tree import Process, descends, list_processes
from .syscall_numbers import NUMBERS

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from collections.abc import Callable

EPERM = 1


class SignalHandler:
    """Lets a signal through if every receiver is a descendant of this process."""

    def __init__(self, refuse: Callable[[str], None]) -> None:
        self._refuse, self._monitor = refuse, os.getpid()

    def build_handlers(self) -> dict[int, Callable[[SystemCall], None]]:
        """The handler of each system call number."""
        return {NUMBERS[name]: self._handle_signal for name in SIGNALS}

    def _handle_signal(self, call: SystemCall) -> None:
        target = call.read_int_argument(0)
        receivers = [target] if target > 0 else self._list_group(call, -target)
        if all(descends(pid, self._monitor) for pid in receivers):
            call.let_through()
            return
        self._refuse(f"signal to process {target}")
        call.answer(EPERM)

    def _list_group(self, call: SystemCall, group: int) -> list[int]:
        """The members of a process group; 0 is the caller's own. For 1 (``kill(-1)``: everybody) it
        returns our parent, which is no descendant."""
        if group == 1:
            return [os.getppid()]
        group = group or Process(call.thread).group
        return [p.pid for p in list_processes() if p.group == group and p.pid != self._monitor]
