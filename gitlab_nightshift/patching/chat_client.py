"""A client for Chat Completions, with the standard library alone.

It speaks plain HTTP to the model gateway on this machine, which holds the key and knows the
endpoint.
"""

import contextlib
import http.client
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from gitlab_nightshift.text.lazy_patterns import compile_lazily

COMPLETIONS, MODELS = "/v1/chat/completions", "/v1/models"
LONGEST_ANSWER = 4_000_000
"""Bytes of a whole answer."""
SILENT_S = 1800.0
"""The caller has its own clock; this one only ends what hangs without it."""
TOO_LONG = compile_lazily(
    r"context.{0,20}(length|size|window)|too (long|large|many tokens)|maximum.{0,30}tokens"
    r"|exceed.{0,40}(context|token)|prompt is too",
    re.IGNORECASE | re.DOTALL,
)
"""How servers say that a question is longer than the model's context; they have no code for it."""
_CONTEXT = compile_lazily(r"context (?:length|size|window)\D{0,40}?(\d{3,9})\b", re.IGNORECASE)
WHOLE = ("stop", "tool_calls")
"""The reasons of an answer that has come to its own end."""
_CUTS = {
    "length": "it reached the limit of tokens",
    "content_filter": "the endpoint's content filter held the rest back",
}
_THOUGHT = compile_lazily(r"^\s*<think>.*?</think>\s*", re.DOTALL)

Message = Mapping[str, str]
Format = Mapping[str, Any] | None


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


class CutOffError(EndpointError):
    """An answer without its end: nobody knows what is missing, so it is none."""

    def __init__(self, why: str, times: str = "") -> None:
        super().__init__(200, f"the answer was cut off{times}: {why}")
        self.why = why


@dataclass(frozen=True)
class ChatClient:
    """A model behind a base URL (without ``/v1``). ``heard`` gets how many characters came,
    ``repeats`` why an answer is asked for a second time."""

    base_url: str
    key: str = field(repr=False)
    model: str
    heard: Callable[[int], None] = lambda characters: None
    repeats: Callable[[str], None] = lambda why: None

    def ask(self, messages: Sequence[Message], tokens: int, answer: Format = None) -> str:
        """The text of an answer of at most ``tokens``; one without its end is asked for once more.

        Raises :class:`EndpointError`.
        """
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), "stream": True}
        body["max_completion_tokens"] = tokens
        if answer:
            body["response_format"] = answer
        try:
            return self._ask_once(body)
        except CutOffError as cut:
            self.repeats(f"{cut}; asked for once more")
        try:
            return self._ask_once(body)
        except CutOffError as cut:
            raise CutOffError(cut.why, " twice") from None

    def read_context(self) -> int:
        """Tokens that the model takes, prompt and answer together; 0 where nobody knows."""
        try:
            with self._open("GET", MODELS) as response:
                rows = json.loads(response.read(LONGEST_ANSWER))["data"]
            return next((int(row["max_model_len"]) for row in rows if row["id"] == self.model), 0)
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
            return 0

    def _ask_once(self, body: Mapping[str, Any]) -> str:
        try:
            with self._open("POST", COMPLETIONS, json.dumps(body).encode()) as response:
                if response.status != 200:
                    raise _read_refusal(response)
                return _THOUGHT.sub("", self._read_answer(response))
        except (OSError, http.client.HTTPException) as error:
            kind = type(error).__name__
            raise EndpointError(0, f"the model endpoint gave no answer ({kind})") from None

    def _read_answer(self, response: http.client.HTTPResponse) -> str:
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
    try:
        error = json.loads(response.read(20_000))["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        error = ""
    detail = error if isinstance(error, dict) else {"message": error}
    said = " ".join(str(detail.get("message") or "").split())[:500]
    text = f"the model endpoint answered HTTP {response.status}{': ' if said else ''}{said}"
    return EndpointError(response.status, text, _find_context(detail, said))


def _find_context(error: Mapping[str, Any], said: str) -> int:
    """Tokens: llama.cpp has a key for them, others say it in words."""
    if type(error.get("n_ctx")) is int:
        return int(error["n_ctx"])
    found = _CONTEXT.search(said)
    return int(found[1]) if found else 0


def _read_whole(response: http.client.HTTPResponse) -> str:
    raw = b"".join(_read_body(response, LONGEST_ANSWER))
    answer = _Answer()
    answer.take(_parse_object(raw), "message")
    answer.closed = True
    return answer.finish()


def _read_stream(response: http.client.HTTPResponse, heard: Callable[[int], None]) -> str:
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
    """The text of an answer while it comes, why the model ended it, and whether the closing mark
    has come."""

    closed: bool = False
    size: int = 0
    _parts: list[str] = field(default_factory=list)
    _reason: str = ""

    def take(self, event: Mapping[str, Any], name: str) -> None:
        """A part of it, or all. Raises :class:`CutOffError` where it goes on after its end."""
        text, reason = _parse_piece(event, name)
        if text and self.closed:
            raise CutOffError("it goes on after its end")
        if text:
            self._parts.append(text)
            self.size += len(text)
        if text or reason:
            self._reason = _check_reason(reason)

    def finish(self) -> str:
        """The text. Raises :class:`CutOffError` where an end is missing, EndpointError."""
        if not self.closed:
            raise CutOffError("the stream ended without its end")
        if not self._reason:
            raise CutOffError("the endpoint gave no reason for its end")
        text = "".join(self._parts)
        if not text.strip():
            raise EndpointError(200, "the answer is empty")
        return text


def _check_reason(reason: str) -> str:
    if reason not in ("", *WHOLE):
        raise CutOffError(_CUTS.get(reason, f"finish_reason is {reason[:40]!r}"))
    return reason


def _parse_object(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise CutOffError("it is no JSON of Chat Completions")
    if found.get("error"):
        raise CutOffError(f"the model endpoint failed: {str(found['error'])[:300]}")
    return found


def _parse_piece(event: Mapping[str, Any], name: str) -> tuple[str, str]:
    """The text of a message or a part of one, and why it ended ("" where it goes on)."""
    choices = event.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    inner = first.get(name) if isinstance(first, dict) else None
    text = inner.get("content") if isinstance(inner, dict) else None
    reason = first.get("finish_reason") if isinstance(first, dict) else None
    return text if isinstance(text, str) else "", str(reason or "")
