"""Seccomp user notification: the calls that a filter hands over, and the answers.

Structures and requests: ``include/uapi/linux/seccomp.h``.
"""
# ruff: noqa: PTH115

import fcntl
import os
import struct

RECEIVE, SEND, IS_VALID, ADD_FD = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
CONTINUE = 1
ADD_AND_SEND = 2
EFAULT, EINVAL = 14, 22
LONGEST_ADDRESS = 128


class Call:
    """A system call of a confined thread that waits for an answer."""

    def __init__(self, listener: int) -> None:
        """Take the next one. Raises OSError where its thread is gone already."""
        raw = bytearray(80)
        fcntl.ioctl(listener, RECEIVE, raw)
        fields = struct.unpack("=QIIiIQ6Q", raw)
        self._listener = listener
        self.id: int = fields[0]
        self.thread: int = fields[1]
        self.number: int = fields[3]
        self.arguments: tuple[int, ...] = fields[6:]

    def int_argument(self, index: int) -> int:
        """An argument that the kernel takes as a 32-bit signed number."""
        value = self.arguments[index] & 0xFFFFFFFF
        return value - (1 << 32) if value & 0x80000000 else value

    def still_waits(self) -> None:
        """Raise OSError where the thread is gone: what was read of it may be another's."""
        fcntl.ioctl(self._listener, IS_VALID, struct.pack("=Q", self.id))

    def answer(self, error: int = 0) -> None:
        """The call has succeeded with 0, or failed with this error number."""
        self._send(error, 0)

    def let_through(self) -> None:
        """The kernel may do it as asked: only where no argument points to memory."""
        self._send(0, CONTINUE)

    def give(self, fd: int, *, close_on_exec: bool) -> None:
        """The call returns a copy of ``fd``. Raises OSError."""
        flags = os.O_CLOEXEC if close_on_exec else 0
        request = struct.pack("=QIIII", self.id, ADD_AND_SEND, fd, 0, flags)
        fcntl.ioctl(self._listener, ADD_FD, request)

    def socket_inode(self) -> int | None:
        """The inode of the socket that the first argument names; None where it is none."""
        link = os.readlink(f"/proc/{self.thread}/fd/{self.int_argument(0)}")
        return int(link[8:-1]) if link.startswith("socket:[") else None

    def address(self) -> bytes:
        """Our own copy of the socket address in the call's memory. Raises OSError."""
        length = self.int_argument(2)
        if not 2 <= length <= LONGEST_ADDRESS:
            raise OSError(EINVAL, "no address")
        memory = os.open(f"/proc/{self.thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(memory, length, self.arguments[1])
        finally:
            os.close(memory)
        if len(data) != length:
            raise OSError(EFAULT, "no address")
        return data

    def _send(self, error: int, flags: int) -> None:
        try:
            fcntl.ioctl(self._listener, SEND, struct.pack("=QqiI", self.id, 0, -error, flags))
        except OSError:
            return  # killed, or (before Linux 5.19) a signal broke the call off
