"""``launcher.py own_proc COMMAND…``: mount this PID namespace's ``/proc``, drop most capabilities,
and become the command.

The command may still give files back to other users, and make a user namespace in which root stays
root (``CAP_SETFCAP``, user_namespaces(7)).
"""

import os

from .privileges import CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETFCAP, keep_capabilities
from .syscalls import mount

NOSUID, NODEV, NOEXEC = 2, 4, 8  # linux/mount.h


def main(*command: str) -> None:
    """Become the command."""
    # Before the capabilities go: a mount needs CAP_SYS_ADMIN (mount(2)).
    mount(b"proc", b"/proc", NOSUID | NODEV | NOEXEC)
    keep_capabilities(CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETFCAP)
    os.execv(command[0], command)  # noqa: S606
