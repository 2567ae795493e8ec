"""The secret values of a job: which are distinctive, and how each may be spelled."""

import base64
import html
import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from urllib.parse import quote, quote_plus

from gitlab_nightshift.redaction.needle_finder import Span, estimate_cost, find_windows
from gitlab_nightshift.text.lazy_patterns import compile_lazily

# Runs of characters that no encoder changes: for anchors, in base64 the long ones.
_RUN = compile_lazily(rb"[0-9A-Za-z]{7,}")
_LONG_RUN = compile_lazily(rb"[0-9A-Za-z]{10,}")
_UNRESERVED_RUN = compile_lazily(rb"[0-9A-Za-z_.~-]{5,}")  # RFC 3986, 2.3: never URL-encoded
_ANCHOR_RANGE = 256  # bytes from the beginning in which an anchor is chosen
_LONGEST_ANCHOR = 32
_LETTERS_OF_ESCAPES = {"\b": b"b", "\t": b"t", "\n": b"n", "\f": b"f", "\r": b"r"}
_QUOTED_IN_SHELL = rb"""'(?:\\'|"'")'"""
# What URL encoders leave: Python's quote with safe="", quote, encodeURIComponent, encodeURI.
_SAFE_IN_URLS = ("", "/", "!'()*", "!#$&'()*+,/:;=?@")
_B64 = rb"[0-9A-Za-z+/_-]"
# base64 and PEM break lines, after 76 or 64 characters (RFC 2045, RFC 7468); in JSON as \\r\\n.
_LINE_BREAK = rb"(?:\s|\\{1,4}[rn]){0,4}"
# The longest escape of a character below U+10000: eight backslashes and "u00e4".
_LONGEST_ESCAPE = 13


class _SpellingForm:
    """A way to spell a secret: its pattern, compiled when the first anchor is found, and the length
    of its ``longest`` spelling in bytes."""

    def __init__(self, source: bytes, longest: int) -> None:
        self._source = source
        self.longest = longest

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """The whole spelling."""
        return re.compile(self._source, re.DOTALL)


@dataclass(frozen=True, eq=False)
class _SpellingNeedle:
    """A form, and an ``anchor``: a string in the form, ``offset`` bytes from where it usually
    begins."""

    form: _SpellingForm
    anchor: bytes
    offset: int
    skips_inside: bool = False  # anchors inside a span may extend it (Needle)
    unbroken: bool = True  # the anchor is never broken over two lines

    @property
    def anchors(self) -> tuple[bytes, ...]:
        """The one anchor."""
        return (self.anchor,)

    def find_spans(self, text: bytes, at: int) -> list[Span]:
        """The spelling around the anchor, even if what precedes the anchor is longer than usual."""
        if self.unbroken and not text.startswith(self.anchor, at):
            return []
        pattern, distance = self.form.pattern, self.form.longest
        if at >= self.offset and (match := pattern.match(text, at - self.offset)):
            return [match.span()]
        matches = pattern.finditer(text, max(at - distance, 0), at + distance)
        return [match.span() for match in matches]


def _to_bytes(text: str) -> bytes:
    """The text in UTF-8; surrogate escapes, as in ``os.environ``, become their bytes (PEP 383)."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _list_spellings(value: str) -> list[_SpellingNeedle]:
    """Every form of a secret value, each with one anchor or more."""
    raw, data = _list_raw_spellings(value), _to_bytes(value)
    in_base64 = (_list_shifted_base64(data, shift) for shift in range(3))
    return [*raw, *chain.from_iterable(in_base64), *_list_hex_spellings(data)]


def _list_raw_spellings(value: str) -> list[_SpellingNeedle]:
    """The value itself, with any of its characters quoted, escaped or URL-encoded."""
    parts = [_build_char_pattern(char) for char in value]
    form = _SpellingForm(b"".join(parts), max(_LONGEST_ESCAPE * len(value), 16))
    plain = _to_bytes(value)
    runs = _find_best_run(plain, _RUN) or _find_best_run(plain, _UNRESERVED_RUN)
    anchors = runs or [(spelling, 0) for spelling in _list_encodings(value)]
    return [_SpellingNeedle(form, anchor, offset) for anchor, offset in anchors]


def _build_char_pattern(char: str) -> bytes:
    raw = _to_bytes(char)
    if raw.isalnum():
        return raw
    percent = b"".join(b"%%(?:25){0,2}(?i:%02x)" % byte for byte in raw)
    units = char.encode("utf-16-be", "surrogatepass").hex(":", 2).split(":")
    unicode = b"".join(rb"\\{1,8}u(?i:%s)" % unit.encode() for unit in units)
    encoded = char.encode("utf-8", "surrogatepass")  # as the redactor encodes a lone surrogate
    plain = [rb"\\{0,8}" + re.escape(code) for code in dict.fromkeys((raw, encoded))]
    # The longer ones first: re takes the first alternative that matches.
    spellings = [*_list_special_spellings(char), percent, unicode, *plain]
    return b"(?:%s)" % b"|".join(spellings)


def _list_special_spellings(char: str) -> list[bytes]:
    spellings = []
    if char in _LETTERS_OF_ESCAPES:
        spellings.append(rb"\\{1,8}" + _LETTERS_OF_ESCAPES[char])
    if char == "\n":
        spellings += [rb"\r\n", rb"\\{1,8}r\\{1,8}n", rb"%0[dD]%0[aA]"]
    if char == " ":
        spellings.append(rb"\+")
    if char == "'":
        spellings += [_QUOTED_IN_SHELL, b"&apos;"]
    if html.escape(char) != char:
        spellings.append(re.escape(html.escape(char)).encode())
    if ord(char) < 128:
        spellings.append(b"&#(?:0{0,4}%d|[xX]0{0,4}(?i:%x));" % (ord(char), ord(char)))
    return spellings


def _list_encodings(value: str) -> list[bytes]:
    """The output of the usual encoders: the anchors of a value without a run of letters."""
    in_json = [json.dumps(value, ensure_ascii=plain)[1:-1] for plain in (True, False)]
    twice = [json.dumps(text)[1:-1] for text in in_json]
    slashes = [text.replace("/", "\\/") for text in (value, *in_json)]
    texts = [value, *in_json, *twice, *slashes, html.escape(value), shlex.quote(value)[1:-1]]
    data = _to_bytes(value)
    encoded = [quote_plus(data), *(quote(data, safe=safe) for safe in _SAFE_IN_URLS)]
    lower = [re.sub("%..", lambda match: match[0].lower(), text) for text in encoded]
    forms = map(_to_bytes, (*texts, *encoded, *lower))
    with_surrogates = value.encode("utf-8", "surrogatepass")
    # Anchors have at least three bytes (needle_finder.Needle).
    anchors = dict.fromkeys((*forms, with_surrogates))
    return [anchor[:_LONGEST_ANCHOR] for anchor in anchors if len(anchor) >= 3]


def _find_best_run(
    text: bytes, pattern: re.Pattern[bytes], after: int = 0
) -> list[tuple[bytes, int]]:
    """The run that makes the cheapest anchor, with its position; [] if there is no run."""
    matches = pattern.finditer(text, after, _ANCHOR_RANGE)
    runs = [(match[0][:_LONGEST_ANCHOR], match.start()) for match in matches]
    costs = [sum(estimate_cost(key) for _, key in find_windows(run)) for run, _ in runs]
    return [runs[costs.index(min(costs))]] if runs else []


def _list_shifted_base64(data: bytes, shift: int) -> list[_SpellingNeedle]:
    """Base64 of a text in which the secret begins ``shift`` bytes after a multiple of three.

    One character on each side may encode bits of the secret and of other bytes: it belongs to the
    spelling, as does the padding.
    """
    # A character encodes six bits. The core are the characters with bits of the secret alone.
    bits = 8 * (shift + len(data))
    core = base64.b64encode(bytes(shift) + data)[(shift * 8 + 5) // 6 : bits // 6]
    before = _B64 + b"?" if shift else b""
    after = (_B64 + b"?" if bits % 6 else b"") + rb"(?:=|%3[dD]|\\{1,8}u003[dD]){0,2}"
    body = _LINE_BREAK.join(map(_build_base64_pattern, core))
    form = _SpellingForm(before + body + after, len(core) + 8 * (len(core) // 32 + 4))
    lead = 1 if shift else 0  # the character before the core
    urlsafe = core.translate(bytes.maketrans(b"+/", b"-_"))
    beginnings = [(code[:_LONGEST_ANCHOR], 0) for code in dict.fromkeys((core, urlsafe))]
    # Two anchors, as a line break may be in one: the second begins after half, or 60 characters.
    runs = [
        *_find_best_run(core, _LONG_RUN),
        *_find_best_run(core, _LONG_RUN, min(len(core) // 2, 60)),
    ]
    anchors = dict.fromkeys(runs or beginnings)
    return [
        _SpellingNeedle(form, anchor, offset + lead, unbroken=False) for anchor, offset in anchors
    ]


def _build_base64_pattern(code: int) -> bytes:
    if code == ord("+"):
        return rb"(?:[+-]|%2[bB]|\\{1,8}u002[bB])"
    if code == ord("/"):
        return rb"(?:\\{0,8}/|_|%2[fF])"
    return bytes((code,))


def _list_hex_spellings(data: bytes) -> list[_SpellingNeedle]:
    """Hex digits in one case, joined or with colons or spaces between bytes."""
    form = _SpellingForm(b"[ :]?".join(b"(?i:%02x)" % byte for byte in data), 3 * len(data))
    head = data[:_LONGEST_ANCHOR]
    in_hex = [head.hex(), head.hex(":"), head.hex(" ")]
    both_cases = dict.fromkeys(chain.from_iterable((code, code.upper()) for code in in_hex))
    anchors = [code[: 2 * _LONGEST_ANCHOR].encode() for code in both_cases]
    return [_SpellingNeedle(form, anchor, 0) for anchor in anchors]


# --- which values are redacted --------------------------------------------------------------------

SHORTEST_VALUE, SHORTEST_NUMBER, SHORTEST_LINE = 6, 8, 8
"""Characters of a value, digits of a number, characters of a line of a multi-line value."""
_WORDS = frozenset(
    """
    access account admin administrator default deploy deployer develop development disabled docker
    enabled example gitlab github guest localhost mariadb master mongodb mysql nobody oauth2
    password passwd postgres postgresql private production public readonly redis registry release
    required runner secret secrets staging string testing username
    """.split()
)


def select_usable(values: Iterable[str]) -> list[str]:
    """The values to redact wherever they occur, the longest first.

    Values of fewer than 6 characters, numbers of fewer than 8 digits, and common words
    (``postgres``) are left out: to redact them would spoil the text, and the gaps would reveal the
    value. GitLab masks values of 8 characters or more.
    """
    stripped = {value.strip() for value in values}
    return sorted(filter(_is_distinctive, stripped), key=len, reverse=True)


def _is_distinctive(value: str) -> bool:
    if value.isdecimal():
        return len(value) >= SHORTEST_NUMBER
    return len(value) >= SHORTEST_VALUE and value.casefold() not in _WORDS


def build_needles(values: Iterable[str]) -> list[_SpellingNeedle]:
    """All spellings of all usable values."""
    return list(chain.from_iterable(map(_list_spellings, select_usable(values))))


def build_line_needles(values: Iterable[str]) -> list[_SpellingNeedle]:
    """Raw spellings of the lines, of at least 8 characters, of multi-line values."""
    lines = dict.fromkeys(chain.from_iterable(map(_split_lines, select_usable(values))))
    return list(chain.from_iterable(map(_list_raw_spellings, lines)))


def _split_lines(value: str) -> list[str]:
    lines = [line.strip() for line in value.splitlines()] if "\n" in value else []
    return [
        line
        for line in lines
        if len(line) >= SHORTEST_LINE and _is_distinctive(line) and not line.startswith("-----")
    ]


def measure_longest_form(values: Iterable[str]) -> int:
    """The length in bytes of the longest value if each character is escaped."""
    longest = max((len(_to_bytes(value)) for value in select_usable(values)), default=0)
    return _LONGEST_ESCAPE * longest + 64
