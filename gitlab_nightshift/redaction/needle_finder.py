"""Finds many needles in one fast pass: candidates by rare byte pairs, then an exact comparison.

The text is decoded as UTF-16, so that one step of the ``re`` module covers two bytes, and a set of
pairs is one table look-up. Each needle has two anchors of up to three pairs, one for even and one
for odd positions, which begin with a pair that is rare in logs.
"""

import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Protocol

Span = tuple[int, int]
"""Start and end of an occurrence, in bytes."""

# Typical logs and code: pairs in it are common; for others, the frequency of their bytes counts.
_SAMPLE = rb"""
2025-11-04T03:21:47.183Z [INFO] Downloaded from central: https://repo.maven.apache.org/maven2/org/
2026-01-18T02:30:05Z WARN  [main] the dependency could not be found and there is no default value
Running with gitlab-runner 18.2.1 on docker-auto-scale; Preparing the "docker+machine" executor
> Task :compileJava UP-TO-DATE; BUILD SUCCESS in 12s; Total time: 09:36 min; 100% [====] 2.4 MB/s
npm warn deprecated: this module is not supported, "version": "7.16.0", "node_modules/string"
added 850 packages, and audited 851 packages; Collecting requests>=2.31; Using cached (64 kB)
Traceback (most recent call last): File "/usr/lib/python3.11/site-packages/test.py", line 140, in
    at com.example.service.AbstractHandler.handleRequest(AbstractHandler.java:395) ~[na:1.8.0]
{"type": "tool_result", "content": [{"text": "export const = function(data) { return null }\n"}]}
def test_user_name(self, args): assert result == expected, "should have been True, was undefined"
10.0.3.7 - - "GET /api/v4/projects/25?page=13 HTTP/1.1" 200 5823 ERROR failed with exit code 1
"""
_PAIR_COUNTS = Counter(_SAMPLE[at : at + 2] for at in range(len(_SAMPLE) - 1))
_BYTE_COUNTS = Counter(_SAMPLE)
_LEAST_COUNT = 0.2  # of a pair that is not in the sample and not likely by its bytes
_KEY_SIZES = (6, 4, 2)  # bytes: three pairs, two or one

# Surrogates would not decode to one character for two bytes. Only the first pass sees the change.
_FOLD = bytes(byte - 16 if 0xD8 <= byte <= 0xDF else byte for byte in range(256))


class Needle(Protocol):
    """A string, or a kind of strings, to find in a text."""

    @property
    def anchors(self) -> Iterable[bytes]:
        """Strings of at least 3 bytes; every occurrence contains one of them."""

    @property
    def skips_inside(self) -> bool:
        """True if anchors inside a span that was found can be skipped: they cannot extend it."""

    def find_spans(self, text: bytes, at: int) -> Sequence[Span]:
        """Occurrences around an anchor that may begin at ``at``."""


SearchKey = tuple[bytes, int, Needle]
"""2, 4 or 6 bytes of an anchor, their offset in it, and the needle that has the anchor."""


@dataclass(frozen=True)
class Lookahead:
    """A key of one pair, ``offset`` bytes into a needle, that is too common: the search stops at it
    only if the pattern ``follows`` matches the pairs after it."""

    key: bytes
    offset: int
    needle: Needle
    follows: str


class Finder:
    """Needles prepared for one pass; preparing takes up to some tens of milliseconds. ``prepared``
    are the keys of further needles, computed before."""

    def __init__(
        self,
        needles: Iterable[Needle],
        lookaheads: Sequence[Lookahead] = (),
        prepared: Sequence[SearchKey] = (),
    ) -> None:
        keys = [*prepared, *list_search_keys(needles, (key[:2] for key, _, _ in prepared))]
        self._candidate = _build_candidate_pattern({key for key, _, _ in keys}, lookaheads)
        keys += [(lookahead.key, lookahead.offset, lookahead.needle) for lookahead in lookaheads]
        self._table = _build_table(keys)

    def find_spans(self, text: bytes) -> list[Span]:
        """All occurrences of all needles, in any order; they may overlap."""
        all_spans: list[Span] = []
        ends: dict[Needle, int] = {}  # of the last span of each needle that ``skips_inside``
        table = self._table
        for match in self._candidate.finditer(_decode_pairs(text)):
            # A longer key's match includes the second pair, which may be another key's first.
            for at in range(2 * match.start(), 2 * match.end(), 2):
                candidates = table.get(text[at : at + 4]) or table.get(text[at : at + 2]) or ()
                for offset, needle in candidates:
                    start = at - offset
                    if start >= ends.get(needle, 0):
                        spans = needle.find_spans(text, start)
                        all_spans += spans
                        if needle.skips_inside and spans:
                            ends[needle] = spans[-1][1]
        return all_spans


def list_search_keys(needles: Iterable[Needle], pairs: Iterable[bytes] = ()) -> Iterator[SearchKey]:
    """The keys of needles; ``pairs`` are the first pairs of other needles' keys."""
    stops = set(pairs)  # the search stops there anyway: a key that begins with one is cheap
    for needle in needles:
        for anchor in needle.anchors:
            for offset, key in find_windows(anchor, stops):
                stops.add(key[:2])
                yield key, offset, needle


def _build_table(keys: Iterable[SearchKey]) -> dict[bytes, list[tuple[int, Needle]]]:
    """The needles to try after the first two pairs of a key, or after its only one."""
    table: dict[bytes, list[tuple[int, Needle]]] = {}
    # The short keys first: an entry of two pairs contains the needles of its first pair alone, so
    # that one look-up finds all.
    for key, offset, needle in sorted(keys, key=lambda search_key: len(search_key[0])):
        entries = table.setdefault(key[:4], list(table.get(key[:2], ())))
        if (offset, needle) not in entries:
            entries.append((offset, needle))
    return table


def find_windows(anchor: bytes, stops: Container[bytes] = ()) -> list[tuple[int, bytes]]:
    """The cheapest part of an anchor to search for at an even offset, and the one at an odd offset,
    as ``(offset, bytes)``: the anchor may be at an even or an odd position of the text."""
    return [_find_rarest_window(anchor, start, stops) for start in (0, 1)]


def _find_rarest_window(anchor: bytes, start: int, stops: Container[bytes]) -> tuple[int, bytes]:
    end = len(anchor) - (len(anchor) - start) % 2
    windows = [(at, anchor[at : min(at + _KEY_SIZES[0], end)]) for at in range(start, end, 2)]
    return min(windows, key=lambda window: estimate_cost(window[1], stops))


def estimate_cost(window: bytes, stops: Container[bytes] = ()) -> float:
    """The cost of searching for a window: how often its first pair stops the search (which costs
    nothing if it is one of the ``stops``), and how often all of it matches."""
    first, others = _measure_window(window)
    return first * ((window[:2] not in stops) + others)


@cache
def _measure_window(window: bytes) -> tuple[float, float]:
    """The frequency of a window's first pair, and the cost of comparing the others."""
    first, *others = (_estimate_frequency(window[at : at + 2]) for at in range(0, len(window), 2))
    # An estimate: it decides how fast the search is, not what it finds.
    return first, 20 * math.prod(others) ** 0.6


@cache
def _estimate_frequency(pair: bytes) -> float:
    first, second = pair
    by_bytes = _BYTE_COUNTS[first] * _BYTE_COUNTS[second] / len(_SAMPLE)
    return max(_PAIR_COUNTS[pair], by_bytes / 4, _LEAST_COUNT) / len(_SAMPLE)


def _decode_pairs(text: bytes) -> str:
    even = text if len(text) % 2 == 0 else text + b"\0"
    return (even if even.isascii() else even.translate(_FOLD)).decode("utf-16-be")


def _build_candidate_pattern(
    keys: Iterable[bytes], lookaheads: Iterable[Lookahead]
) -> re.Pattern[str]:
    """A pattern that matches at every key, and at few other positions.

    It begins with the set of pairs to stop at, for which ``re`` searches fast. Its branches look
    back at that pair, and ahead at the pairs after it.
    """
    # By the size of a key, the sets of its first, second and third pairs.
    columns = {
        size: [
            {_encode_pair(key[at : at + 2]) for key in keys if len(key) == size}
            for at in range(0, size, 2)
        ]
        for size in _KEY_SIZES
    }
    # Keys of one pair: any text may follow some, a pattern has to follow the others.
    single = [("", columns[2][0])]
    single += [(lookahead.follows, {_encode_pair(lookahead.key)}) for lookahead in lookaheads]
    all_single = set().union(*(codes for _, codes in single))
    branches = []
    if columns[6][0]:
        one, two, three = map(build_charset, columns[6])
        branches.append(f"{two}(?={three})(?<={one}.)")
    if columns[4][0]:
        one, two = map(build_charset, columns[4])
        branches.append(f"{two}(?<={one}.)")
    if all_single:
        options = (f"(?<={build_charset(codes)})(?={tail})" for tail, codes in single if codes)
        branches.append(f"(?<={build_charset(all_single)})(?:{'|'.join(options)})")
    first = all_single | columns[4][0] | columns[6][0]
    # "(?!)" never matches.
    pattern = f"{build_charset(first)}(?:{'|'.join(branches)})" if first else "(?!)"
    return re.compile(pattern, re.DOTALL)


def combine_pairs(first: Iterable[int], second: Iterable[int]) -> set[int]:
    """The codes of all pairs of a first and a second byte."""
    seconds = tuple(second)
    return {a << 8 | b for a in first for b in seconds}


def build_charset(codes: Iterable[int], *, negated: bool = False) -> str:
    """A regular expression's set of these pairs, if ``negated`` of all others; "" for no pairs."""
    ordered = sorted(codes)
    if not ordered:
        return ""
    breaks = [at for at, (a, b) in enumerate(pairwise(ordered), 1) if b != a + 1]
    edges = [0, *breaks, len(ordered)]
    ranges = "".join(
        f"{re.escape(chr(ordered[start]))}-{re.escape(chr(ordered[end - 1]))}"
        for start, end in pairwise(edges)
    )
    return f"[{'^' if negated else ''}{ranges}]"


def _encode_pair(key: bytes) -> int:
    return int.from_bytes(key.translate(_FOLD), "big")
