"""The one redactor: a job's values in all their forms, and what looks like a token."""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import AnyStr

from gitlab_nightshift.redaction.escapes import escaped_spans
from gitlab_nightshift.redaction.finder import Finder, Span
from gitlab_nightshift.redaction.stream import REDACTED, Stream, merged
from gitlab_nightshift.redaction.tokens import lookaheads, token_places
from gitlab_nightshift.redaction.values import line_needles, longest_form, needles

_LONGEST_TOKEN = 40_000  # bytes: a private key of 32 KiB and its frame


@dataclass(frozen=True, repr=False)
class Redactor:
    """Takes secrets out of texts, bytes and streams; never raises for what they hold.

    ``values`` are the job's secrets; see ``values.usable`` for those too short to be told from
    ordinary words, and ``tokens`` for what is a secret whoever issued it.
    """

    values: tuple[str, ...]

    def __call__(self, text: AnyStr) -> AnyStr:
        """The text with every secret replaced; of secrets that overlap nothing is left."""
        if isinstance(text, bytes):
            return _without(text, self.spans(text))
        data = text.encode("utf-8", "surrogatepass")
        spans = self.spans(data)
        return _decoded(_without(data, spans)) if spans else text

    def spans(self, text: bytes) -> list[Span]:
        """Where secrets stand, in order; those that overlap are one."""
        find = self._finder.spans
        return merged([*find(text), *escaped_spans(text, find, longest_form(self.values))])

    def holds_value(self, text: bytes) -> bool:
        """Whether one of the values stands in the text, whole, in any form; tokens do not count."""
        find = self._values.spans
        return bool(find(text)) or any(escaped_spans(text, find, longest_form(self.values)))

    def stream(self) -> Stream:
        """A stream through this redactor: holds back what may be the beginning of a secret."""
        return Stream(self.spans, max(longest_form(self.values), _LONGEST_TOKEN))

    @property
    def _finder(self) -> Finder:
        return _finder(self.values)

    @cached_property
    def _values(self) -> Finder:
        return Finder(needles(self.values))


@cache
def _finder(values: tuple[str, ...]) -> Finder:
    """Built once for the same values: that takes longer than most texts."""
    own = [*needles(values), *line_needles(values)]
    return Finder(own, lookaheads(), token_places())


def _without(text: bytes, spans: list[Span]) -> bytes:
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], REDACTED.encode()]
        at = end
    return b"".join((*parts, text[at:]))


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # a value of single bytes that stood inside a character
        return data.decode("utf-8", "replace")
