"""Anthropic Messages: what of a request goes on to the endpoint."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from gitlab_nightshift.host.gateway.limits import CLAUDE_IMAGE_TOKENS
from gitlab_nightshift.host.gateway.refusal import Refusal
from gitlab_nightshift.host.gateway.shape import (
    Check,
    Question,
    Seen,
    anything,
    asked,
    either,
    list_of,
    one_of,
    optional,
    picture,
    record,
    scalar,
    tagged,
    text,
)

LONG_CONTEXT = "[1m]"
"""How a user asks the CLI for the long context; the CLI sends the plain id and a beta header."""
LEAST_THINKING = 1024
"""Tokens: the service takes no smaller budget for thinking."""
SERVER_SIDE = ("mcp_servers", "container")
_BETAS = frozenset(
    {
        "claude-code",
        "context-management",
        "effort",
        "extended-cache-ttl",
        "fine-grained-tool-streaming",
        "interleaved-thinking",
        "mid-conversation-system",
        "oauth",
        "output-128k",
        "prompt-caching",
        "prompt-caching-scope",
        "redact-thinking",
        "structured-outputs",
        "thinking-token-count",
        "token-counting",
        "token-efficient-tools",
    }
)
_BETA = re.compile(r"([a-z0-9-]+?)-(\d{4}-\d\d-\d\d|\d{8})")

_LIFETIME = one_of("5m", "1h")


def _lifetime(seen: Seen, value: Any) -> Any:
    """How long the cache keeps it: the longer time has the higher price."""
    seen.hour = seen.hour or value == "1h"
    return _LIFETIME(seen, value)


_CACHE = optional(record("cache_control", type=one_of("ephemeral"), ttl=_lifetime, scope=text))
_PICTURE = picture(CLAUDE_IMAGE_TOKENS)
_DATA: Mapping[str, Check] = {"media_type": text, "data": text}
_TEXT: Mapping[str, Check] = {"text": text, "cache_control": _CACHE}
_IMAGE: Mapping[str, Check] = {
    "source": tagged("an image source", {"base64": {"media_type": text, "data": _PICTURE}}),
    "cache_control": _CACHE,
}
# No PDF: a small one can have any number of pages, so what it costs is not known beforehand.
_DOCUMENT: Mapping[str, Check] = {
    "source": tagged("a document source", {"text": _DATA}),
    "title": optional(text),
    "context": optional(text),
    "cache_control": _CACHE,
}
_RESULT: Mapping[str, Mapping[str, Check]] = {
    "text": _TEXT,
    "image": _IMAGE,
    "document": _DOCUMENT,
}
_BLOCKS: Mapping[str, Mapping[str, Check]] = {
    **_RESULT,
    "thinking": {"thinking": text, "signature": text},
    "redacted_thinking": {"data": text},
    "tool_use": {
        "id": text,
        "name": text,
        "input": anything,
        "caller": tagged("a tool's caller", {"direct": {}}),
        "cache_control": _CACHE,
    },
    "tool_result": {
        "tool_use_id": text,
        "content": either(text, list_of(tagged("a tool result", _RESULT))),
        "is_error": scalar,
        "cache_control": _CACHE,
    },
}
_MESSAGE = record(
    "a message",
    role=one_of("user", "assistant", "system"),
    content=either(text, list_of(tagged("a content block", _BLOCKS))),
)
_TOOL_KEYS: Mapping[str, Check] = {
    "name": text,
    "description": text,
    "input_schema": anything,
    "input_examples": anything,
    "strict": scalar,
    "eager_input_streaming": scalar,
    "cache_control": _CACHE,
}
_EDIT_KEYS: Mapping[str, Check] = dict.fromkeys(
    ("keep", "trigger", "clear_at_least", "exclude_tools", "clear_tool_inputs"), anything
)
_EDITS = {"clear_thinking_20251015": _EDIT_KEYS, "clear_tool_uses_20250919": _EDIT_KEYS}
_FORMAT = optional(tagged("an output format", {"json_schema": {"schema": anything}}))
_ASKED: Mapping[str, Check] = {
    "model": text,
    "messages": list_of(_MESSAGE),
    "system": either(text, list_of(tagged("a system block", {"text": _TEXT}))),
    "tools": list_of(tagged("a tool", {"custom": _TOOL_KEYS}, usual="custom")),
    "tool_choice": record("tool_choice", type=text, name=text, disable_parallel_tool_use=scalar),
    "thinking": record("thinking", type=text, budget_tokens=scalar, display=scalar),
    "context_management": optional(
        record("context_management", edits=list_of(tagged("a context edit", _EDITS)))
    ),
    "output_config": record("output_config", effort=scalar, format=_FORMAT),
    "output_format": _FORMAT,
    "cache_control": _CACHE,
}
_MESSAGES: Mapping[str, Check] = {
    **_ASKED,
    "max_tokens": scalar,
    "stream": one_of(True, False),
    "metadata": record("metadata", user_id=optional(text)),
    "stop_sequences": list_of(text),
    "temperature": scalar,
    "top_p": scalar,
    "top_k": scalar,
}


def check_messages(body: Mapping[str, Any], models: Collection[str]) -> Question:
    """A request for an answer. Raises :class:`Refusal` where it asks for more than a bead needs."""
    question = _checked(body, models, _MESSAGES, "max_tokens")
    if question.max_output is None:
        raise Refusal("max_tokens is missing")
    return question


def check_count(body: Mapping[str, Any], models: Collection[str]) -> Question:
    """A request for the number of tokens of a request; it costs nothing."""
    return _checked(body, models, _ASKED, "")


def _checked(
    body: Mapping[str, Any], models: Collection[str], checks: Mapping[str, Check], limit: str
) -> Question:
    known = plain_models(models)
    question = asked(body, known, checks, output_key=limit, server_side=SERVER_SIDE)
    for tool in question.body.get("tools", ()):
        if not isinstance(tool.get("input_schema"), dict):
            raise Refusal("a tool without input_schema is not allowed: agents have their own only")
    return question


def fit_thinking(body: dict[str, Any], limit: int) -> None:
    """Keep a fixed budget for thinking below a limit that was lowered: the service wants it so."""
    thinking = body.get("thinking") or {}
    budget = thinking.get("budget_tokens")
    if isinstance(budget, int) and budget >= limit:
        least = limit // 2 >= LEAST_THINKING
        body["thinking"] = (
            {**thinking, "budget_tokens": limit // 2} if least else {"type": "disabled"}
        )


def plain_models(models: Iterable[str]) -> set[str]:
    """The ids as they stand in requests."""
    return {model.removesuffix(LONG_CONTEXT) for model in models}


def betas(header: str, models: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """The ``anthropic-beta`` header with the known names alone, of any date; and what was left out.

    Those that give a provider-side tool, a store, or a higher price are not known here.
    """
    known = _BETAS | ({"context-1m"} if any(m.endswith(LONG_CONTEXT) for m in models) else set())
    kept: list[str] = []
    dropped: list[str] = []
    for name in (part.strip() for part in header.split(",")):
        match = _BETA.fullmatch(name)
        (kept if match and match[1] in known else dropped).append(name)
    return ",".join(kept), tuple(name for name in dropped if name)
