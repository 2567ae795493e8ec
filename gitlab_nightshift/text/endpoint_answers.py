"""Model endpoints' answers, in each form that servers use: tool calls and errors.

Servers differ: Gemini gives all calls index 0, Ollama sends whole calls, some servers send
arguments as objects, some no ids. Without tool calls, or where a server did not translate its chat
template, the calls are in the text. Servers share no error codes, so their messages are searched;
the tests quote each server.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.untrusted_data import as_object, as_text, filter_objects, parse_json

LONGEST_ARGUMENTS = 4_000_000
"""Characters; the rest is left out, which makes the arguments invalid JSON."""


@dataclass
class ChatCall:
    """One call, built from its pieces; ``extra`` goes back to the endpoint, as Gemini asks."""

    index: object
    call_id: object
    name: str = ""
    extra: object = None
    size: int = 0
    _pieces: list[str] = field(default_factory=list)

    def add_arguments(self, arguments: object) -> None:
        """Add a piece of the arguments, or all of them as an object."""
        if arguments is None:
            return
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        if self.size <= LONGEST_ARGUMENTS:
            self._pieces.append(text)
        self.size += len(text)

    def parse_arguments(self) -> Any:
        """The arguments, None if they are not JSON; a call may have none at all."""
        return parse_json("".join(self._pieces) or "{}", strict=False)


@dataclass
class ChatCalls:
    """The calls of one answer, at most ``most``; ``left_out`` counts the pieces of others."""

    most: int
    calls: list[ChatCall] = field(default_factory=list)
    left_out: int = 0

    def add(self, tool_calls: object) -> int:
        """Add a message's ``tool_calls``, or a piece's; returns the added characters and calls."""
        before = self._measure()
        for piece in filter_objects(tool_calls):
            self._add_piece(piece)
        return self._measure() - before

    def _measure(self) -> int:
        return sum(call.size + 1 for call in self.calls) + self.left_out

    def _add_piece(self, piece: dict[str, Any]) -> None:
        function = as_object(piece.get("function"))
        name = as_text(function.get("name"))
        call = self._find_continued(piece, name)
        if call is None and len(self.calls) >= self.most:
            self.left_out += 1
            return
        if call is None:
            call = ChatCall(piece.get("index"), piece.get("id"))
            self.calls.append(call)
        call.call_id = call.call_id or piece.get("id")
        call.name = call.name or name
        call.extra = piece.get("extra_content") or call.extra
        call.add_arguments(function.get("arguments"))

    def _find_continued(self, piece: dict[str, Any], name: str) -> ChatCall | None:
        """The call that a piece continues: the last one with its index, unless another id or a
        second name begins a new call."""
        index, call_id = piece.get("index"), piece.get("id")
        call = next((call for call in reversed(self.calls) if call.index == index), None)
        if call is None:
            return None
        if call_id and call.call_id:
            return call if call_id == call.call_id else None
        return None if name and call.name else call


# --- calls in the text ----------------------------------------------------------------------------


LONGEST_TEXT, MOST_CALLS = 400_000, 100
"""Characters of a text that are searched for calls, and calls that are taken from it."""
_NAME_KEYS, _ARGUMENT_KEYS = ("tool", "name"), ("arguments", "parameters", "input")
_CALL = compile_lazily(
    r"""
    ^```[ ]*tool[ ]*\n         # the form that this program asks for
    | <tool_call>\s*           # Hermes, Qwen
    | \[TOOL_CALLS\]\s*        # Mistral
    # gpt-oss: to=functions.read <|message|>
    | \bto=functions\.(?P<name>\w{1,60})[^{]{0,80}
    """,
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)


def find_written_calls(text: str) -> tuple[tuple[str, Any], ...]:
    """The name and arguments of each call, in order; None for arguments that are not JSON."""
    return tuple(itertools.islice(_find_calls(text[:LONGEST_TEXT]), MOST_CALLS))


def _find_calls(text: str) -> Iterator[tuple[str, Any]]:
    decoder = json.JSONDecoder(strict=False)  # models write line ends into strings
    for mark in _CALL.finditer(text):
        try:
            value, _ = decoder.raw_decode(text, mark.end())
        except (ValueError, RecursionError):
            yield mark["name"] or "", None
            continue
        for call in value if isinstance(value, list) else [value]:
            yield (mark["name"], call) if mark["name"] else _read_call(call)


def _read_call(value: Any) -> tuple[str, Any]:
    call = value if isinstance(value, Mapping) else {}
    call = call["function"] if isinstance(call.get("function"), Mapping) else call
    name = next((call[key] for key in _NAME_KEYS if isinstance(call.get(key), str)), "")
    arguments = next((call[key] for key in _ARGUMENT_KEYS if key in call), None)
    if arguments is None:  # they may be in the same object as the name
        arguments = {key: call[key] for key in call if key not in _NAME_KEYS} or None
    return name, arguments


# --- errors ---------------------------------------------------------------------------------------


LONGEST_MESSAGE = 500
"""Characters."""
_MESSAGE_KEYS = ("error", "detail", "message", "msg", "error_description")
_EMPTY_ACCOUNT = compile_lazily(
    r"insufficient[_ ](quota|balance|credit|fund)|billing|payment|exceeded your current quota"
    r"|credit balance|out of credits|more credits",
    re.IGNORECASE,
)
# Gemini words a limit per minute like an empty account, but adds a RetryInfo with retryDelay.
_RATE = compile_lazily(r"retry[_ ]?(in|after|delay)|try again in|per (minute|second)|RPM|TPM", re.I)
_PAUSE = compile_lazily(
    r'"retryDelay":\s*"(\d{1,6}(?:\.\d+)?)s"|(?:try again|retry) in (\d{1,6}(?:\.\d+)?) ?s', re.I
)
_TOOLS = compile_lazily(r"\btools?\b|tool[_-](choice|call)|function.?call", re.IGNORECASE)
_UNSUPPORTED = compile_lazily(
    r"""
    support                # Ollama (400): "... does not support tools"
    | require | --jinja    # llama.cpp (500): "tools param requires --jinja flag"
    | enable               # vLLM: "... requires --enable-auto-tool-choice"
    | no[ ]endpoints       # OpenRouter: "No endpoints found that support tool use"
    | unknown | unrecogni[sz]ed | not[ ](permitted|allowed|implemented) | unexpected | extra
    """,
    re.IGNORECASE | re.VERBOSE,
)
_TOO_LONG = compile_lazily(
    r"""
    context.{0,20}(length|size|window)  # vLLM: "This model's maximum context length is ... tokens"
    | exceed.{0,40}(context|token)      # llama.cpp: "... exceeds the available context size"
    | maximum.{0,30}tokens | too[ ](long|large|many[ ]tokens) | prompt[ ]is[ ]too
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_CONTEXT = compile_lazily(r"context (?:length|size|window)\D{0,40}?(\d{3,9})\b", re.IGNORECASE)


def parse_error(body: bytes | str) -> tuple[dict[str, Any], str]:
    """The innermost object of an error body and its message; both empty if it has none."""
    try:
        return find_error(json.loads(body))
    except (ValueError, RecursionError):
        return {}, ""


def find_error(value: Any) -> tuple[dict[str, Any], str]:
    """The innermost object of parsed JSON and its message: ``{"error": {"message"}}`` (OpenAI),
    ``{"error": "text"}`` (Ollama), ``{"detail"}`` as text or list (FastAPI), a top-level
    ``message`` (vLLM, Mistral), a list of such (Gemini). Both empty if it has none."""
    if isinstance(value, list):
        return find_error(value[0]) if value else ({}, "")
    if not isinstance(value, Mapping):
        return {}, " ".join(str(value or "").split())[:LONGEST_MESSAGE]
    inner = next((value[name] for name in _MESSAGE_KEYS if value.get(name)), None)
    innermost, text = find_error(inner) if inner is not None else ({}, "")
    return innermost or dict(value), text


def refuses_tools(text: str) -> bool:
    """True if an error says that the model or its server does not support tool calls."""
    return bool(_TOOLS.search(text) and _UNSUPPORTED.search(text))


def is_too_long(text: str) -> bool:
    """True if an error says that a request does not fit into the model's context."""
    return _TOO_LONG.search(text) is not None


def find_context_tokens(error: Mapping[str, Any], text: str) -> int:
    """The model's context in tokens, as an error states it (llama.cpp by ``n_ctx``), else 0."""
    match = _CONTEXT.search(text)
    context = error.get("n_ctx") or (int(match[1]) if match else 0)
    return context if type(context) is int else 0


def find_pause_s(body: bytes) -> float:
    """Seconds to wait that an overloaded endpoint (Gemini, OpenAI) states in its body, else 0."""
    match = _PAUSE.search(body.decode("utf-8", "replace"))
    return float(match[1] or match[2]) if match else 0.0


def is_empty_account(body: bytes | str) -> bool:
    """True if a refusal (429) is about money, so that no waiting helps."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    return bool(_EMPTY_ACCOUNT.search(text)) and not _RATE.search(text)
