"""System calls for which Python has no function."""

import _signal  # type: ignore[import-not-found]
import ctypes
import os

from .syscalls import NUMBERS

signals = _signal
"""The signal module without its enums, which cost 2 ms."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38


def check_result(result: int, what: str) -> int:
    """Return a call's result. Raises OSError if it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def make_syscall(name: str, *arguments: int | bytes | None) -> int:
    """Make a call by its name; bytes are passed as a pointer, None as NULL. Raises OSError."""
    # ctypes passes an int as 32 bits: syscall(2) would read garbage in the upper half.
    wide = [ctypes.c_ulong(a & (2**64 - 1)) if isinstance(a, int) else a for a in arguments]
    number = NUMBERS.get(name)
    if number is None:
        raise OSError(38, f"{name}: unknown on this machine")
    return check_result(_libc.syscall(ctypes.c_long(number), *wide), name)


def call_prctl(option: int, second: int = 0, third: int = 0) -> int:
    """``prctl(2)``. Raises OSError."""
    # Some options require the unused arguments to be 0 (prctl(2)).
    wide = [ctypes.c_ulong(value) for value in (second, third, 0, 0)]
    return check_result(_libc.prctl(ctypes.c_int(option), *wide), f"prctl {option}")


class Buffer:
    """Bytes at a fixed address, valid as long as this object lives."""

    def __init__(self, data: bytes) -> None:
        self._array = ctypes.create_string_buffer(data, len(data))
        self.address = ctypes.addressof(self._array)


def connect_raw(fd: int, address: bytes) -> int:
    """``connect(2)`` with exactly these bytes as address; the error number, 0 for success."""
    return 0 if _libc.connect(fd, address, len(address)) == 0 else ctypes.get_errno()


def bind_raw(fd: int, address: bytes) -> int:
    """``bind(2)`` with exactly these bytes as address; the error number, 0 for success."""
    return 0 if _libc.bind(fd, address, len(address)) == 0 else ctypes.get_errno()


def mount(kind: bytes, target: bytes, flags: int) -> None:
    """Mount a virtual file system such as ``proc``. Raises OSError."""
    check_result(_libc.mount(kind, target, kind, ctypes.c_ulong(flags), None), "mount")
