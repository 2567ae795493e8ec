"""Messages on a pipe: the length in four bytes, the kind in one, then the payload."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

LARGEST_FRAME = 1 << 20
"""Bytes of a payload. What is larger comes in parts."""
_HEAD = struct.Struct(">IB")


class FrameKind(IntEnum):
    """What a frame is. Payloads are JSON, but for parts and for ``DATA``: the eight bytes of a
    log's number, and more of that log.

    An event or a record may come in any number of ``PART``, and ends with a frame of its own:
    ``EVENT`` has the rest of it, ``RECORD`` its name.
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
    """A sender that does not keep to the framing; the text says how."""


def encode_frame(kind: FrameKind, payload: bytes) -> bytes:
    """A frame as it is sent; its payload has at most ``LARGEST_FRAME`` bytes."""
    if len(payload) > LARGEST_FRAME:
        raise ValueError("a frame holds less")
    return _HEAD.pack(len(payload), kind) + payload


def split(data: bytes, most: int = LARGEST_FRAME) -> list[bytes]:
    """The data in payloads of at most ``most`` bytes; at least one payload."""
    return [data[start : start + most] for start in range(0, max(len(data), 1), most)]


class FrameReader:
    """Takes bytes as they come, and gives the frames that are whole."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def waiting(self) -> int:
        """Bytes of a frame that is not whole."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete. Raises ProtocolError; the reader is done then."""
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
