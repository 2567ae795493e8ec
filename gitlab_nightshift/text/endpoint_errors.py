"""What a model endpoint says of a failure, in each of the forms that servers have for it."""

import json
import re
from collections.abc import Mapping
from typing import Any

from gitlab_nightshift.text.lazy_patterns import compile_lazily

LONGEST = 500
_PLACES = ("error", "detail", "message", "msg", "error_description")
_EMPTY_ACCOUNT = compile_lazily(
    r"insufficient[_ ](quota|balance|credit|fund)|billing|payment|exceeded your current quota"
    r"|credit balance|out of credits|more credits",
    re.IGNORECASE,
)
_TOOLS = compile_lazily(r"\btools?\b|tool[_-](choice|call)|function.?call", re.IGNORECASE)
_UNSUPPORTED = compile_lazily(
    r"support|enable|require|--jinja|unknown|unrecogni[sz]ed|not (permitted|allowed|implemented)"
    r"|unexpected|extra|no endpoints",
    re.IGNORECASE,
)
_SOON = compile_lazily(r"retry[_ ]?(in|after|delay)|try again in|per (minute|second)|RPM|TPM", re.I)
_PAUSE = compile_lazily(
    r'"retryDelay":\s*"(\d{1,6}(?:\.\d+)?)s"|(?:try again|retry) in (\d{1,6}(?:\.\d+)?) ?s', re.I
)


def parse_error(body: bytes | str) -> tuple[dict[str, Any], str]:
    """The innermost object of an error body and its message; both empty where it has none."""
    try:
        return find_error(json.loads(body))
    except (ValueError, RecursionError):
        return {}, ""


def find_error(value: Any) -> tuple[dict[str, Any], str]:
    """The same of parsed JSON: ``{"error": {"message"}}`` (OpenAI), ``{"error": "text"}`` (Ollama),
    ``{"detail"}`` as text or list (FastAPI), a top-level ``message`` (vLLM, Mistral), a list of
    such (Gemini)."""
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


def find_pause_s(body: bytes) -> float:
    """Seconds after which an overloaded endpoint wants to be asked again, as its body says it
    (Gemini, OpenAI); 0 where it does not."""
    found = _PAUSE.search(body.decode("utf-8", "replace"))
    return float(found[1] or found[2]) if found else 0.0


def is_empty_account(body: bytes | str) -> bool:
    """True if a refusal (429) is about money, so that no waiting helps. A limit per minute may be
    worded alike, but says when to try again."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    return bool(_EMPTY_ACCOUNT.search(text)) and not _SOON.search(text)
