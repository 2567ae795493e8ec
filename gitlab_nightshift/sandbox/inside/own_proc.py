"""``launcher.py own_proc COMMAND…``: mount this PID namespace's ``/proc``, drop the right to mount
and most others, and become the command.

It keeps the capabilities to give files back to other users, and to make a user namespace in which
root stays root (``CAP_SETFCAP``, user_namespaces(7)).
"""

import os

from .privileges import keep_capabilities
from .syscalls import mount

# linux/capability.h, linux/mount.h
CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETFCAP = 0, 1, 3, 4, 31
NOSUID, NODEV, NOEXEC = 2, 4, 8


def main(*command: str) -> None:
    """Become the command."""
    # Before the capabilities go: a mount needs CAP_SYS_ADMIN (mount(2)).
    mount(b"proc", b"/proc", NOSUID | NODEV | NOEXEC)
    keep_capabilities(CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETFCAP)
    os.execv(command[0], command)  # noqa: S606
