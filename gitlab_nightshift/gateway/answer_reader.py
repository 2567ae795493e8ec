"""Reads a model's answer while it is passed on: the tools that it calls, the usage that it reports.

Any bytes may come; memory is bounded.
"""

import json
from dataclasses import dataclass, field, fields, replace
from typing import Any

from gitlab_nightshift.gateway.prices import Tokens
from gitlab_nightshift.gateway.upstream import Api
from gitlab_nightshift.records.usage import MOST_CALLS, ToolCall, build_tool_call
from gitlab_nightshift.text.endpoint_answers import ChatCalls, find_written_calls
from gitlab_nightshift.text.untrusted_data import as_object, as_text, filter_objects, parse_json

LARGEST_INPUT = 256_000
"""Characters of a call's input; of longer input only the tool's name is kept."""
MOST_OPEN = 64
"""Calls of an answer whose input is still arriving."""
_SCRIPTED, MOST_SCRIPTED = "exec_command(", 20
"""How a script for codex's tool ``exec`` runs a command, and the most that are read per script."""


class CallLog:
    """A bead's calls in order: the first are kept, others only counted (``more``)."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.more = 0

    def add(self, call: ToolCall) -> None:
        """Keep or count a call."""
        if len(self.calls) < MOST_CALLS:
            self.calls.append(call)
        else:
            self.more += 1


class CallReader:
    """Finds the tool calls in the events of one answer, of any interface and with any JSON."""

    def __init__(self, log: CallLog) -> None:
        self._log = log
        self._open: dict[int, tuple[dict[str, Any], str]] = {}
        self._chat = ChatCalls(MOST_CALLS)
        self._text = ""

    def read(self, event: dict[str, Any]) -> None:
        """Read one event of a stream, or a whole answer."""
        kind, index = event.get("type"), event.get("index")
        # Messages: a call's input comes in pieces, between the start and the stop of its block.
        if kind == "content_block_start" and isinstance(index, int):
            self._begin(index, as_object(event.get("content_block")))
        elif kind == "content_block_delta" and isinstance(index, int):
            self._append(index, as_text(as_object(event.get("delta")).get("partial_json")))
        elif kind == "content_block_stop" and isinstance(index, int):
            self._finish(index)
        # Responses: a call comes whole once it is done.
        elif kind == "response.output_item.done":
            self._keep_item(as_object(event.get("item")))
        elif isinstance(event.get("choices"), list):
            self._read_chat(event["choices"])
        # Messages and Responses without a stream; a stream has sent these parts one by one.
        elif kind in (None, "message", "response"):
            for part in (
                *filter_objects(event.get("content")),
                *filter_objects(event.get("output")),
            ):
                self._keep_item(part)

    def end(self) -> None:
        """Keep the calls that were begun but not ended, because the stream was cut, and those of
        Chat Completions, which have no end mark. Without any, its text may contain calls."""
        for index in list(self._open):
            self._finish(index)
        for call in self._chat.calls:
            self._log.add(build_tool_call(call.name, call.parse_arguments(), call.call_id))
        if not self._chat.calls:
            for name, arguments in find_written_calls(self._text):
                self._log.add(build_tool_call(name, arguments))
        self._log.more += self._chat.left_out
        self._chat, self._text = ChatCalls(MOST_CALLS), ""

    def _read_chat(self, choices: list[Any]) -> None:
        first = as_object(choices[0]) if choices else {}
        part = as_object(first.get("delta") or first.get("message"))
        if len(self._text) < LARGEST_INPUT:
            self._text += as_text(part.get("content"))
        self._chat.add(part.get("tool_calls"))

    def _begin(self, index: int, block: dict[str, Any]) -> None:
        if block.get("type") == "tool_use":
            self._finish(index)
            if len(self._open) < MOST_OPEN:
                self._open[index] = (block, "")

    def _append(self, index: int, more: str) -> None:
        block, text = self._open.get(index, ({}, ""))
        if block and len(text) <= LARGEST_INPUT:
            self._open[index] = (block, text + more)

    def _finish(self, index: int) -> None:
        block, text = self._open.pop(index, ({}, ""))
        if block:
            # In a stream the start of a block has an empty input; the text comes in its deltas.
            arguments = _parse_input(text) if text else block.get("input")
            self._log.add(build_tool_call(block.get("name"), arguments, block.get("id")))

    def _keep_item(self, item: dict[str, Any]) -> None:
        kind, name, call_id = item.get("type"), item.get("name"), item.get("call_id")
        if kind == "tool_use":
            self._log.add(build_tool_call(name, item.get("input"), item.get("id")))
        if kind == "custom_tool_call":
            for arguments in _list_scripted(as_text(item.get("input"))[:LARGEST_INPUT]):
                self._log.add(build_tool_call(name, arguments, call_id))
        if kind in ("function_call", "local_shell_call"):
            arguments = _parse_input(item.get("arguments")) or item.get("action")
            self._log.add(build_tool_call(name or "local_shell", arguments, call_id))


def _list_scripted(script: str) -> list[object]:
    """The commands that a script runs, or the script itself if none can be parsed."""
    commands: list[object] = []
    for part in script.split(_SCRIPTED)[1 : MOST_SCRIPTED + 1]:
        try:
            # raw_decode stops at the end of the argument, and ignores the script behind it.
            commands.append(json.JSONDecoder().raw_decode(part)[0])
        except (ValueError, RecursionError):
            commands.append({"command": script})
    return commands or [{"command": script}]


def _parse_input(text: object) -> object:
    return parse_json(text) if isinstance(text, str) and len(text) <= LARGEST_INPUT else None


# --- usage ----------------------------------------------------------------------------------------

MOST_TOKENS = 10**9
_LAST_EVENTS = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "message_stop", "error"}
)
"""The last events of a stream; that of Chat Completions has no type."""
_DONE = b"[DONE]"
"""The last line of a Chat Completions stream, which is not JSON."""
_TEXTS = ("delta", "choices", "content", "output")
"""The keys of a model's text in the three interfaces, in a stream and in a complete answer."""


@dataclass(frozen=True)
class ReportedUsage:
    """The usage that an answer has reported. ``final``: it reported its output at its end;
    otherwise the model may have produced more than was seen (hidden thinking, the rest of a broken
    stream). ``closed``: its closing mark was seen, so ``text_bytes`` is the size of all its
    text."""

    tokens: Tokens
    final: bool
    closed: bool = False
    text_bytes: int = 0

    @property
    def unreported(self) -> bool:
        """True for a whole answer of an endpoint that reports no usage."""
        return self.closed and self.tokens == Tokens()


@dataclass
class Meter:
    """Reads the usage that an endpoint reports, and passes each event to ``calls``.

    ``longest`` is the size in bytes beyond which a line, or a whole answer, is not read. With
    ``cache_1h`` the request may write into the cache for an hour: if the endpoint does not tell the
    two kinds of cache writes apart, all count as this one, which costs more.

    ``ended``: all of the answer's text has come, so the agent may go on. ``closed``: the protocol's
    closing mark has come, or all of one JSON object; an answer without it was cut off, however
    cleanly its connection ended. ``final`` and ``text_bytes`` are as in ReportedUsage.
    """

    api: Api
    stream: bool
    longest: int
    cache_1h: bool = False
    calls: CallReader | None = None
    final: bool = False
    ended: bool = False
    closed: bool = False
    text_bytes: int = 0
    _tokens: Tokens = field(default_factory=Tokens)
    _line: bytearray = field(default_factory=bytearray)
    _skip: bool = False
    _has_split: bool = False

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the answer."""
        if not self.stream:
            self._keep(chunk)
            return
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            self._keep(part)
            self._finish_line()
        self._keep(rest)

    def end(self) -> ReportedUsage:
        """The reported usage, after the last byte."""
        self._finish_line()
        if self.calls:
            self.calls.end()
        return self.read_usage()

    def read_usage(self) -> ReportedUsage:
        """The usage that was reported so far."""
        tokens, for_hour = self._tokens, self._tokens.written_1h
        if self.cache_1h and not self._has_split:
            for_hour = tokens.written
        written = max(tokens.written - for_hour, 0)
        tokens = replace(tokens, written=written, written_1h=for_hour)
        return ReportedUsage(tokens, self.final, self.closed, self.text_bytes)

    def _keep(self, data: bytes) -> None:
        # A line that is too long is skipped as a whole: half of its JSON could not be parsed.
        self._skip = self._skip or len(self._line) + len(data) > self.longest
        if self._skip:
            self._line.clear()
        else:
            self._line += data

    def _finish_line(self) -> None:
        line, skip = bytes(self._line).strip(), self._skip
        self._line.clear()
        self._skip = False
        # Server-sent events (WHATWG HTML, 9.2): the other fields only repeat what the data says.
        # Each event of these interfaces has one data line.
        if self.stream and not line.startswith(b"data:"):
            return
        data = line.removeprefix(b"data:").strip()
        self.closed = self.closed or (self.stream and data == _DONE)
        try:
            event = None if skip else json.loads(data)
        except (ValueError, RecursionError):
            return
        if isinstance(event, dict):
            self._read(event)

    def _read(self, event: dict[str, Any]) -> None:
        if self.calls:
            self.calls.read(event)
        self.ended = self.ended or not self.stream or _ends_text(event)
        # An error may come in place of the mark, and every client takes it for the end.
        closes = _is_last_event(event) or bool(event.get("error"))
        self.closed = self.closed or not self.stream or closes
        self.text_bytes += sum(_count_text(event.get(name)) for name in _TEXTS)
        inner = [event.get(name) for name in ("message", "response")]
        for part in (event, *(x for x in inner if isinstance(x, dict))):
            if isinstance(usage := part.get("usage"), dict):
                used = (
                    _read_anthropic_usage(usage)
                    if self.api is Api.ANTHROPIC
                    else _read_openai_usage(usage)
                )
                self._tokens = _merge_tokens(self._tokens, used)
                self._has_split = self._has_split or isinstance(usage.get("cache_creation"), dict)
                self.final = self.final or (self.ended and used.output > 0)


def _is_last_event(event: dict[str, Any]) -> bool:
    kind = event.get("type")
    return isinstance(kind, str) and kind in _LAST_EVENTS


def _count_text(value: object) -> int:
    """Bytes of all texts in a part of an event."""
    size, values = 0, [value]
    while values:
        inner = values.pop()
        if isinstance(inner, str):
            size += len(inner.encode("utf-8", "surrogatepass"))
        elif isinstance(inner, dict | list):
            values += inner.values() if isinstance(inner, dict) else inner
    return size


def _ends_text(event: dict[str, Any]) -> bool:
    """True for an event after which no more text comes: its own usage, or that of the next event,
    is the last."""
    delta, choices = event.get("delta"), event.get("choices")
    parts = [delta, *(choices if isinstance(choices, list) else ())]
    reasons = [
        part.get(name)
        for part in parts
        if isinstance(part, dict)
        for name in ("stop_reason", "finish_reason")
    ]
    # With include_usage, the last chunk of Chat Completions has no choices, only the usage of the
    # whole request (OpenAI API reference, "stream_options").
    ended = _is_last_event(event) or choices == []
    return ended or any(isinstance(reason, str) for reason in reasons)


def _read_anthropic_usage(usage: dict[str, Any]) -> Tokens:
    """The tokens of Anthropic's usage. ``written`` counts both kinds of cache writes, as the events
    of one stream report the split only once."""
    split = usage.get("cache_creation")
    parts = split if isinstance(split, dict) else {}
    for_hour = _read_number(parts, "ephemeral_1h_input_tokens")
    for_minutes = _read_number(parts, "ephemeral_5m_input_tokens")
    return Tokens(
        # Input without what was written to the cache or read from it (Anthropic, "Prompt caching").
        input=_read_number(usage, "input_tokens"),
        output=_read_number(usage, "output_tokens"),
        written=max(_read_number(usage, "cache_creation_input_tokens"), for_hour + for_minutes),
        written_1h=for_hour,
        cached=_read_number(usage, "cache_read_input_tokens"),
    )


def _read_openai_usage(usage: dict[str, Any]) -> Tokens:
    """The tokens of OpenAI's usage. Some endpoints count reasoning in the total alone."""
    input_tokens = _read_number(usage, "input_tokens") or _read_number(usage, "prompt_tokens")
    details = usage.get("input_tokens_details") or usage.get("prompt_tokens_details")
    parts = details if isinstance(details, dict) else {}
    # OpenAI counts cache reads and writes within the input, Anthropic beside it. The bounds keep a
    # server that reports nonsense from making the rest negative.
    cached = min(_read_number(parts, "cached_tokens"), input_tokens)
    written = min(_read_number(parts, "cache_write_tokens"), input_tokens - cached)
    output = _read_number(usage, "output_tokens") or _read_number(usage, "completion_tokens")
    output = max(output, _read_number(usage, "total_tokens") - input_tokens)
    return Tokens(input_tokens - cached - written, output, written, cached=cached)


def _read_number(usage: dict[str, Any], name: str) -> int:
    value = usage.get(name)
    # By type: true is an int, too.
    return min(max(value, 0), MOST_TOKENS) if type(value) is int else 0


def _merge_tokens(one: Tokens, other: Tokens) -> Tokens:
    """The larger of each kind: the events of a stream repeat and add to what they said before."""
    names = [part.name for part in fields(Tokens)]
    return Tokens(**{name: max(getattr(one, name), getattr(other, name)) for name in names})
