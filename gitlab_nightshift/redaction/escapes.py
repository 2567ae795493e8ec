"""Secrets in which letters or digits are escaped, though no encoder has to: ``%67lpat``.

Encoders leave RFC 3986's unreserved characters alone, so such an escape is rare in honest text.
Around each, a text is looked at as it reads without them.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from gitlab_nightshift.redaction.finder import Span

_CODE = rb"(2[dDeE]|3[0-9]|4[1-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aAeE])"
_PERCENT = re.compile(rb"%" + _CODE)
_IN_JSON = re.compile(rb"\\{1,8}(?:u00)" + _CODE)
_ANY = re.compile(rb"(?:%|\\{1,8}u00)([0-7][0-9a-fA-F])")

Find = Callable[[bytes], Iterable[Span]]


def escaped_spans(text: bytes, find: Find, reach: int) -> Iterator[Span]:
    """What ``find`` finds within ``reach`` bytes of an escape, as spans of the text as it is."""
    for start, end in _regions(text, reach):
        plain, origin = _unescaped(text[start:end])
        for first, last in find(plain):
            if first > 0 or start == 0:
                yield start + origin(first), start + origin(last)


def _regions(text: bytes, reach: int) -> Iterator[Span]:
    start, end = 0, 0
    for at in sorted(chain.from_iterable(_places(text))):
        if at - reach > end:
            if end:
                yield start, end
            start = at - reach
        end = at + reach
    if end:
        yield start, end


def _places(text: bytes) -> Iterator[Iterable[int]]:
    if b"%" in text:
        yield (match.start() for match in _PERCENT.finditer(text))
    if b"\\u00" in text:
        yield (match.start() for match in _IN_JSON.finditer(text))


def _unescaped(text: bytes) -> tuple[bytes, Callable[[int], int]]:
    """The text without escapes of ASCII, and where each of its places was."""
    parts: list[bytes] = []
    places, origins = [0], [0]
    at, length = 0, 0
    for match in _ANY.finditer(text):
        parts += [text[at : match.start()], bytes((int(match[1], 16),))]
        length += match.start() - at
        at = match.end()
        places += [length, length + 1]
        origins += [match.start(), at]
        length += 1
    parts.append(text[at:])

    def origin(place: int) -> int:
        known = bisect_right(places, place) - 1
        return origins[known] + place - places[known]

    return b"".join(parts), origin
