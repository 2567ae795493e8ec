"""Reads the errors of model endpoints: message, tokens, pause, in each form that servers use.

Servers share no codes for these cases, so their words are read; the tests quote each server.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from gitlab_nightshift.text.lazy_patterns import compile_lazily

LONGEST = 500
"""Characters of a message."""
_PLACES = ("error", "detail", "message", "msg", "error_description")
_EMPTY_ACCOUNT = compile_lazily(
    r"insufficient[_ ](quota|balance|credit|fund)|billing|payment|exceeded your current quota"
    r"|credit balance|out of credits|more credits",
    re.IGNORECASE,
)
# Gemini words a limit per minute like an empty account, but adds a RetryInfo with retryDelay.
_SOON = compile_lazily(r"retry[_ ]?(in|after|delay)|try again in|per (minute|second)|RPM|TPM", re.I)
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
        return {}, " ".join(str(value or "").split())[:LONGEST]
    inner = next((value[name] for name in _PLACES if value.get(name)), None)
    found, text = find_error(inner) if inner is not None else ({}, "")
    return found or dict(value), text


def refuses_tools(text: str) -> bool:
    """True if a model or its server says that it has no tool calls."""
    return bool(_TOOLS.search(text) and _UNSUPPORTED.search(text))


def is_too_long(text: str) -> bool:
    """True if a request and its answer do not fit into the model's context."""
    return _TOO_LONG.search(text) is not None


def find_context(error: Mapping[str, Any], text: str) -> int:
    """The tokens that a model takes, by an error of :func:`parse_error`; 0 if it does not say.
    llama.cpp has a key for it, ``n_ctx``; others say it in words."""
    match = _CONTEXT.search(text)
    context = error.get("n_ctx") or (int(match[1]) if match else 0)
    return context if type(context) is int else 0


def find_pause_s(body: bytes) -> float:
    """Seconds that an overloaded endpoint asks to wait in its body (Gemini, OpenAI); 0 if it does
    not."""
    found = _PAUSE.search(body.decode("utf-8", "replace"))
    return float(found[1] or found[2]) if found else 0.0


def is_empty_account(body: bytes | str) -> bool:
    """True if a refusal (429) is about money, so that no waiting helps."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    return bool(_EMPTY_ACCOUNT.search(text)) and not _SOON.search(text)
