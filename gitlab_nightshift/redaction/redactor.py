"""The one redactor: removes a job's secret values in all spellings, and what looks like a token."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import AnyStr

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.redaction.needle_finder import Finder, Span
from gitlab_nightshift.redaction.secret_values import (
    build_line_needles,
    build_needles,
    measure_longest_form,
)
from gitlab_nightshift.redaction.token_patterns import list_lookaheads, list_token_keys
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_LONGEST_TOKEN = 40_000  # bytes: a private key of 32 KiB and its frame


@dataclass(frozen=True, repr=False)
class Redactor:
    """Removes secrets from text, bytes and streams; never raises for their content.

    ``values`` are the job's secrets; those that are not distinctive stay
    (``secret_values.select_usable``). ``token_patterns`` lists the other secrets.
    """

    values: tuple[str, ...]

    def __call__(self, text: AnyStr) -> AnyStr:
        """The text with every secret replaced, overlapping ones as a whole."""
        if not text:
            return text
        if isinstance(text, bytes):
            return _replace_spans(text, self.find_spans(text))[0]
        data = text.encode("utf-8", "surrogatepass")
        spans = self.find_spans(data)
        return _decode_text(_replace_spans(data, spans)[0]) if spans else text

    def find_spans(self, text: bytes) -> list[Span]:
        """The spans of secrets, in order; overlapping ones are merged."""
        find = _build_finder(self.values).find_spans
        return merge_spans([*find(text), *find_escaped_spans(text, find, self._longest)])

    def holds_value(self, text: bytes) -> bool:
        """True if the text contains one of the values, in any spelling; tokens do not count."""
        find = _build_value_finder(self.values).find_spans
        return bool(find(text)) or any(find_escaped_spans(text, find, self._longest))

    def build_stream(self) -> "RedactedStream":
        """A stream through this redactor, which delays what may be the beginning of a secret."""
        return RedactedStream(self.find_spans, max(self._longest, _LONGEST_TOKEN))

    @cached_property
    def _longest(self) -> int:
        return measure_longest_form(self.values)


@cache
def _build_finder(values: tuple[str, ...]) -> Finder:
    """Cached, as building it takes longer than searching most texts."""
    needles = [*build_needles(values), *build_line_needles(values)]
    return Finder(needles, list_lookaheads(), list_token_keys())


@cache
def _build_value_finder(values: tuple[str, ...]) -> Finder:
    return Finder(build_needles(values))


def _decode_text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # a value of invalid UTF-8 was part of a character
        return data.decode("utf-8", "replace")


# --- patches, which cannot be redacted ------------------------------------------------------------


_SHORTEST_LEAK = 12
"""Characters. Shorter values, such as ``postgres``, are too often ordinary words."""
_BASE_LINES = (b" ", b"-", b"@@ ")
"""Beginnings of the lines of a patch that only repeat the base: no secret in them is new."""


def refuse_secrets(patch: bytes, secrets: Collection[str]) -> None:
    """Raise ``E_POLICY_DENY`` if a patch adds a secret, in any spelling, in lines or headers."""
    lines = patch.split(b"\n")
    added = [line[1:] for line in lines if line.startswith(b"+")]
    headers = [line for line in lines if not line.startswith((b"+", *_BASE_LINES))]
    if holds_secret(b"\n".join((*added, *headers)), secrets):
        raise NightshiftError(
            Code.POLICY_DENY, "not published: the change contains the value of a secret variable"
        )


def holds_secret(data: bytes, secrets: Collection[str]) -> bool:
    """True if data contains one of the values that are long enough not to be words."""
    long_values = tuple(value for value in secrets if len(value) >= _SHORTEST_LEAK)
    return Redactor(long_values).holds_value(data)


# --- unnecessary escapes --------------------------------------------------------------------------


# Hex codes of the unreserved characters (RFC 3986, 2.3).
_HEX_CODE = (
    rb"(2[dDeE]"  # - .
    rb"|3[0-9]"  # digits
    rb"|4[1-9a-fA-F]|5[0-9aA]"  # A to Z
    rb"|5[fF]"  # _
    rb"|6[1-9a-fA-F]|7[0-9aA]"  # a to z
    rb"|7[eE])"  # ~
)
_PERCENT_ESCAPE = compile_lazily(rb"%" + _HEX_CODE)
# Up to eight backslashes: JSON in JSON doubles them, three times over.
_JSON_ESCAPE = compile_lazily(rb"\\{1,8}u00" + _HEX_CODE)
_ASCII_ESCAPE = compile_lazily(rb"(?:%|\\{1,8}u00)([0-7][0-9a-fA-F])")

Find = Callable[[bytes], Iterable[Span]]


def find_escaped_spans(text: bytes, find: Find, distance: int) -> Iterator[Span]:
    """Spans that ``find`` finds once unnecessary escapes are undone, such as ``%67lpat``, as spans
    of the original text.

    Encoders do not escape the unreserved characters of RFC 3986, so such escapes are rare in honest
    text: only the text within ``distance`` bytes of one is searched again.
    """
    for start, end in _find_regions(text, distance):
        plain, find_origin = _unescape_text(text[start:end])
        for plain_start, plain_end in find(plain):
            # What begins at a region's edge may be the end of a longer word.
            if plain_start > 0 or start == 0:
                yield start + find_origin(plain_start), start + find_origin(plain_end)


def _find_regions(text: bytes, distance: int) -> Iterator[Span]:
    """The parts of a text within ``distance`` bytes of an unnecessary escape."""
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
        yield (match.start() for match in _PERCENT_ESCAPE.finditer(text))
    if b"\\u00" in text:
        yield (match.start() for match in _JSON_ESCAPE.finditer(text))


def _unescape_text(text: bytes) -> tuple[bytes, Callable[[int], int]]:
    """The text without escapes of ASCII, and a function from its positions to the original's."""
    parts: list[bytes] = []
    # The start and end of each escape, in the result and in the text; between two of them,
    # positions differ by a constant.
    positions, origins = [0], [0]
    at, length = 0, 0
    for match in _ASCII_ESCAPE.finditer(text):
        parts += [text[at : match.start()], bytes((int(match[1], 16),))]
        length += match.start() - at
        at = match.end()
        positions += [length, length + 1]
        origins += [match.start(), at]
        length += 1
    parts.append(text[at:])

    def find_origin(position: int) -> int:
        before = bisect_right(positions, position) - 1
        return origins[before] + position - positions[before]

    return b"".join(parts), find_origin


# --- streams --------------------------------------------------------------------------------------


REDACTED = "[redacted]"
_BLOCK = 1 << 19  # bytes that are searched at once
_CONTEXT = 64  # bytes before a position that may decide whether a token begins there
_REST_OF_TOKEN = compile_lazily(rb"[\w+/=.~%-]*")


class RedactedStream:
    """Removes secrets from a stream of bytes, in bounded memory, wherever its chunks are cut. The
    output is delayed by up to some hundred kilobytes.

    ``longest`` is the length in bytes of the longest secret. An even longer token extends to the
    first character that no token contains.
    """

    def __init__(self, find: Callable[[bytes], list[Span]], longest: int) -> None:
        self._find = find
        self._longest = longest
        self._waiting: list[bytes] = []
        self._size = 0
        # ``_held`` is input that may be the beginning of a secret, after ``_seen`` bytes of
        # context, whose output was returned already.
        self._held, self._seen = b"", 0
        # Where in ``_held`` the output goes on: beyond ``_seen`` if a secret in the context was
        # longer, perhaps beyond the end. ``_open``: the input ended in a token, which may continue.
        self._done, self._open = 0, False

    def feed(self, chunk: bytes | str) -> bytes:
        """The output that is ready after this chunk, often none."""
        data = chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else bytes(chunk)
        self._waiting.append(data)
        self._size += len(data)
        return self._flush(last=False) if self._size >= max(_BLOCK, self._longest) else b""

    def finish(self) -> bytes:
        """The rest of the output; afterwards the stream is empty and may be used again."""
        ready = self._flush(last=True)
        self._held, self._seen, self._done, self._open = b"", 0, 0, False
        return ready

    def _flush(self, last: bool) -> bytes:
        text = b"".join((self._held, *self._waiting))
        self._waiting, self._size = [], 0
        spans = self._find_spans(text)
        cut = len(text) if last else max(len(text) - self._longest, self._seen)
        ready, end = _replace_spans(text, spans, self._done, cut)
        self._open = end == len(text) > cut
        context = max(cut - _CONTEXT, 0)
        self._held, self._seen, self._done = text[context:], cut - context, end - context
        return ready

    def _find_spans(self, text: bytes) -> list[Span]:
        """Spans that begin after the context, and the continuation of an earlier one."""
        spans = [span for span in self._find(text) if span[0] >= self._seen]
        token = _REST_OF_TOKEN.match(text, self._done) if self._open else None
        return merge_spans([(self._seen, token.end() if token else self._done), *spans])


def _replace_spans(
    text: bytes, spans: Iterable[Span], done: int = 0, cut: int | None = None
) -> tuple[bytes, int]:
    """The output for the text from ``done`` to ``cut``, and where the next output begins: at
    ``cut``, or behind a span that ends later."""
    cut = len(text) if cut is None else cut
    parts = []
    for start, end in spans:
        if start >= cut:
            break
        if start >= done:
            parts += [text[done:start], REDACTED.encode()]
        done = end
    parts.append(text[done:cut])
    return b"".join(parts), max(done, cut)


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """The spans in order; overlapping ones are merged, adjacent ones are not."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged
