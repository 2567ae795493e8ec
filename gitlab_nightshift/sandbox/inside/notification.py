"""Seccomp user notification: the calls that a filter hands over, and the answers.

Structures and requests: ``include/uapi/linux/seccomp.h``, seccomp_unotify(2).
"""
# ruff: noqa: PTH115

from __future__ import annotations

import fcntl
import os
import struct

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from collections.abc import Callable

# SECCOMP_IOCTL_NOTIF_RECV, _SEND, _ID_VALID, _ADDFD
RECEIVE, SEND, IS_VALID, ADD_FD = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
# SECCOMP_USER_NOTIF_FLAG_CONTINUE, SECCOMP_ADDFD_FLAG_SEND
CONTINUE, ADD_AND_SEND = 1, 2
REQUEST_BYTES = 80
"""The size of struct seccomp_notif."""
EPERM, EFAULT, EINVAL, ENAMETOOLONG = 1, 14, 22, 36
LONGEST_ADDRESS = 128


class SystemCall:
    """A system call of a confined thread, which waits for the answer."""

    def __init__(self, listener: int) -> None:
        """Take the next call. Raises OSError if its thread is already gone."""
        raw = bytearray(REQUEST_BYTES)  # zeros, or the kernel refuses it (seccomp_unotify(2))
        fcntl.ioctl(listener, RECEIVE, raw)
        fields = struct.unpack("=QIIiIQ6Q", raw)
        self._listener = listener
        self.id: int = fields[0]
        self.thread: int = fields[1]
        self.number: int = fields[3]
        self.arguments: tuple[int, ...] = fields[6:]

    def read_int_argument(self, index: int) -> int:
        """An argument that the kernel reads as a 32-bit signed number."""
        value = self.arguments[index] & 0xFFFFFFFF
        return value - (1 << 32) if value & 0x80000000 else value

    def check_waiting(self) -> None:
        """Raise OSError if the thread is gone: then its pid may be another process's, and so may
        all that was read from ``/proc/<pid>``."""
        fcntl.ioctl(self._listener, IS_VALID, struct.pack("=Q", self.id))

    def answer(self, error: int = 0) -> None:
        """Let the call return 0, or fail with this error number."""
        self._send(error, 0)

    def let_through(self) -> None:
        """Let the kernel run the call. Not safe if an argument points to memory: the kernel reads
        it again, and the caller may have changed it (seccomp_unotify(2))."""
        self._send(0, CONTINUE)

    def answer_with_descriptor(self, fd: int, *, close_on_exec: bool) -> None:
        """Let the call return a copy of ``fd``. Raises OSError."""
        flags = os.O_CLOEXEC if close_on_exec else 0
        # Both in one step (Linux 5.14): a signal between them would leave the descriptor behind.
        request = struct.pack("=QIIII", self.id, ADD_AND_SEND, fd, 0, flags)
        fcntl.ioctl(self._listener, ADD_FD, request)

    def find_socket_inode(self) -> int | None:
        """The inode of the socket in the first argument; None if it is no socket."""
        link = os.readlink(f"/proc/{self.thread}/fd/{self.read_int_argument(0)}")
        return int(link[8:-1]) if link.startswith("socket:[") else None

    def read_address(self) -> bytes:
        """Our own copy of the socket address in the call's memory. Raises OSError."""
        length = self.read_int_argument(2)
        if not 2 <= length <= LONGEST_ADDRESS:
            raise OSError(EINVAL, "not an address")
        return self.read_memory(1, length)

    def read_memory(self, index: int, length: int) -> bytes:
        """Our own copy of ``length`` bytes that an argument points to. Raises OSError."""
        data = self._read_up_to(self.arguments[index], length)
        if len(data) != length:
            raise OSError(EFAULT, "only part of it is mapped")
        return data

    def read_text(self, index: int, longest: int) -> bytes:
        """Our own copy of the string that an argument points to, up to its NUL. Raises OSError."""
        data = self._read_up_to(self.arguments[index], longest)
        end = data.find(b"\0")
        if end < 0:
            raise OSError(ENAMETOOLONG if len(data) == longest else EFAULT, "no NUL byte")
        return data[:end]

    def _read_up_to(self, address: int, length: int) -> bytes:
        memory = os.open(f"/proc/{self.thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(memory, length, address)
        except (OSError, OverflowError):
            raise OSError(EFAULT, "not mapped") from None
        finally:
            os.close(memory)

    def _send(self, error: int, flags: int) -> None:
        try:
            fcntl.ioctl(self._listener, SEND, struct.pack("=QqiI", self.id, 0, -error, flags))
        except OSError:
            return  # the thread was killed, or (before Linux 5.19) interrupted by a signal


def handle_next(listener: int, handlers: dict[int, Callable[[SystemCall], None]]) -> None:
    """Take the next call and run its handler; a call that fails or has no handler is refused."""
    try:
        call = SystemCall(listener)
    except OSError:
        return
    try:
        handlers[call.number](call)
    except OSError as error:
        call.answer(error.errno or EPERM)
    except Exception:
        call.answer(EPERM)
