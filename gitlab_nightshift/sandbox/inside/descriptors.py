"""A confined process inherits three plain descriptors and nothing else."""

import os
import stat

HIGHEST = 1 << 20


def check_standard() -> None:
    """Refuse a standard stream that is a socket (it could send anywhere) or a folder (an escape).

    Raises OSError.
    """
    for fd in (0, 1, 2):
        mode = os.fstat(fd).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or _is_harmless_device(fd, mode)):
            raise PermissionError(f"descriptor {fd} is not a pipe, file or terminal")


def _is_harmless_device(fd: int, mode: int) -> bool:
    if not stat.S_ISCHR(mode):
        return False
    # /dev/null and /dev/zero: Documentation/admin-guide/devices.txt
    return os.isatty(fd) or os.fstat(fd).st_rdev in (os.makedev(1, 3), os.makedev(1, 5))


def close_all_but(*kept: int) -> None:
    """Close everything beyond 2 but these."""
    start = 3
    for fd in sorted(kept):
        os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, HIGHEST)
