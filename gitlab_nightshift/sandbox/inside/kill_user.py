"""``python -I -S kill_user.py UID GID``: as root, kill every process of a dedicated user."""

import contextlib
import os
import sys

SIGKILL = 9


def main(uid: int, gid: int) -> None:
    """Become the user, so that no other user's process can be killed, and kill all but this one."""
    # As root, kill(-1) would end the whole machine.
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    assert os.getresuid() == (uid, uid, uid)
    assert uid != 0
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, SIGKILL)  # all that this user may signal, but not this process (kill(2))


main(int(sys.argv[1]), int(sys.argv[2]))
