"""A client for Chat Completions, with the standard library alone.

It speaks plain HTTP to the model gateway on this machine, which holds the key, knows the endpoint,
and leaves out what the endpoint refuses.
"""

import contextlib
import http.client
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from gitlab_nightshift.text.endpoint_answers import (
    ChatCall,
    ChatCalls,
    find_context_tokens,
    find_error,
    is_too_long,
    parse_error,
    refuses_tools,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.untrusted_data import (
    as_count,
    as_object,
    as_text,
    filter_objects,
    parse_json,
)

COMPLETIONS, MODELS = "/v1/chat/completions", "/v1/models"
LONGEST_ANSWER = 4_000_000
"""Bytes of a whole answer."""
MOST_CALLS = 2_000
"""Calls in one answer; more are a flood."""
SILENCE_S = 1800.0
"""The caller has its own clock; this one only ends what would hang forever."""
FINISHED_REASONS = ("stop", "tool_calls", "function_call")
"""The ``finish_reason`` of a complete answer."""
_CUT_REASONS = {
    "length": "it reached the limit of tokens",
    "content_filter": "the endpoint's content filter held the rest back",
}
# A model's thoughts in its text, if the server does not separate them: DeepSeek, Qwen; gpt-oss in
# the format of openai/harmony (docs/format.md), whose answer is the channel "final".
_THOUGHT = compile_lazily(r"^.*</think>\s*", re.DOTALL)
_HARMONY = compile_lazily(r"^.*<\|channel\|>final\b[^<]*<\|message\|>", re.DOTALL)
_HARMONY_END = compile_lazily(r"<\|(?:return|end|call)\|>\s*$")
_THOUGHT_KEYS = ("reasoning_content", "reasoning")
"""Thoughts beside the text: of DeepSeek and Qwen on vLLM; of OpenRouter and Groq."""
KEPT_THOUGHT_KEYS = (*_THOUGHT_KEYS, "reasoning_details")
"""Keys that are sent back with their message: DeepSeek answers HTTP 400 to a tool's result without
them (api-docs.deepseek.com, "Thinking Mode")."""

Message = dict[str, Any]
# Ids for calls without one. Mistral takes exactly nine letters or digits (mistral-common,
# validator.py).
_new_ids = itertools.count(1)


class EndpointError(Exception):
    """The endpoint gave no usable answer. ``status`` is HTTP's, 0 without an answer; ``context`` is
    the model's context in tokens, 0 if the endpoint did not say."""

    def __init__(self, status: int, message: str, context: int = 0) -> None:
        super().__init__(message)
        self.status, self.context = status, context

    @property
    def too_long(self) -> bool:
        """True if the request and its answer do not fit into the model's context."""
        # 500 is llama.cpp's, here and below.
        return self.status in (400, 413, 422, 500) and is_too_long(str(self))

    @property
    def refuses_tools(self) -> bool:
        """True if the model or its server has no tool calls."""
        return self.status in (400, 404, 422, 500, 501) and refuses_tools(str(self))


class CutOffError(EndpointError):
    """An answer without its end: nobody knows what is missing, so it is not used."""

    def __init__(self, why: str, *, twice: bool = False) -> None:
        super().__init__(200, f"the answer was cut off{' twice' if twice else ''}: {why}")
        self.why = why

    @property
    def hit_token_limit(self) -> bool:
        """True if the model reached the limit of an answer's tokens."""
        return self.why == _CUT_REASONS["length"]


@dataclass(frozen=True)
class ModelCall:
    """A call of a tool. ``arguments`` is None if the model did not write a JSON object."""

    call_id: str
    name: str
    arguments: dict[str, Any] | None


@dataclass(frozen=True)
class ModelReply:
    """A whole answer: its text without thoughts, its calls, the message to send back to the
    endpoint, and the tokens that the endpoint reports."""

    text: str
    calls: tuple[ModelCall, ...]
    message: Message
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True)
class ListedModel:
    """A model as the gateway lists it: tokens of its context (0: unknown), and the request fields
    that its endpoint has refused."""

    context: int = 0
    refused: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ChatClient:
    """A model behind a base URL (without ``/v1``). ``on_progress`` gets the number of characters so
    far, ``on_repeat`` why an answer is requested a second time."""

    base_url: str
    key: str = field(repr=False)
    model: str
    on_progress: Callable[[int], None] = lambda characters: None
    on_repeat: Callable[[str], None] = lambda why: None

    def ask(self, messages: Sequence[Message], max_tokens: int, **fields: Any) -> ModelReply:
        """An answer of at most ``max_tokens``; if its end is missing, it is requested once more.
        ``fields`` are others of the request; empty ones are left out.

        Raises :class:`EndpointError`.
        """
        body = {"model": self.model, "messages": list(messages), "stream": True}
        body |= {"max_completion_tokens": max_tokens}
        body |= {name: value for name, value in fields.items() if value}
        try:
            return self._ask_once(body)
        except CutOffError as cut:
            self.on_repeat(f"{cut}; asked for once more")
        try:
            return self._ask_once(body)
        except CutOffError as cut:
            raise CutOffError(cut.why, twice=True) from None

    def read_model(self) -> ListedModel:
        """Ask the gateway for the model."""
        try:
            with self._open("GET", MODELS) as response:
                models = json.loads(response.read(LONGEST_ANSWER))["data"]
            model: Message = next((model for model in models if model["id"] == self.model), {})
            refused = frozenset(map(str, model.get("refused") or ()))
            return ListedModel(int(model.get("max_model_len") or 0), refused)
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
            return ListedModel()

    def _ask_once(self, body: Mapping[str, Any]) -> ModelReply:
        try:
            with self._open("POST", COMPLETIONS, json.dumps(body).encode()) as response:
                if response.status != 200:
                    raise _read_refusal(response)
                return self._read_answer(response)
        except (OSError, http.client.HTTPException) as error:
            kind = type(error).__name__
            raise EndpointError(0, f"the model endpoint gave no answer ({kind})") from None

    def _read_answer(self, response: http.client.HTTPResponse) -> ModelReply:
        try:
            if "event-stream" in response.headers.get("Content-Type", ""):
                return _read_stream(response, self.on_progress)
            return _read_unstreamed(response)
        except (OSError, http.client.HTTPException) as error:
            raise CutOffError(f"the connection was lost ({type(error).__name__})") from None

    @contextlib.contextmanager
    def _open(
        self, method: str, path: str, body: bytes | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        parts = urlsplit(self.base_url)
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port or 80, timeout=SILENCE_S
        )
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        try:
            connection.request(method, parts.path.rstrip("/") + path, body, headers)
            with connection.getresponse() as response:
                yield response
        finally:
            connection.close()


def _read_refusal(response: http.client.HTTPResponse) -> EndpointError:
    error, message = parse_error(response.read(20_000))
    text = f"the model endpoint answered HTTP {response.status}{': ' if message else ''}{message}"
    return EndpointError(response.status, text, find_context_tokens(error, message))


def _read_unstreamed(response: http.client.HTTPResponse) -> ModelReply:
    answer = _Answer()
    answer.add(_parse_object(b"".join(_read_body(response, LONGEST_ANSWER))), "message")
    answer.closed = True
    return answer.finish()


def _read_stream(
    response: http.client.HTTPResponse, on_progress: Callable[[int], None]
) -> ModelReply:
    answer = _Answer()
    for line in _read_lines(response):
        data = line.strip()
        if not data.startswith(b"data:"):
            continue
        data = data.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            answer.closed = True
        else:
            answer.add(_parse_object(data), "delta")
            on_progress(answer.size)
    return answer.finish()


def _read_lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    unfinished = b""
    # A stream repeats an event's frame around every few characters of text.
    for chunk in _read_body(response, 16 * LONGEST_ANSWER):
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        yield from lines
        if len(unfinished) > LONGEST_ANSWER:
            raise EndpointError(200, "the answer is too large")
    yield unfinished


def _read_body(response: http.client.HTTPResponse, most: int) -> Iterator[bytes]:
    """All of a body, of at most ``most`` bytes. Raises EndpointError, OSError or HTTPException."""
    # Not readline: for chunks it peeks, and http.client's peek takes a broken chunk for the end.
    # read1, like read(n), does not notice a body that is shorter than its Content-Length.
    while chunk := response.read1(65536):
        most -= len(chunk)
        if most < 0:
            raise EndpointError(200, "the answer is too large")
        yield chunk
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)


@dataclass
class _Answer:
    """An answer as it arrives. ``closed``: its closing mark has come; ``size`` in characters."""

    closed: bool = False
    size: int = 0
    _texts: dict[str, list[str]] = field(default_factory=dict)
    _details: list[dict[str, Any]] = field(default_factory=list)
    _calls: ChatCalls = field(default_factory=lambda: ChatCalls(MOST_CALLS))
    _finish_reason: str = ""
    _usage: Mapping[str, Any] = field(default_factory=dict)

    def add(self, event: Mapping[str, Any], message_key: str) -> None:
        """Add the part of the answer in an event, under the ``message_key`` of its choice. Raises
        :class:`CutOffError` if the answer goes on after its end."""
        choice = next(iter(filter_objects(event.get("choices"))), {})
        message, size_before = as_object(choice.get(message_key)), self.size
        self._usage = as_object(event.get("usage")) or self._usage
        for key in ("content", "refusal", *_THOUGHT_KEYS):
            if text := _join_parts(message.get(key)):
                self._texts.setdefault(key, []).append(text)
                self.size += len(text)
        self._add_details(message.get("reasoning_details"))
        self.size += self._calls.add(message.get("tool_calls"))
        if self._calls.left_out:
            raise EndpointError(200, f"more than {MOST_CALLS} tool calls in one answer")
        if self.size > size_before and self.closed:
            raise CutOffError("it goes on after its end")
        # Gemini writes it in upper case.
        reason = str(choice.get("finish_reason") or "").lower()
        if reason not in ("", *FINISHED_REASONS):
            raise CutOffError(_CUT_REASONS.get(reason, f"finish_reason is {reason[:40]!r}"))
        if self.size > size_before or reason:
            self._finish_reason = reason

    def finish(self) -> ModelReply:
        """The whole answer. Raises :class:`CutOffError` if its end is missing, EndpointError."""
        if not self.closed:
            raise CutOffError("the stream ended without its end")
        if not self._finish_reason:
            raise CutOffError("the endpoint gave no reason for its end")
        text = _HARMONY_END.sub("", _HARMONY.sub("", _THOUGHT.sub("", self._join("content"))))
        calls = tuple(map(_build_call, self._calls.calls))
        if refusal := self._join("refusal"):
            raise EndpointError(200, f"the model refuses: {' '.join(refusal.split())[:500]}")
        if not text.strip() and not calls:
            raise EndpointError(200, "the answer is empty")
        tokens_in = as_count(self._usage.get("prompt_tokens"))
        tokens_out = as_count(self._usage.get("completion_tokens"))
        return ModelReply(text, calls, self._build_message(text, calls), tokens_in, tokens_out)

    def _join(self, key: str) -> str:
        return "".join(self._texts.get(key, ()))

    def _add_details(self, details: object) -> None:
        """Add OpenRouter's thoughts, whose entries come in pieces of the same type and index."""
        for piece in filter_objects(details):
            self.size += 1
            last = self._details[-1] if self._details else {}
            if (last.get("type"), last.get("index")) != (piece.get("type"), piece.get("index")):
                self._details.append(dict(piece))
                continue
            for key, value in piece.items():
                is_text = isinstance(value, str) and key in ("text", "summary", "data")
                last[key] = f"{last.get(key) or ''}{value}" if is_text else value

    def _build_message(self, text: str, calls: Sequence[ModelCall]) -> Message:
        """The message to send back, without arguments that are not JSON: a server's chat template
        that reads them would fail every later request."""
        message: Message = {"role": "assistant", "content": text}
        message |= {key: self._join(key) for key in _THOUGHT_KEYS if self._join(key)}
        if self._details:
            message["reasoning_details"] = self._details
        if calls:
            message["tool_calls"] = [
                {"id": call.call_id, "type": "function"}
                | {"function": {"name": call.name, "arguments": json.dumps(call.arguments or {})}}
                | ({"extra_content": raw.extra} if raw.extra else {})
                for call, raw in zip(calls, self._calls.calls, strict=True)
            ]
        return message


def _build_call(raw: ChatCall) -> ModelCall:
    arguments = raw.parse_arguments()
    new_id = f"c{next(_new_ids):08}"
    call_id = raw.call_id if isinstance(raw.call_id, str) and raw.call_id else new_id
    return ModelCall(call_id, raw.name, arguments if isinstance(arguments, dict) else None)


def _join_parts(content: object) -> str:
    """A text, which Mistral sends in parts, of which those with thoughts have no ``text``."""
    return as_text(content) or "".join(
        as_text(part.get("text")) for part in filter_objects(content)
    )


def _parse_object(raw: bytes) -> dict[str, Any]:
    event = parse_json(raw)
    fields = as_object(event)
    # vLLM's error in a stream has none of these keys, Gemini's is a list.
    failed = fields.get("error") or not {"choices", "usage"} & fields.keys()
    if failed and (message := find_error(event)[1] or str(fields.get("error") or "")):
        raise CutOffError(f"the model endpoint failed: {message[:300]}")
    if not isinstance(event, dict):
        raise CutOffError("it is no JSON of Chat Completions")
    return event
