"""The one redactor: removes a job's secret values in all spellings, and what looks like a token."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, cached_property
from typing import AnyStr

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.redaction.escapes import find_escaped_spans
from gitlab_nightshift.redaction.needle_finder import Finder, Span
from gitlab_nightshift.redaction.secret_values import (
    build_line_needles,
    build_needles,
    measure_longest_form,
)
from gitlab_nightshift.redaction.stream import REDACTED, Stream, merge_spans
from gitlab_nightshift.redaction.token_patterns import list_lookaheads, list_token_places

_LONGEST_TOKEN = 40_000  # bytes: a private key of 32 KiB and its frame


@dataclass(frozen=True, repr=False)
class Redactor:
    """Removes secrets from text, bytes and streams; never raises for their content.

    ``values`` are the job's secrets, without those that are not distinctive
    (``secret_values.select_usable``). ``token_patterns`` lists other secrets.
    """

    values: tuple[str, ...]

    def __call__(self, text: AnyStr) -> AnyStr:
        """The text with every secret replaced, overlapping ones as a whole."""
        if not text:
            return text
        if isinstance(text, bytes):
            return _replace_spans(text, self.find_spans(text))
        data = text.encode("utf-8", "surrogatepass")
        spans = self.find_spans(data)
        return _decode_text(_replace_spans(data, spans)) if spans else text

    def find_spans(self, text: bytes) -> list[Span]:
        """The spans of secrets, in order; overlapping ones are merged."""
        find = self._finder.find_spans
        return merge_spans([*find(text), *find_escaped_spans(text, find, self._longest)])

    def holds_value(self, text: bytes) -> bool:
        """True if the text contains one of the values, in any spelling; tokens do not count."""
        find = _build_value_finder(self.values).find_spans
        return bool(find(text)) or any(find_escaped_spans(text, find, self._longest))

    def build_stream(self) -> Stream:
        """A stream through this redactor, which holds back what may begin a secret."""
        return Stream(self.find_spans, max(self._longest, _LONGEST_TOKEN))

    @property
    def _finder(self) -> Finder:
        return _build_finder(self.values)

    @cached_property
    def _longest(self) -> int:
        return measure_longest_form(self.values)


@cache
def _build_finder(values: tuple[str, ...]) -> Finder:
    """Cached, as building it takes longer than to search most texts."""
    own = [*build_needles(values), *build_line_needles(values)]
    return Finder(own, list_lookaheads(), list_token_places())


@cache
def _build_value_finder(values: tuple[str, ...]) -> Finder:
    return Finder(build_needles(values))


def _replace_spans(text: bytes, spans: list[Span]) -> bytes:
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], REDACTED.encode()]
        at = end
    return b"".join((*parts, text[at:]))


def _decode_text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # a value of invalid UTF-8 was cut out of a character
        return data.decode("utf-8", "replace")


# --- patches, which cannot be redacted ------------------------------------------------------------


_SHORTEST_LEAK = 12
"""Characters. Shorter values (``postgres``) are too often ordinary words."""


_OF_THE_BASE = (b" ", b"-", b"@@ ")
"""Beginnings of lines that only repeat the base."""


def refuse_secrets(patch: bytes, secrets: Collection[str]) -> None:
    """Raise ``E_POLICY_DENY`` if a patch adds a secret, in any spelling, in a line or a header."""
    lines = patch.split(b"\n")
    added = [line[1:] for line in lines if line.startswith(b"+")]
    others = [line for line in lines if not line.startswith((b"+", *_OF_THE_BASE))]
    if holds_secret(b"\n".join((*added, *others)), secrets):
        raise NightshiftError(
            Code.POLICY_DENY, "not published: the change contains the value of a secret variable"
        )


def holds_secret(data: bytes, secrets: Collection[str]) -> bool:
    """True if data contains one of the values that are long enough not to be words."""
    return Redactor(tuple(each for each in secrets if len(each) >= _SHORTEST_LEAK)).holds_value(
        data
    )
