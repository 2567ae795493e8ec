"""``python -I -S sweep.py UID GID``: as root, end every process of a dedicated user.

Then its shared memory is removed, which would outlive it.
"""
# ruff: noqa: PTH108, PTH112

import contextlib
import os
import sys

SIGKILL = 9
SHARED_MEMORY = "/dev/shm"  # noqa: S108


def main(uid: int, gid: int) -> None:
    """Become the user, so that nobody else can be hit, and end all others of it."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    assert os.getresuid() == (uid, uid, uid)
    assert uid != 0
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, SIGKILL)
    for entry in os.scandir(SHARED_MEMORY) if os.path.isdir(SHARED_MEMORY) else ():
        if entry.stat(follow_symlinks=False).st_uid == uid and not entry.is_dir():
            os.unlink(entry.path)


main(int(sys.argv[1]), int(sys.argv[2]))
