"""Messages on a pipe: the length in four bytes, the kind in one, then the payload."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

LARGEST_FRAME = 1 << 20
"""Bytes of a payload. Larger data is sent in parts."""
_HEAD = struct.Struct(">IB")


class FrameKind(IntEnum):
    """The kind of a frame. Payloads are JSON, except those of ``PART`` and ``DATA``. ``DATA`` has a
    log's number in eight bytes, and more of that log.

    An event or a record may be split into any number of ``PART``; its last frame is ``EVENT``, with
    the rest of it, or ``RECORD``, with its name.
    """

    PART = 1
    EVENT = 2
    RECORD = 3
    OPEN = 4
    DATA = 5
    CLOSE = 6
    RENAME = 7
    TEXT = 8


@dataclass(frozen=True)
class Frame:
    """One message."""

    kind: FrameKind
    payload: bytes


class ProtocolError(Exception):
    """A sender violates the framing; the text says how."""


def encode_frame(kind: FrameKind, payload: bytes) -> bytes:
    """A frame as it is sent; its payload has at most ``LARGEST_FRAME`` bytes."""
    if len(payload) > LARGEST_FRAME:
        raise ValueError("the payload is too large for a frame")
    return _HEAD.pack(len(payload), kind) + payload


def split(data: bytes, most: int = LARGEST_FRAME) -> list[bytes]:
    """The data in payloads of at most ``most`` bytes; at least one payload."""
    return [data[start : start + most] for start in range(0, max(len(data), 1), most)]


class FrameReader:
    """Collects bytes, and yields the frames that they complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def waiting(self) -> int:
        """Bytes of an incomplete frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete. Raises ProtocolError; then it is unusable."""
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= _HEAD.size:
                length, kind = _check_header(*_HEAD.unpack_from(self._buffer, at))
                end = at + _HEAD.size + length
                if end > len(self._buffer):
                    break
                payload = bytes(self._buffer[at + _HEAD.size : end])
                at = end
                yield Frame(kind, payload)
        finally:
            del self._buffer[:at]


def _check_header(length: int, kind: int) -> tuple[int, FrameKind]:
    if length > LARGEST_FRAME:
        raise ProtocolError(f"a message of {length} bytes")
    try:
        return length, FrameKind(kind)
    except ValueError:
        raise ProtocolError(f"a message of the unknown kind {kind}") from None
