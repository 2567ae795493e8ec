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

from gitlab_nightshift.text.chat_calls import ChatCall, ChatCalls
from gitlab_nightshift.text.endpoint_errors import find_error, parse_error, refuses_tools
from gitlab_nightshift.text.lazy_patterns import compile_lazily

COMPLETIONS, MODELS = "/v1/chat/completions", "/v1/models"
LONGEST_ANSWER = 4_000_000
"""Bytes of a whole answer."""
MOST_CALLS = 2_000
"""Calls in one answer; more are a flood."""
SILENT_S = 1800.0
"""The caller has its own clock; this one only ends what hangs without it."""
TOO_LONG = compile_lazily(
    r"context.{0,20}(length|size|window)|too (long|large|many tokens)|maximum.{0,30}tokens"
    r"|exceed.{0,40}(context|token)|prompt is too",
    re.IGNORECASE | re.DOTALL,
)
"""How servers say that a question is longer than the model's context; they have no code for it."""
_CONTEXT = compile_lazily(r"context (?:length|size|window)\D{0,40}?(\d{3,9})\b", re.IGNORECASE)
WHOLE = ("stop", "tool_calls", "function_call")
"""The reasons of an answer that has come to its own end."""
_CUTS = {
    "length": "it reached the limit of tokens",
    "content_filter": "the endpoint's content filter held the rest back",
}
_THOUGHT = compile_lazily(r"^.*</think>\s*", re.DOTALL)
_HARMONY = compile_lazily(r"^.*<\|channel\|>final\b[^<]*<\|message\|>", re.DOTALL)
_HARMONY_END = compile_lazily(r"<\|(?:return|end|call)\|>\s*$")
_THOUGHTS = ("reasoning_content", "reasoning")
"""A model's thoughts: DeepSeek, Qwen on vLLM; OpenRouter, Groq."""
KEPT_THOUGHTS = (*_THOUGHTS, "reasoning_details")
"""Handed back with the message that they came with: some servers refuse a tool's result else."""

Message = dict[str, Any]
_own_ids = itertools.count(1)
"""For calls without one. Mistral takes only nine letters or digits."""


class EndpointError(Exception):
    """The endpoint gave no answer. ``status`` is HTTP's, 0 where there was none; ``context`` the
    tokens that the model takes, 0 where the endpoint did not say."""

    def __init__(self, status: int, message: str, context: int = 0) -> None:
        super().__init__(message)
        self.status, self.context = status, context

    @property
    def too_long(self) -> bool:
        """True where the model's context is smaller than what it was sent and may answer."""
        return self.status in (400, 413, 422, 500) and TOO_LONG.search(str(self)) is not None

    @property
    def refuses_tools(self) -> bool:
        """True where the model or its server has no tool calls."""
        return self.status in (400, 404, 422, 500, 501) and refuses_tools(str(self))


class CutOffError(EndpointError):
    """An answer without its end: nobody knows what is missing, so it is none."""

    def __init__(self, why: str, times: str = "") -> None:
        super().__init__(200, f"the answer was cut off{times}: {why}")
        self.why = why

    @property
    def too_wordy(self) -> bool:
        """True where the model itself did not come to an end."""
        return self.why == _CUTS["length"]


@dataclass(frozen=True)
class ModelCall:
    """One call of a tool; ``arguments`` is None where what the model wrote is no JSON object."""

    call_id: str
    name: str
    arguments: dict[str, Any] | None


@dataclass(frozen=True)
class ModelReply:
    """A whole answer: its text without thoughts, its calls, the message as it goes back to the
    endpoint, and the tokens that the endpoint says it used."""

    text: str
    calls: tuple[ModelCall, ...]
    message: Message
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True)
class ListedModel:
    """What is known of the model: tokens of its context (0: unknown), and the request's fields that
    its endpoint has refused."""

    context: int = 0
    refused: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ChatClient:
    """A model behind a base URL (without ``/v1``). ``heard`` gets how many characters came,
    ``repeats`` why an answer is asked for a second time."""

    base_url: str
    key: str = field(repr=False)
    model: str
    heard: Callable[[int], None] = lambda characters: None
    repeats: Callable[[str], None] = lambda why: None

    def ask(self, messages: Sequence[Message], tokens: int, **more: Any) -> ModelReply:
        """An answer of at most ``tokens``; one without its end is asked for once more. ``more`` are
        other fields of the request, None for none.

        Raises :class:`EndpointError`.
        """
        body = {"model": self.model, "messages": list(messages), "stream": True}
        body |= {"max_completion_tokens": tokens}
        body |= {name: value for name, value in more.items() if value}
        try:
            return self._ask_once(body)
        except CutOffError as cut:
            self.repeats(f"{cut}; asked for once more")
        try:
            return self._ask_once(body)
        except CutOffError as cut:
            raise CutOffError(cut.why, " twice") from None

    def read_model(self) -> ListedModel:
        """What the gateway knows of the model."""
        try:
            with self._open("GET", MODELS) as response:
                rows = json.loads(response.read(LONGEST_ANSWER))["data"]
            row: Message = next((row for row in rows if row["id"] == self.model), {})
            refused = frozenset(map(str, row.get("refused") or ()))
            return ListedModel(int(row.get("max_model_len") or 0), refused)
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
                return _read_stream(response, self.heard)
            return _read_whole(response)
        except (OSError, http.client.HTTPException) as error:
            raise CutOffError(f"the connection was lost ({type(error).__name__})") from None

    @contextlib.contextmanager
    def _open(
        self, method: str, path: str, body: bytes | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        parts = urlsplit(self.base_url)
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port or 80, timeout=SILENT_S
        )
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        try:
            connection.request(method, parts.path.rstrip("/") + path, body, headers)
            with connection.getresponse() as response:
                yield response
        finally:
            connection.close()


def _read_refusal(response: http.client.HTTPResponse) -> EndpointError:
    found, said = parse_error(response.read(20_000))
    text = f"the model endpoint answered HTTP {response.status}{': ' if said else ''}{said}"
    # llama.cpp has a key for the context, others say it in words.
    told = _CONTEXT.search(said)
    context = found.get("n_ctx") or (int(told[1]) if told else 0)
    return EndpointError(response.status, text, context if type(context) is int else 0)


def _read_whole(response: http.client.HTTPResponse) -> ModelReply:
    answer = _Answer()
    answer.take(_parse_object(b"".join(_read_body(response, LONGEST_ANSWER))), "message")
    answer.closed = True
    return answer.finish()


def _read_stream(response: http.client.HTTPResponse, heard: Callable[[int], None]) -> ModelReply:
    answer = _Answer()
    for line in _read_lines(response):
        data = line.strip()
        if not data.startswith(b"data:"):
            continue
        data = data.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            answer.closed = True
        else:
            answer.take(_parse_object(data), "delta")
            heard(answer.size)
    return answer.finish()


def _read_lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    rest = b""
    for piece in _read_body(response, 16 * LONGEST_ANSWER):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > LONGEST_ANSWER:
            raise EndpointError(200, "the answer is too large")
    yield rest


def _read_body(response: http.client.HTTPResponse, most: int) -> Iterator[bytes]:
    """All of a body, of at most ``most`` bytes.

    By ``read1``, which raises: ``readline`` takes a broken chunk, and like ``read(n)`` a body that
    is too short, for the end. Raises EndpointError, OSError or HTTPException.
    """
    while piece := response.read1(65536):
        most -= len(piece)
        if most < 0:
            raise EndpointError(200, "the answer is too large")
        yield piece
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)


@dataclass
class _Answer:
    """An answer while it comes, why the model ended it, and whether the closing mark has come."""

    closed: bool = False
    size: int = 0
    _texts: dict[str, list[str]] = field(default_factory=dict)
    _details: list[dict[str, Any]] = field(default_factory=list)
    _calls: ChatCalls = field(default_factory=lambda: ChatCalls(MOST_CALLS))
    _reason: str = ""
    _usage: Mapping[str, Any] = field(default_factory=dict)

    def take(self, event: Mapping[str, Any], name: str) -> None:
        """A part of it, or all. Raises :class:`CutOffError` where it goes on after its end."""
        choices = event.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else {}
        first = first if isinstance(first, dict) else {}
        part = first.get(name)
        inner = part if isinstance(part, dict) else {}
        usage = event.get("usage")
        self._usage = usage if isinstance(usage, dict) else self._usage
        before = self.size
        for key in ("content", "refusal", *_THOUGHTS):
            self._add_text(key, _join_parts(inner.get(key)))
        self._add_details(inner.get("reasoning_details"))
        self.size += self._calls.add(inner.get("tool_calls"))
        if self._calls.more:
            raise EndpointError(200, f"more than {MOST_CALLS} tool calls in one answer")
        if self.size > before and self.closed:
            raise CutOffError("it goes on after its end")
        reason = str(first.get("finish_reason") or "").lower()
        if self.size > before or reason:
            self._reason = _check_reason(reason)

    def finish(self) -> ModelReply:
        """The answer. Raises :class:`CutOffError` where an end is missing, EndpointError."""
        if not self.closed:
            raise CutOffError("the stream ended without its end")
        if not self._reason:
            raise CutOffError("the endpoint gave no reason for its end")
        text, calls = (
            _strip_thoughts(self._join("content")),
            tuple(map(_build_call, self._calls.calls)),
        )
        if refusal := self._join("refusal"):
            raise EndpointError(200, f"the model refuses: {' '.join(refusal.split())[:500]}")
        if not text.strip() and not calls:
            raise EndpointError(200, "the answer is empty")
        used = [self._usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        counts = (n if type(n) is int and 0 <= n < 10**9 else 0 for n in used)
        return ModelReply(text, calls, self._build_message(text, calls), *counts)

    def _join(self, key: str) -> str:
        return "".join(self._texts.get(key, ()))

    def _add_text(self, key: str, text: str) -> None:
        if text:
            self._texts.setdefault(key, []).append(text)
            self.size += len(text)

    def _add_details(self, given: object) -> None:
        """OpenRouter's: a stream sends the text of one entry in pieces of the same index."""
        for part in given if isinstance(given, list) else ():
            if not isinstance(part, dict):
                continue
            self.size += 1
            last = self._details[-1] if self._details else {}
            if (last.get("type"), last.get("index")) != (part.get("type"), part.get("index")):
                self._details.append(dict(part))
                continue
            for key, value in part.items():
                joined = isinstance(value, str) and key in ("text", "summary", "data")
                last[key] = f"{last.get(key) or ''}{value}" if joined else value

    def _build_message(self, text: str, calls: Sequence[ModelCall]) -> Message:
        """What goes back: arguments that are no JSON would break the server's chat template."""
        message: Message = {"role": "assistant", "content": text}
        message |= {key: self._join(key) for key in _THOUGHTS if self._join(key)}
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
    own = f"c{next(_own_ids):08}"
    call_id = raw.call_id if isinstance(raw.call_id, str) and raw.call_id else own
    return ModelCall(call_id, raw.name, arguments if isinstance(arguments, dict) else None)


def _strip_thoughts(text: str) -> str:
    """The text behind ``</think>``, or behind the marks of harmony's final channel."""
    return _HARMONY_END.sub("", _HARMONY.sub("", _THOUGHT.sub("", text)))


def _join_parts(content: object) -> str:
    """A text, which may come in parts; those that hold thoughts are left out."""
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _check_reason(reason: str) -> str:
    if reason not in ("", *WHOLE):
        raise CutOffError(_CUTS.get(reason, f"finish_reason is {reason[:40]!r}"))
    return reason


def _parse_object(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    row = found if isinstance(found, dict) else {}
    failed = row.get("error") or isinstance(found, list) or not {"choices", "usage"} & row.keys()
    if failed and (said := find_error(found)[1] or str(row.get("error") or "")):
        raise CutOffError(f"the model endpoint failed: {said[:300]}")
    if not isinstance(found, dict):
        raise CutOffError("it is no JSON of Chat Completions")
    return found
