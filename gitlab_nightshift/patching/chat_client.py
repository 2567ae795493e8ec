"""A client for Chat Completions, with the standard library alone.

It speaks plain HTTP to the model gateway on this machine, which holds the key and knows the
endpoint.
"""

import http.client
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from gitlab_nightshift.lazy_patterns import compile_lazily

PATH = "/v1/chat/completions"
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
_THOUGHT = compile_lazily(r"^\s*<think>.*?</think>\s*", re.DOTALL)

Message = Mapping[str, str]
Format = Mapping[str, Any] | None


class EndpointError(Exception):
    """The endpoint gave no answer; ``status`` is HTTP's, 0 where there was none."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def too_long(self) -> bool:
        """True where the model's context is smaller than what it was sent."""
        return self.status in (400, 413, 422, 500) and TOO_LONG.search(str(self)) is not None


@dataclass(frozen=True)
class ChatClient:
    """A model behind a base URL (without ``/v1``). ``heard`` gets how many characters came."""

    base_url: str
    key: str = field(repr=False)
    model: str
    heard: Callable[[int], None] = lambda characters: None

    def ask(self, messages: Sequence[Message], answer: Format = None) -> str:
        """The text of the answer. Raises :class:`EndpointError`."""
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), "stream": True}
        if answer:
            body["response_format"] = answer
        try:
            return _THOUGHT.sub("", self._send_request(json.dumps(body).encode()))
        except (OSError, http.client.HTTPException) as error:
            kind = type(error).__name__
            raise EndpointError(0, f"the model endpoint gave no answer ({kind})") from None

    def _send_request(self, body: bytes) -> str:
        parts = urlsplit(self.base_url)
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port or 80, timeout=SILENT_S
        )
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        try:
            connection.request("POST", parts.path.rstrip("/") + PATH, body, headers)
            with connection.getresponse() as response:
                if response.status != 200:
                    raise EndpointError(response.status, _describe_refusal(response))
                if "event-stream" in response.headers.get("Content-Type", ""):
                    return _read_stream(response, self.heard)
                return _read_whole(response)
        finally:
            connection.close()


def _describe_refusal(response: http.client.HTTPResponse) -> str:
    raw = response.read(20_000)
    try:
        error = json.loads(raw)["error"]
        text = error["message"] if isinstance(error, dict) else error
    except (ValueError, KeyError, TypeError, RecursionError):
        text = ""
    said = " ".join(str(text).split())[:500]
    return f"the model endpoint answered HTTP {response.status}{': ' if said else ''}{said}"


def _read_whole(response: http.client.HTTPResponse) -> str:
    raw = response.read(LONGEST_ANSWER + 1)
    if len(raw) > LONGEST_ANSWER:
        raise EndpointError(200, "the answer is too large")
    return _complete(*_parse_piece(_parse_object(raw), "message"))


def _read_stream(response: http.client.HTTPResponse, heard: Callable[[int], None]) -> str:
    parts, reason, size = list[str](), "", 0
    for event in _read_events(response):
        text, ended = _parse_piece(event, "delta")
        parts.append(text)
        size += len(text)
        reason = ended or reason
        heard(size)
    return _complete("".join(parts), reason)


def _read_events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    total = 0
    while line := response.readline(LONGEST_ANSWER):
        total += len(line)
        if total > 16 * LONGEST_ANSWER:
            raise EndpointError(200, "the answer is too large")
        data = line.strip()
        if data == b"data: [DONE]":
            return
        if data.startswith(b"data:"):
            yield _parse_object(data.removeprefix(b"data:"))


def _parse_object(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise EndpointError(200, "the answer is no JSON of Chat Completions")
    if found.get("error"):
        raise EndpointError(200, f"the model endpoint failed: {str(found['error'])[:300]}")
    return found


def _parse_piece(event: dict[str, Any], name: str) -> tuple[str, str]:
    """The text of a message or a part of one, and why it ended ("" where it goes on)."""
    choices = event.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    inner = first.get(name) if isinstance(first, dict) else None
    text = inner.get("content") if isinstance(inner, dict) else None
    reason = first.get("finish_reason") if isinstance(first, dict) else None
    return text if isinstance(text, str) else "", str(reason or "")


def _complete(text: str, reason: str) -> str:
    if reason == "length":
        raise EndpointError(200, "the answer was cut off at the model's limit of tokens")
    if not text.strip():
        raise EndpointError(200, "the answer is empty")
    return text
