"""A stream of bytes without secrets, in bounded memory, wherever the chunks are cut."""

from collections.abc import Callable, Iterable

from gitlab_nightshift.redaction.needle_finder import Span
from gitlab_nightshift.text.lazy_patterns import compile_lazily

REDACTED = "[redacted]"
_BLOCK = 1 << 19  # bytes that are looked at in one go
_CONTEXT = 64  # bytes before a place that may decide whether a token begins there
_MORE = compile_lazily(rb"[\w+/=.~%-]*")


class Stream:
    """Feed it chunks of any size; what comes out is late by up to some hundred kilobytes.

    ``keep`` is the length in bytes of the longest secret. A token that is longer still goes on
    until a character that no token has.
    """

    def __init__(self, find: Callable[[bytes], list[Span]], keep: int) -> None:
        self._find = find
        self._keep = keep
        self._waiting: list[bytes] = []
        self._size = 0
        # What is held back, behind ``_seen`` bytes that were dealt with before. Up to ``_done``
        # (it may be more) all is out; ``_open`` where a token may go on there.
        self._held = b""
        self._seen = self._done = 0
        self._open = False

    def feed(self, chunk: bytes | str) -> bytes:
        """What is ready to leave after this chunk, often nothing."""
        data = chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else bytes(chunk)
        self._waiting.append(data)
        self._size += len(data)
        return self._flush(last=False) if self._size >= max(_BLOCK, self._keep) else b""

    def finish(self) -> bytes:
        """All that is left; the stream is empty then and may be used again."""
        ready = self._flush(last=True)
        self._held, self._seen, self._done, self._open = b"", 0, 0, False
        return ready

    def _flush(self, last: bool) -> bytes:
        text = b"".join((self._held, *self._waiting))
        self._waiting, self._size = [], 0
        spans = self._find_spans(text)
        cut = len(text) if last else max(len(text) - self._keep, self._seen)
        ready, end = _replace_spans(text, spans, self._done, cut)
        self._open = end == len(text) > cut
        context = max(cut - _CONTEXT, 0)
        self._held, self._seen, self._done = text[context:], cut - context, end - context
        return ready

    def _find_spans(self, text: bytes) -> list[Span]:
        """The spans that begin in what was not dealt with, and what an earlier one goes on with."""
        found = [span for span in self._find(text) if span[0] >= self._seen]
        more = _MORE.match(text, self._done) if self._open else None
        return merge_spans([(self._seen, more.end() if more else self._done), *found])


def _replace_spans(text: bytes, spans: Iterable[Span], done: int, cut: int) -> tuple[bytes, int]:
    """What leaves between ``done`` and ``cut``, and where the last span that began there ends."""
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
    """The spans in order; those that overlap are one, those that only touch are not."""
    known: list[Span] = []
    for start, end in sorted(spans):
        if known and start < known[-1][1]:
            known[-1] = (known[-1][0], max(end, known[-1][1]))
        elif end > start:
            known.append((start, end))
    return known
