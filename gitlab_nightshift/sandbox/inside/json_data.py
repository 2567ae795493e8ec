"""Reads JSON from a descriptor, with ``_json``, the C core of ``json``, whose import costs 7 ms."""

from __future__ import annotations

import _json
import os

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from typing import Any

EFBIG = 27
LARGEST = 32 * 1024 * 1024
"""Bytes."""


class _ScannerOptions:
    """The attributes that ``_json`` reads, as those of ``json.JSONDecoder`` by default."""

    strict, memo = True, dict[str, str]()
    object_hook = object_pairs_hook = parse_constant = None
    parse_float, parse_int = float, int


def read_all(fd: int) -> bytes:
    """All bytes of a file. Raises OSError."""
    # pread: the file offset is shared with everyone who has the descriptor (open(2)).
    data = b""
    while part := os.pread(fd, 1 << 20, len(data)):
        data += part
        if len(data) > LARGEST:
            raise OSError(EFBIG, "too much JSON")
    return data


def parse_json(data: bytes) -> Any:
    """Parse a JSON value. Raises ValueError or StopIteration if it is invalid, RecursionError."""
    scan = _json.make_scanner(_ScannerOptions())  # type: ignore[arg-type]
    return scan(data.decode(), 0)[0]
