"""Attacks on files: see :mod:`.attacks`."""
# ruff: noqa: PTH101, PTH116, PTH208

from __future__ import annotations

import os

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from collections.abc import Callable

Outcome = tuple[bool | None, str]
"""Whether it got through (None: it could not be tried), and how it ended."""
ATTRIBUTE = "user.nightshift"


def read(path: str) -> Outcome:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if os.read(fd, 1):
            return True, f"{path} can be read"
        return False, "empty"
    except IsADirectoryError:
        return list_folder(path)
    finally:
        os.close(fd)


def list_folder(path: str) -> Outcome:
    return bool(os.listdir(path)), f"{path} can be listed"


def _compare_inode(path: str, device: int, inode: int) -> Outcome:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
    finally:
        os.close(fd)
    if (status.st_dev, status.st_ino) == (device, inode):
        return True, f"{path} is the real one"
    return False, "another file is in its place"


def _write(path: str) -> Outcome:
    """Create a file. Only the outside can tell whether it is real: /tmp may be another one here."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.close(fd)
    return True, f"{path} can be made"


def _open_to_write(path: str) -> Outcome:
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    return True, f"{path} can be opened for writing"


def _check_usable(path: str) -> Outcome:
    """Not an attack: a program that agents need must be readable and executable."""
    os.close(os.open(path, os.O_RDONLY))
    return os.access(path, os.X_OK), f"{path} is not executable"


def _change_mode(path: str) -> Outcome:
    os.chmod(path, 0o600)
    return True, f"{path}: its mode can be changed"


def _set_mode(path: str) -> Outcome:
    """Set the mode it already has, so that nothing changes where this is allowed."""
    os.chmod(path, os.stat(path).st_mode & 0o7777)
    return True, f"{path}: its mode can be set"


def _change_mode_by_descriptor(path: str) -> Outcome:
    """Change it through an ``O_PATH`` descriptor, which opens without any right from Landlock."""
    held = os.open(path, os.O_PATH)
    try:
        return _change_mode(f"/proc/self/fd/{held}")
    finally:
        os.close(held)


def _change_times(path: str) -> Outcome:
    os.utime(path, (1, 1))
    return True, f"{path}: its times can be changed"


def _change_owner(path: str) -> Outcome:
    """Set the owner it already has, which only the owner may."""
    os.chown(path, os.getuid(), os.getgid())
    return True, f"{path}: its owner can be changed"


def _change_attribute(path: str) -> Outcome:
    os.setxattr(path, ATTRIBUTE, b"x")
    return True, f"{path}: it can be given an attribute"


VERBS: dict[str, Callable[..., Outcome]] = {
    "read": read,
    "list": list_folder,
    "same": _compare_inode,
    "write": _write,
    "open_to_write": _open_to_write,
    "change_mode": _change_mode,
    "set_mode": _set_mode,
    "change_mode_held": _change_mode_by_descriptor,
    "change_times": _change_times,
    "change_owner": _change_owner,
    "change_attribute": _change_attribute,
    "usable": _check_usable,
}
