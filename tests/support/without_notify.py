"""Run a command on a kernel that has no seccomp user notification, as before Linux 5.0: a filter
refuses it to the whole tree, as such a kernel does.

    python without_notify.py COMMAND...
"""

import os
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gitlab_nightshift.sandbox.inside.seccomp import (
    ALLOW,
    ANY_BIT,
    EQUAL,
    NUMBER_AT,
    answer,
    assemble,
    branch_when,
    fail,
    load,
    load_argument,
)
from gitlab_nightshift.sandbox.inside.syscalls import NUMBERS, Buffer, call_prctl, make_syscall

EINVAL, NEW_LISTENER, NO_NEW_PRIVS = 22, 8, 38


def refuse_notification() -> None:
    """From here on neither this process nor what it starts can have a listener."""
    listener = [load_argument(1), *branch_when(ANY_BIT, NEW_LISTENER, fail(EINVAL)), *answer(ALLOW)]
    data = assemble(
        [load(NUMBER_AT), *branch_when(EQUAL, NUMBERS["seccomp"], listener), *answer(ALLOW)],
    )
    filters = Buffer(data)
    call_prctl(NO_NEW_PRIVS, 1)
    make_syscall("seccomp", 1, 0, struct.pack("=HxxxxxxQ", len(data) // 8, filters.address))


if __name__ == "__main__":
    refuse_notification()
    os.execvp(sys.argv[1], sys.argv[1:])
