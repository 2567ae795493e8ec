"""Reads a model's answer while it is passed on: the tools that it calls, the usage that it reports.

The answer may consist of any bytes; memory is bounded.
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
_SCRIPT_CALL, MOST_SCRIPT_CALLS = "exec_command(", 20
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
        # Responses: a call comes in one event, once it is complete.
        elif kind == "response.output_item.done":
            self._log_item(as_object(event.get("item")))
        elif isinstance(event.get("choices"), list):
            self._read_chat(event["choices"])
        # Messages and Responses without a stream; a stream has sent these items one by one.
        elif kind in (None, "message", "response"):
            for item in filter_objects(event.get("content")) + filter_objects(event.get("output")):
                self._log_item(item)

    def end(self) -> None:
        """Log the calls that have no end: those of a stream that was cut, and all of Chat
        Completions. Without any of these, its text may contain calls."""
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
        choice = as_object(choices[0]) if choices else {}
        message = as_object(choice.get("delta") or choice.get("message"))
        if len(self._text) < LARGEST_INPUT:
            self._text += as_text(message.get("content"))
        self._chat.add(message.get("tool_calls"))

    def _begin(self, index: int, block: dict[str, Any]) -> None:
        if block.get("type") == "tool_use":
            self._finish(index)
            if len(self._open) < MOST_OPEN:
                self._open[index] = (block, "")

    def _append(self, index: int, delta: str) -> None:
        block, text = self._open.get(index, ({}, ""))
        if block and len(text) <= LARGEST_INPUT:
            self._open[index] = (block, text + delta)

    def _finish(self, index: int) -> None:
        block, text = self._open.pop(index, ({}, ""))
        if block:
            # In a stream the start of a block has an empty input; the text comes in its deltas.
            arguments = _parse_input(text) if text else block.get("input")
            self._log.add(build_tool_call(block.get("name"), arguments, block.get("id")))

    def _log_item(self, item: dict[str, Any]) -> None:
        kind, name, call_id = item.get("type"), item.get("name"), item.get("call_id")
        if kind == "tool_use":
            self._log.add(build_tool_call(name, item.get("input"), item.get("id")))
        if kind == "custom_tool_call":
            for arguments in _list_script_commands(as_text(item.get("input"))[:LARGEST_INPUT]):
                self._log.add(build_tool_call(name, arguments, call_id))
        if kind in ("function_call", "local_shell_call"):
            arguments = _parse_input(item.get("arguments")) or item.get("action")
            self._log.add(build_tool_call(name or "local_shell", arguments, call_id))


def _list_script_commands(script: str) -> list[object]:
    """The commands that a script runs, or the script itself if it has none. A command that cannot
    be parsed stands for the whole script."""
    commands: list[object] = []
    for argument in script.split(_SCRIPT_CALL)[1 : MOST_SCRIPT_CALLS + 1]:
        try:
            # raw_decode stops at the end of the argument, and ignores the script behind it.
            commands.append(json.JSONDecoder().raw_decode(argument)[0])
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
_TEXT_KEYS = ("delta", "choices", "content", "output")
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
    def is_missing(self) -> bool:
        """True for a complete answer of an endpoint that reports no usage."""
        return self.closed and self.tokens == Tokens()


@dataclass
class Meter:
    """Reads the usage that an endpoint reports, and passes each event to ``calls``.

    ``longest`` is the size in bytes beyond which a line, or an answer without a stream, is not
    read. With ``cache_1h`` the request may write into the cache for an hour: if the endpoint does
    not tell the two kinds of cache writes apart, all count as this one, which costs more.

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
    _has_cache_split: bool = False

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes of the answer."""
        if not self.stream:
            self._append(chunk)
            return
        for index, piece in enumerate(chunk.split(b"\n")):
            if index:
                self._finish_line()
            self._append(piece)

    def end(self) -> ReportedUsage:
        """The reported usage, after the last byte."""
        self._finish_line()
        if self.calls:
            self.calls.end()
        return self.read_usage()

    def read_usage(self) -> ReportedUsage:
        """The usage that was reported so far."""
        tokens, written_1h = self._tokens, self._tokens.written_1h
        if self.cache_1h and not self._has_cache_split:
            written_1h = tokens.written
        written = max(tokens.written - written_1h, 0)
        tokens = replace(tokens, written=written, written_1h=written_1h)
        return ReportedUsage(tokens, self.final, self.closed, self.text_bytes)

    def _append(self, data: bytes) -> None:
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
            self._read_event(event)

    def _read_event(self, event: dict[str, Any]) -> None:
        if self.calls:
            self.calls.read(event)
        self.ended = self.ended or not self.stream or _ends_text(event)
        # An error may come in place of the mark, and every client takes it for the end.
        closes = _is_last_event(event) or bool(event.get("error"))
        self.closed = self.closed or not self.stream or closes
        self.text_bytes += sum(_count_text_bytes(event.get(key)) for key in _TEXT_KEYS)
        read_usage = _read_anthropic_usage if self.api is Api.ANTHROPIC else _read_openai_usage
        for holder in (event, as_object(event.get("message")), as_object(event.get("response"))):
            if isinstance(usage := holder.get("usage"), dict):
                tokens = read_usage(usage)
                self._tokens = _merge_tokens(self._tokens, tokens)
                self._has_cache_split |= isinstance(usage.get("cache_creation"), dict)
                self.final = self.final or (self.ended and tokens.output > 0)


def _is_last_event(event: dict[str, Any]) -> bool:
    kind = event.get("type")
    return isinstance(kind, str) and kind in _LAST_EVENTS


def _count_text_bytes(value: object) -> int:
    """The size of all texts in a value."""
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
    delta, choices = as_object(event.get("delta")), event.get("choices")
    reasons = [
        part.get(key)
        for part in (delta, *filter_objects(choices))
        for key in ("stop_reason", "finish_reason")
    ]
    # With include_usage, the last chunk of Chat Completions has no choices, only the usage of the
    # whole request (OpenAI API reference, "stream_options").
    ended = _is_last_event(event) or choices == []
    return ended or any(isinstance(reason, str) for reason in reasons)


def _read_anthropic_usage(usage: dict[str, Any]) -> Tokens:
    """The tokens of Anthropic's usage. ``written`` counts both kinds of cache writes, as the events
    of one stream report the split only once."""
    split = as_object(usage.get("cache_creation"))
    written_1h = _read_number(split, "ephemeral_1h_input_tokens")
    written_5m = _read_number(split, "ephemeral_5m_input_tokens")
    return Tokens(
        # Input without what was written to the cache or read from it (Anthropic, "Prompt caching").
        input=_read_number(usage, "input_tokens"),
        output=_read_number(usage, "output_tokens"),
        written=max(_read_number(usage, "cache_creation_input_tokens"), written_1h + written_5m),
        written_1h=written_1h,
        cached=_read_number(usage, "cache_read_input_tokens"),
    )


def _read_openai_usage(usage: dict[str, Any]) -> Tokens:
    """The tokens of OpenAI's usage. Some endpoints count reasoning in the total alone."""
    input_tokens = _read_number(usage, "input_tokens") or _read_number(usage, "prompt_tokens")
    details = as_object(usage.get("input_tokens_details") or usage.get("prompt_tokens_details"))
    # OpenAI counts cache reads and writes within the input, Anthropic beside it. The bounds keep a
    # server that reports nonsense from making the rest negative.
    cached = min(_read_number(details, "cached_tokens"), input_tokens)
    written = min(_read_number(details, "cache_write_tokens"), input_tokens - cached)
    output = _read_number(usage, "output_tokens") or _read_number(usage, "completion_tokens")
    output = max(output, _read_number(usage, "total_tokens") - input_tokens)
    return Tokens(input_tokens - cached - written, output, written, cached=cached)


def _read_number(usage: dict[str, Any], key: str) -> int:
    value = usage.get(key)
    # By type: True is an int, too.
    return min(max(value, 0), MOST_TOKENS) if type(value) is int else 0


def _merge_tokens(one: Tokens, other: Tokens) -> Tokens:
    """The larger of each kind: later events of a stream repeat earlier figures or raise them."""
    kinds = [kind.name for kind in fields(Tokens)]
    return Tokens(**{kind: max(getattr(one, kind), getattr(other, kind)) for kind in kinds})
