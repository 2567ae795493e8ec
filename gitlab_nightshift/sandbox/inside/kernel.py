"""System calls for which Python has no function, by the C part of ctypes: the rest of that, and of
``os``, costs each start in a sandbox 3 ms."""

import _ctypes
import _signal  # type: ignore[import-not-found]
import posix

from .syscall_numbers import NUMBERS

signals = _signal
"""The signal module without its enums, which cost 2 ms."""


TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from typing import Any

    _Simple = _ctypes._SimpleCData[Any]
else:
    _Simple = _ctypes._SimpleCData


class _Int(_Simple):
    _type_ = "i"


class _Long(_Simple):
    _type_ = "l"


class _UnsignedLong(_Simple):
    _type_ = "L"


class _Char(_Simple):
    _type_ = "c"


class _LibcFunction(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


_libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # what is loaded already
_syscall, _prctl, _connect, _bind, _mount = (
    _LibcFunction(_ctypes.dlsym(_libc, name))
    for name in ("syscall", "prctl", "connect", "bind", "mount")
)
_syscall.restype = _Long

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38


def check_result(result: int, what: str) -> int:
    """Return a call's result. Raises OSError if it is negative."""
    if result < 0:
        number = _ctypes.get_errno()
        raise OSError(number, f"{what}: {posix.strerror(number)}")
    return result


def make_syscall(name: str, *arguments: int | bytes | None) -> int:
    """Make a call by its name; bytes are passed as a pointer, None as NULL. Raises OSError."""
    # ctypes passes an int as 32 bits: syscall(2) would read garbage in the upper half.
    wide = [_UnsignedLong(a & (2**64 - 1)) if isinstance(a, int) else a for a in arguments]
    number = NUMBERS.get(name)
    if number is None:
        raise OSError(38, f"{name}: unknown on this machine")
    return check_result(_syscall(_Long(number), *wide), name)


def call_prctl(option: int, second: int = 0, third: int = 0) -> int:
    """``prctl(2)``. Raises OSError."""
    # Some options require the unused arguments to be 0 (prctl(2)).
    wide = [_UnsignedLong(value) for value in (second, third, 0, 0)]
    return check_result(_prctl(_Int(option), *wide), f"prctl {option}")


class Buffer:
    """Bytes at a fixed address, valid as long as this object lives."""

    def __init__(self, data: bytes) -> None:
        char: Any = _Char
        self._array = (char * len(data))()
        self._array.raw = data
        self.address = _ctypes.addressof(self._array)


def connect_raw(fd: int, address: bytes) -> int:
    """``connect(2)`` with exactly these bytes as address; the error number, 0 for success."""
    return 0 if _connect(fd, address, len(address)) == 0 else _ctypes.get_errno()


def bind_raw(fd: int, address: bytes) -> int:
    """``bind(2)`` with exactly these bytes as address; the error number, 0 for success."""
    return 0 if _bind(fd, address, len(address)) == 0 else _ctypes.get_errno()


def mount(kind: bytes, target: bytes, flags: int) -> None:
    """Mount a virtual file system such as ``proc``. Raises OSError."""
    check_result(_mount(kind, target, kind, _UnsignedLong(flags), None), "mount")
