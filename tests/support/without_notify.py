"""Run a command on a kernel that has no seccomp user notification, as before Linux 5.0: a filter
refuses it to the whole tree, as such a kernel does.

    python without_notify.py COMMAND...
"""

import os
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gitlab_nightshift.host.sandbox.inside.bpf import (
    ALLOW,
    ANY_BIT,
    EQUAL,
    NUMBER_AT,
    argument,
    assemble,
    fail,
    give,
    load,
    when,
)
from gitlab_nightshift.host.sandbox.inside.kernel import Buffer, prctl, syscall
from gitlab_nightshift.host.sandbox.inside.numbers import NUMBERS

EINVAL, NEW_LISTENER, NO_NEW_PRIVS = 22, 8, 38


def main(command: list[str]) -> None:
    listener = [argument(1), *when(ANY_BIT, NEW_LISTENER, fail(EINVAL)), *give(ALLOW)]
    data = assemble(
        [load(NUMBER_AT), *when(EQUAL, NUMBERS["seccomp"], listener), *give(ALLOW)],
    )
    filters = Buffer(data)
    prctl(NO_NEW_PRIVS, 1)
    syscall("seccomp", 1, 0, struct.pack("=HxxxxxxQ", len(data) // 8, filters.address))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
