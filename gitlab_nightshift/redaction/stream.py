"""Removes secrets from a stream of bytes, in bounded memory, wherever its chunks are cut."""

from collections.abc import Callable, Iterable

from gitlab_nightshift.redaction.needle_finder import Span
from gitlab_nightshift.text.lazy_patterns import compile_lazily

REDACTED = "[redacted]"
_BLOCK = 1 << 19  # bytes that are searched at once
_CONTEXT = 64  # bytes before a position that may decide whether a token begins there
_MORE = compile_lazily(rb"[\w+/=.~%-]*")


class Stream:
    """Takes chunks of any size; its output is delayed by up to some hundred kilobytes.

    ``keep`` is the length in bytes of the longest secret. An even longer token extends to the first
    character that no token contains.
    """

    def __init__(self, find: Callable[[bytes], list[Span]], keep: int) -> None:
        self._find = find
        self._keep = keep
        self._waiting: list[bytes] = []
        self._size = 0
        # ``_held``: input that is held back, after ``_seen`` bytes of context. All up to ``_done``,
        # which may be beyond its end, has left; ``_open``: a token may continue there.
        self._held = b""
        self._seen = self._done = 0
        self._open = False

    def feed(self, chunk: bytes | str) -> bytes:
        """The output that is ready after this chunk, often none."""
        data = chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else bytes(chunk)
        self._waiting.append(data)
        self._size += len(data)
        return self._flush(last=False) if self._size >= max(_BLOCK, self._keep) else b""

    def finish(self) -> bytes:
        """The rest of the output; afterwards the stream is empty and may be used again."""
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
        """Spans that begin after the context, and the continuation of an earlier one."""
        found = [span for span in self._find(text) if span[0] >= self._seen]
        more = _MORE.match(text, self._done) if self._open else None
        return merge_spans([(self._seen, more.end() if more else self._done), *found])


def _replace_spans(text: bytes, spans: Iterable[Span], done: int, cut: int) -> tuple[bytes, int]:
    """The output from ``done`` to ``cut``, and the end of the last span that began there."""
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
    known: list[Span] = []
    for start, end in sorted(spans):
        if known and start < known[-1][1]:
            known[-1] = (known[-1][0], max(end, known[-1][1]))
        elif end > start:
            known.append((start, end))
    return known
