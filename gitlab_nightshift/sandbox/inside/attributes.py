"""Modes, owners, times and extended attributes: the monitor changes them, and only below the
writable folders.

Landlock does not see these calls. The monitor takes its own copy of the arguments, opens the file
that they name as the caller would, but without any right to it (``O_PATH``), asks the kernel where
that lies, and changes exactly that: a link, a folder or a descriptor that is swapped meanwhile
leads nowhere else.

A file lies where its path leads, as for Landlock. So a hard link in a writable folder is a file of
that folder; Landlock lets nobody make one to a file outside (LANDLOCK_ACCESS_FS_REFER, and before
ABI 2 no link to another folder at all).
"""
# ruff: noqa: PTH101, PTH112, PTH115

from __future__ import annotations

import os
import struct

from .kernel import make_syscall
from .notification import SystemCall
from .syscall_numbers import NUMBERS

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from collections.abc import Callable

    Deed = Callable[[str], object]

EPERM, E2BIG, EBADF, EINVAL = 1, 7, 9, 22
AT_FDCWD, NO_FOLLOW, EMPTY_PATH = -100, 0x100, 0x1000
NO_MAGIC_LINKS = 2
HOLD = os.O_PATH | os.O_CLOEXEC
LONGEST_PATH, LONGEST_NAME, LONGEST_VALUE = 4096, 256, 65536
PERMISSIONS, UNCHANGED = 0o7777, 0xFFFFFFFF


class FileArguments:
    """Which arguments name the file: a path, a descriptor (of the folder, or of the file where
    there is no path), flags. ``follow``: a symbolic link stands for what it names."""

    def __init__(
        self,
        *,
        path: int | None = None,
        fd: int | None = None,
        flags: int | None = None,
        follow: bool = True,
    ) -> None:
        self.path, self.fd, self.flags, self.follow = path, fd, flags, follow


class AttributeHandler:
    """The files of one tree: those below ``folders``, which are paths without links. What becomes a
    link is outside: nothing is looked up in them."""

    def __init__(self, folders: list[str], refuse: Callable[[str], None]) -> None:
        self._refuse = refuse
        self._folders = [os.fsencode(folder) for folder in folders]

    def build_handlers(self) -> dict[int, Callable[[SystemCall], None]]:
        """What is done for which call."""
        return {NUMBERS[name]: self._build_handler(name) for name in CALLS if name in NUMBERS}

    def _build_handler(self, name: str) -> Callable[[SystemCall], None]:
        named, copied, first = CALLS[name]

        def change(call: SystemCall) -> None:
            deed = copied(call, first)
            held = _open_file(call, named)
            try:
                call.check_waiting()
                file = f"/proc/self/fd/{held}"
                place = os.readlink(os.fsencode(file))
                if not self._lies_inside(place):
                    # git refreshes the times of objects that it borrows: not worth a report
                    if copied not in TIMES or call.arguments[first]:
                        self._refuse(f"{name} of {os.fsdecode(place)}")
                    raise PermissionError(EPERM, "outside")
                deed(file)
            finally:
                os.close(held)
            call.answer()

        return change

    def _lies_inside(self, place: bytes) -> bool:
        return any(place == top or place.startswith(top + b"/") for top in self._folders)


# --- the file ---------------------------------------------------------------------------------


def _open_file(call: SystemCall, named: FileArguments) -> int:
    """A descriptor of the file that a call is about. Raises OSError."""
    flags = call.arguments[named.flags] & 0xFFFFFFFF if named.flags is not None else 0
    if flags & ~(NO_FOLLOW | EMPTY_PATH):
        raise OSError(EINVAL, "flags that nobody knows")
    fd = AT_FDCWD if named.fd is None else call.read_int_argument(named.fd)
    if named.path is None or (fd >= 0 and not call.arguments[named.path]):
        return _copy_descriptor(call, fd)
    path = call.read_text(named.path, LONGEST_PATH)
    if flags & EMPTY_PATH and not path:
        return _open_folder(call, fd)
    return _open_path(call, fd, path, follow=named.follow and not flags & NO_FOLLOW)


def _open_path(call: SystemCall, fd: int, path: bytes, *, follow: bool) -> int:
    """What a path names for the caller: ``/proc/self`` is the caller's, not ours."""
    if own := _find_own_descriptor(path, call.thread):
        fd, path = own
        if not path:
            if not follow:
                raise PermissionError(EPERM, "a link of the kernel's")
            return _copy_descriptor(call, fd)
    folder = AT_FDCWD if path.startswith(b"/") else _open_folder(call, fd)
    how = struct.pack("=QQQ", HOLD | (0 if follow else os.O_NOFOLLOW), 0, NO_MAGIC_LINKS)
    try:
        return make_syscall("openat2", folder, path, how, len(how))
    finally:
        if folder != AT_FDCWD:
            os.close(folder)


def _find_own_descriptor(path: bytes, thread: int) -> tuple[int, bytes] | None:
    """The caller's descriptor that a path begins with, and the rest of the path.

    C libraries change what they hold without rights by ``/proc/self/fd/N``.
    """
    if path.startswith(b"/dev/fd/"):
        rest = path[8:]
    elif path.startswith(b"/proc/"):
        who, _, rest = path[6:].partition(b"/")
        if not rest.startswith(b"fd/") or not _is_callers(who, thread):
            return None
        rest = rest[3:]
    else:
        return None
    number, _, below = rest.partition(b"/")
    return (int(number), below.lstrip(b"/")) if number.isdigit() else None


def _is_callers(process: bytes, thread: int) -> bool:
    if process in (b"self", b"thread-self"):
        return True
    return process.isdigit() and os.path.isdir(f"/proc/{int(process)}/task/{thread}")


def _open_folder(call: SystemCall, fd: int) -> int:
    """Where a relative path begins."""
    return (
        os.open(f"/proc/{call.thread}/cwd", HOLD) if fd == AT_FDCWD else _copy_descriptor(call, fd)
    )


def _copy_descriptor(call: SystemCall, fd: int) -> int:
    """What a descriptor of the caller's names."""
    try:
        return os.open(f"/proc/{call.thread}/fd/{fd}", HOLD)
    except FileNotFoundError:
        raise OSError(EBADF, "no descriptor") from None


# --- the change -------------------------------------------------------------------------------


def _build_mode_change(call: SystemCall, index: int) -> Deed:
    mode = call.arguments[index] & PERMISSIONS
    return lambda file: os.chmod(file, mode)


def _build_owner_change(call: SystemCall, index: int) -> Deed:
    ids = (number & UNCHANGED for number in call.arguments[index : index + 2])
    uid, gid = (-1 if number == UNCHANGED else number for number in ids)
    return lambda file: os.chown(file, uid, gid)


def _build_seconds_change(call: SystemCall, index: int) -> Deed:
    if not call.arguments[index]:
        return _touch(None)
    accessed, modified = struct.unpack("=qq", call.read_memory(index, 16))
    return _touch(struct.pack("=4q", accessed, 0, modified, 0))


def _build_microseconds_change(call: SystemCall, index: int) -> Deed:
    if not call.arguments[index]:
        return _touch(None)
    accessed, more, modified, later = struct.unpack("=4q", call.read_memory(index, 32))
    if not (0 <= more < 1_000_000 and 0 <= later < 1_000_000):
        raise OSError(EINVAL, "no time")
    return _touch(struct.pack("=4q", accessed, more * 1000, modified, later * 1000))


def _build_nanoseconds_change(call: SystemCall, index: int) -> Deed:
    return _touch(call.read_memory(index, 32) if call.arguments[index] else None)


def _touch(times: bytes | None) -> Deed:
    return lambda file: make_syscall("utimensat", AT_FDCWD, os.fsencode(file), times, 0)


def _build_attribute_change(call: SystemCall, index: int) -> Deed:
    name, size = call.read_text(index, LONGEST_NAME), call.arguments[index + 2]
    if size > LONGEST_VALUE:
        raise OSError(E2BIG, "too large")
    value = call.read_memory(index + 1, size) if size else b""
    flags = call.read_int_argument(index + 3)
    return lambda file: os.setxattr(file, name, value, flags)


def _build_attribute_removal(call: SystemCall, index: int) -> Deed:
    name = call.read_text(index, LONGEST_NAME)
    return lambda file: os.removexattr(file, name)


PATH, LINK, DESCRIPTOR = (
    FileArguments(path=0),
    FileArguments(path=0, follow=False),
    FileArguments(fd=0),
)
TIMES = (_build_seconds_change, _build_microseconds_change, _build_nanoseconds_change)
CALLS: dict[str, tuple[FileArguments, Callable[[SystemCall, int], Deed], int]] = {
    "chmod": (PATH, _build_mode_change, 1),
    "fchmod": (DESCRIPTOR, _build_mode_change, 1),
    "fchmodat": (FileArguments(fd=0, path=1), _build_mode_change, 2),
    "fchmodat2": (FileArguments(fd=0, path=1, flags=3), _build_mode_change, 2),
    "chown": (PATH, _build_owner_change, 1),
    "lchown": (LINK, _build_owner_change, 1),
    "fchown": (DESCRIPTOR, _build_owner_change, 1),
    "fchownat": (FileArguments(fd=0, path=1, flags=4), _build_owner_change, 2),
    "utime": (PATH, _build_seconds_change, 1),
    "utimes": (PATH, _build_microseconds_change, 1),
    "futimesat": (FileArguments(fd=0, path=1), _build_microseconds_change, 2),
    "utimensat": (FileArguments(fd=0, path=1, flags=3), _build_nanoseconds_change, 2),
    "setxattr": (PATH, _build_attribute_change, 1),
    "lsetxattr": (LINK, _build_attribute_change, 1),
    "fsetxattr": (DESCRIPTOR, _build_attribute_change, 1),
    "removexattr": (PATH, _build_attribute_removal, 1),
    "lremovexattr": (LINK, _build_attribute_removal, 1),
    "fremovexattr": (DESCRIPTOR, _build_attribute_removal, 1),
}
"""Each call: how it names the file, what it changes, and where that begins among its arguments."""
