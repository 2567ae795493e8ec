"""Finds secrets with unnecessarily escaped letters or digits: ``%67lpat``.

Encoders do not escape the unreserved characters of RFC 3986, so such escapes are rare in honest
text. The text around each is searched without its escapes.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from gitlab_nightshift.redaction.needle_finder import Span
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_CODE = (
    rb"(2[dDeE]"  # - .
    rb"|3[0-9]"  # digits
    rb"|4[1-9a-fA-F]|5[0-9aA]"  # A to Z
    rb"|5[fF]"  # _
    rb"|6[1-9a-fA-F]|7[0-9aA]"  # a to z
    rb"|7[eE])"  # ~
)
_PERCENT = compile_lazily(rb"%" + _CODE)
_IN_JSON = compile_lazily(rb"\\{1,8}(?:u00)" + _CODE)
_ANY = compile_lazily(rb"(?:%|\\{1,8}u00)([0-7][0-9a-fA-F])")

Find = Callable[[bytes], Iterable[Span]]


def find_escaped_spans(text: bytes, find: Find, distance: int) -> Iterator[Span]:
    """What ``find`` finds within ``distance`` bytes of an escape, as spans of the original text."""
    for start, end in _find_regions(text, distance):
        plain, origin = _unescape_text(text[start:end])
        for first, last in find(plain):
            # What begins at a region's edge may be the rest of a longer word.
            if first > 0 or start == 0:
                yield start + origin(first), start + origin(last)


def _find_regions(text: bytes, distance: int) -> Iterator[Span]:
    start, end = 0, 0
    for at in sorted(chain.from_iterable(_find_escapes(text))):
        if at - distance > end:
            if end:
                yield start, end
            start = at - distance
        end = at + distance
    if end:
        yield start, end


def _find_escapes(text: bytes) -> Iterator[Iterable[int]]:
    if b"%" in text:
        yield (match.start() for match in _PERCENT.finditer(text))
    if b"\\u00" in text:
        yield (match.start() for match in _IN_JSON.finditer(text))


def _unescape_text(text: bytes) -> tuple[bytes, Callable[[int], int]]:
    """The text without escapes of ASCII, and a function from its positions to the original's."""
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

    def find_origin(place: int) -> int:
        known = bisect_right(places, place) - 1
        return origins[known] + place - places[known]

    return b"".join(parts), find_origin
