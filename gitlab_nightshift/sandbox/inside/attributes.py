"""Modes, owners, times and extended attributes: the monitor changes them, and only below the
writable folders.

Landlock does not check these calls. The monitor copies the arguments, opens the file as the caller
would, but with no access to its content (``O_PATH``), asks the kernel for its path, and changes
exactly that file: to swap a link, a folder or a descriptor meanwhile has no effect.

As for Landlock, the path decides. A hard link in a writable folder therefore belongs to that
folder; Landlock stops anyone from linking a file outside into it (LANDLOCK_ACCESS_FS_REFER; before
ABI 2 no link to another folder was possible at all).
"""
# ruff: noqa: PTH101, PTH112, PTH115

from __future__ import annotations

import os
import struct

from .notification import SystemCall
from .syscalls import NUMBERS, make_syscall

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from collections.abc import Callable

    Change = Callable[[str], object]

EPERM, E2BIG, EBADF, EINVAL = 1, 7, 9, 22
# linux/fcntl.h, linux/openat2.h (RESOLVE_NO_MAGICLINKS)
AT_FDCWD, NO_FOLLOW, EMPTY_PATH = -100, 0x100, 0x1000
NO_MAGIC_LINKS = 2
OPEN_PATH = os.O_PATH | os.O_CLOEXEC
LONGEST_PATH, LONGEST_NAME, LONGEST_VALUE = 4096, 256, 65536
PERMISSIONS, UNCHANGED = 0o7777, 0xFFFFFFFF


class FileArguments:
    """The indexes of a call's arguments that name the file: a path, a descriptor (of the folder, or
    of the file if there is no path), flags. ``follow``: resolve a symbolic link at the end of the
    path."""

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
    """Changes files below ``folders``, which are resolved paths: a folder that is replaced by a
    link later no longer counts."""

    def __init__(self, folders: list[str], refuse: Callable[[str], None]) -> None:
        self._refuse = refuse
        self._folders = [os.fsencode(folder) for folder in folders]

    def build_handlers(self) -> dict[int, Callable[[SystemCall], None]]:
        """The handler of each system call number."""
        return {NUMBERS[name]: self._build_handler(name) for name in CALLS if name in NUMBERS}

    def _build_handler(self, name: str) -> Callable[[SystemCall], None]:
        file_arguments, build_change, value_index = CALLS[name]

        def handle(call: SystemCall) -> None:
            change = build_change(call, value_index)
            fd = _open_file(call, file_arguments)
            try:
                # After the last read from /proc/<pid>, as the pid may have been reused before
                # (seccomp_unotify(2)).
                call.check_waiting()
                # fchmod and the like refuse an O_PATH descriptor (open(2)); its /proc name works.
                file = f"/proc/self/fd/{fd}"
                path = os.readlink(os.fsencode(file))
                if not self._lies_inside(path):
                    # Not worth a report: git refreshes the times of objects that it borrows, to the
                    # time of the call (a NULL argument).
                    if build_change not in TIMES or call.arguments[value_index]:
                        self._refuse(f"{name} of {os.fsdecode(path)}")
                    raise PermissionError(EPERM, "outside")
                change(file)
            finally:
                os.close(fd)
            call.answer()

        return handle

    def _lies_inside(self, path: bytes) -> bool:
        return any(path == folder or path.startswith(folder + b"/") for folder in self._folders)


# --- the file ---------------------------------------------------------------------------------


def _open_file(call: SystemCall, indexes: FileArguments) -> int:
    """A descriptor of the file that a call is about. Raises OSError."""
    flags = call.arguments[indexes.flags] & 0xFFFFFFFF if indexes.flags is not None else 0
    if flags & ~(NO_FOLLOW | EMPTY_PATH):
        raise OSError(EINVAL, "unknown flags")
    fd = AT_FDCWD if indexes.fd is None else call.read_int_argument(indexes.fd)
    # utimensat and futimesat with a NULL path change the descriptor's own file (utimensat(2)).
    if indexes.path is None or (fd >= 0 and not call.arguments[indexes.path]):
        return _copy_descriptor(call, fd)
    path = call.read_text(indexes.path, LONGEST_PATH)
    if flags & EMPTY_PATH and not path:
        return _open_folder(call, fd)
    return _open_path(call, fd, path, follow=indexes.follow and not flags & NO_FOLLOW)


def _open_path(call: SystemCall, fd: int, path: bytes, *, follow: bool) -> int:
    """Open the file that a path names for the caller: ``/proc/self`` is the caller's, not ours."""
    if descriptor := _find_own_descriptor(path, call.thread):
        fd, path = descriptor
        if not path:
            if not follow:
                raise PermissionError(EPERM, "a link in /proc")
            return _copy_descriptor(call, fd)
    folder = AT_FDCWD if path.startswith(b"/") else _open_folder(call, fd)
    # Another link in /proc would be resolved as this process's, not as the caller's (openat2(2)).
    how = struct.pack("=QQQ", OPEN_PATH | (0 if follow else os.O_NOFOLLOW), 0, NO_MAGIC_LINKS)
    try:
        return make_syscall("openat2", folder, path, how, len(how))
    finally:
        if folder != AT_FDCWD:
            os.close(folder)


def _find_own_descriptor(path: bytes, thread: int) -> tuple[int, bytes] | None:
    """The number of the caller's descriptor with which a path begins, such as ``/proc/self/fd/N``,
    and the path after it.

    C libraries use such paths to change the file of an ``O_PATH`` descriptor.
    """
    if path.startswith(b"/dev/fd/"):
        descriptor = path.removeprefix(b"/dev/fd/")
    elif path.startswith(b"/proc/"):
        process, _, entry = path.removeprefix(b"/proc/").partition(b"/")
        if not entry.startswith(b"fd/") or not _is_caller(process, thread):
            return None
        descriptor = entry.removeprefix(b"fd/")
    else:
        return None
    number, _, below = descriptor.partition(b"/")
    return (int(number), below.lstrip(b"/")) if number.isdigit() else None


def _is_caller(process: bytes, thread: int) -> bool:
    """True if a folder of ``/proc`` is that of the caller's process."""
    if process in (b"self", b"thread-self"):
        return True
    return process.isdigit() and os.path.isdir(f"/proc/{int(process)}/task/{thread}")


def _open_folder(call: SystemCall, fd: int) -> int:
    """Open the folder in which a relative path begins."""
    if fd == AT_FDCWD:
        return os.open(f"/proc/{call.thread}/cwd", OPEN_PATH)
    return _copy_descriptor(call, fd)


def _copy_descriptor(call: SystemCall, fd: int) -> int:
    """Open the file of one of the caller's descriptors."""
    try:
        return os.open(f"/proc/{call.thread}/fd/{fd}", OPEN_PATH)
    except FileNotFoundError:
        raise OSError(EBADF, "not open") from None


# --- the change -------------------------------------------------------------------------------


def _build_mode_change(call: SystemCall, index: int) -> Change:
    mode = call.arguments[index] & PERMISSIONS
    return lambda file: os.chmod(file, mode)


def _build_owner_change(call: SystemCall, index: int) -> Change:
    ids = (number & UNCHANGED for number in call.arguments[index : index + 2])
    uid, gid = (-1 if number == UNCHANGED else number for number in ids)
    return lambda file: os.chown(file, uid, gid)


def _build_seconds_change(call: SystemCall, index: int) -> Change:
    if not call.arguments[index]:
        return _build_times_change(None)
    accessed, modified = struct.unpack("=qq", call.read_memory(index, 16))
    return _build_times_change(struct.pack("=4q", accessed, 0, modified, 0))


def _build_microseconds_change(call: SystemCall, index: int) -> Change:
    if not call.arguments[index]:
        return _build_times_change(None)
    accessed, accessed_us, modified, modified_us = struct.unpack("=4q", call.read_memory(index, 32))
    if not (0 <= accessed_us < 1_000_000 and 0 <= modified_us < 1_000_000):
        raise OSError(EINVAL, "invalid time")
    return _build_times_change(
        struct.pack("=4q", accessed, accessed_us * 1000, modified, modified_us * 1000)
    )


def _build_nanoseconds_change(call: SystemCall, index: int) -> Change:
    return _build_times_change(call.read_memory(index, 32) if call.arguments[index] else None)


def _build_times_change(times: bytes | None) -> Change:
    return lambda file: make_syscall("utimensat", AT_FDCWD, os.fsencode(file), times, 0)


def _build_attribute_change(call: SystemCall, index: int) -> Change:
    name, size = call.read_text(index, LONGEST_NAME), call.arguments[index + 2]
    if size > LONGEST_VALUE:
        raise OSError(E2BIG, "too large")
    value = call.read_memory(index + 1, size) if size else b""
    flags = call.read_int_argument(index + 3)
    return lambda file: os.setxattr(file, name, value, flags)


def _build_attribute_removal(call: SystemCall, index: int) -> Change:
    name = call.read_text(index, LONGEST_NAME)
    return lambda file: os.removexattr(file, name)


PATH = FileArguments(path=0)
LINK = FileArguments(path=0, follow=False)
DESCRIPTOR = FileArguments(fd=0)
TIMES = (_build_seconds_change, _build_microseconds_change, _build_nanoseconds_change)
CALLS: dict[str, tuple[FileArguments, Callable[[SystemCall, int], Change], int]] = {
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
"""Each call: the arguments that name the file, the function that builds the change, and the index
of the first argument with the new value."""
