"""Count the tokens of an answer while it passes, whole or as a stream, in bounded memory."""

import json
from dataclasses import dataclass, field, fields
from typing import Any

from gitlab_nightshift.host.gateway.keys import Api
from gitlab_nightshift.host.gateway.prices import Tokens

CHARACTERS_PER_TOKEN = 3
MOST_TOKENS = 10**9
_TEXTS = ("text", "thinking", "partial_json", "content", "arguments", "reasoning_content")


@dataclass
class Meter:
    """Reads what an endpoint says of its usage; any bytes may come.

    ``longest`` is the size in bytes from which on a line, or a whole answer, is not read.
    """

    api: Api
    stream: bool
    longest: int
    tokens: Tokens = field(default_factory=Tokens)
    _line: bytearray = field(default_factory=bytearray)
    _skip: bool = False
    _characters: int = 0
    _complete: bool = False

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the answer."""
        if not self.stream:
            self._keep(chunk)
            return
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            self._keep(part)
            self._event()
        self._keep(rest)

    def end(self) -> Tokens:
        """What was used. A stream that was cut is counted by what came."""
        self._event()
        if self._complete:
            return self.tokens
        seen = -(-self._characters // CHARACTERS_PER_TOKEN)
        return _most(self.tokens, Tokens(output=seen))

    def _keep(self, data: bytes) -> None:
        self._skip = self._skip or len(self._line) + len(data) > self.longest
        if self._skip:
            self._line.clear()
        else:
            self._line += data

    def _event(self) -> None:
        line, skip = bytes(self._line).strip(), self._skip
        self._line.clear()
        self._skip = False
        if self.stream and not line.startswith(b"data:"):
            return
        try:
            event = None if skip else json.loads(line.removeprefix(b"data:"))
        except (ValueError, RecursionError):
            return
        if isinstance(event, dict):
            self._read(event)

    def _read(self, event: dict[str, Any]) -> None:
        inner = [event.get(name) for name in ("message", "response")]
        for part in (event, *(x for x in inner if isinstance(x, dict))):
            if isinstance(usage := part.get("usage"), dict):
                used = _anthropic(usage) if self.api is Api.ANTHROPIC else _openai(usage)
                self.tokens = _most(self.tokens, used)
                self._complete = event.get("type") != "message_start"
        if self.stream:
            choices = event.get("choices")
            parts = choices if isinstance(choices, list) else [event]
            self._characters += sum(_length(p.get("delta")) for p in parts if isinstance(p, dict))


def _length(delta: object) -> int:
    """Characters of text in a part of an answer."""
    if isinstance(delta, str):
        return len(delta)
    if isinstance(delta, list):
        return sum(_length(item) for item in delta)
    if not isinstance(delta, dict):
        return 0
    own = sum(len(v) for k in _TEXTS if isinstance(v := delta.get(k), str))
    calls = delta.get("tool_calls")
    rows = calls if isinstance(calls, list) else []
    return own + sum(_length(r.get("function")) for r in rows if isinstance(r, dict))


def _anthropic(usage: dict[str, Any]) -> Tokens:
    written = _number(usage, "cache_creation_input_tokens")
    split = usage.get("cache_creation")
    long = _number(split, "ephemeral_1h_input_tokens") if isinstance(split, dict) else 0
    return Tokens(
        input=_number(usage, "input_tokens"),
        output=_number(usage, "output_tokens"),
        written=max(written - long, 0),
        written_1h=long,
        cached=_number(usage, "cache_read_input_tokens"),
    )


def _openai(usage: dict[str, Any]) -> Tokens:
    asked = _number(usage, "input_tokens") or _number(usage, "prompt_tokens")
    details = usage.get("input_tokens_details") or usage.get("prompt_tokens_details")
    cached = _number(details, "cached_tokens") if isinstance(details, dict) else 0
    output = _number(usage, "output_tokens") or _number(usage, "completion_tokens")
    return Tokens(input=max(asked - cached, 0), output=output, cached=min(cached, asked))


def _number(usage: dict[str, Any], name: str) -> int:
    value = usage.get(name)
    return min(max(value, 0), MOST_TOKENS) if type(value) is int else 0


def _most(one: Tokens, other: Tokens) -> Tokens:
    """The larger of each kind: the events of a stream repeat and add to what they said before."""
    names = [part.name for part in fields(Tokens)]
    return Tokens(**{name: max(getattr(one, name), getattr(other, name)) for name in names})
