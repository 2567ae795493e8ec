"""Anthropic Messages: the parts of a request that are forwarded to the endpoint."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from gitlab_nightshift.gateway.limits import CLAUDE_IMAGE_TOKENS
from gitlab_nightshift.gateway.request_body import (
    Check,
    CheckedRequest,
    RequestRefusal,
    RequestTraits,
    allow_anything,
    allow_either,
    allow_list_of,
    allow_null,
    allow_one_of,
    allow_picture,
    allow_record,
    allow_tagged,
    check_body,
    check_scalar,
    check_text,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

LONG_CONTEXT = "[1m]"
"""How a user asks the CLI for the long context; the CLI sends the plain id and a beta header."""
LEAST_THINKING = 1024
"""Tokens: the smallest thinking budget that the service accepts."""
MOST_CACHE_MARKS = 4
"""The service refuses a request that has ``cache_control`` at more places."""
SERVER_SIDE = ("mcp_servers", "container")
"""Keys by which the provider itself would act: refused."""
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
        "thinking-display-updates",
        "thinking-token-count",
        "token-counting",
        "token-efficient-tools",
    }
)
"""The CLI's beta headers, without dates, that only change how a model answers; others are not
forwarded."""
_BETA = compile_lazily(r"([a-z0-9-]+?)-(\d{4}-\d\d-\d\d|\d{8})")

_LIFETIME = allow_one_of("5m", "1h")


def _check_lifetime(traits: RequestTraits, value: Any) -> Any:
    """Check the cache's lifetime: the longer one costs more."""
    traits.cache_1h = traits.cache_1h or value == "1h"
    return _LIFETIME(traits, value)


_CACHE = allow_null(
    allow_record(
        "cache_control", type=allow_one_of("ephemeral"), ttl=_check_lifetime, scope=check_text
    )
)
_PICTURE = allow_picture(CLAUDE_IMAGE_TOKENS)
_TEXT_SOURCE: Mapping[str, Check] = {"media_type": check_text, "data": check_text}
_TEXT: Mapping[str, Check] = {"text": check_text, "cache_control": _CACHE}
_IMAGE: Mapping[str, Check] = {
    "source": allow_tagged(
        "an image source", {"base64": {"media_type": check_text, "data": _PICTURE}}
    ),
    "cache_control": _CACHE,
}
# No PDF: a small one can have any number of pages, so its cost is unknown beforehand.
_DOCUMENT: Mapping[str, Check] = {
    "source": allow_tagged("a document source", {"text": _TEXT_SOURCE}),
    "title": allow_null(check_text),
    "context": allow_null(check_text),
    "cache_control": _CACHE,
}
_RESULT_BLOCKS: Mapping[str, Mapping[str, Check]] = {
    "text": _TEXT,
    "image": _IMAGE,
    "document": _DOCUMENT,
}
_BLOCKS: Mapping[str, Mapping[str, Check]] = {
    **_RESULT_BLOCKS,
    "thinking": {"thinking": check_text, "signature": check_text},
    "redacted_thinking": {"data": check_text},
    "tool_use": {
        "id": check_text,
        "name": check_text,
        "input": allow_anything,
        # Other callers are the provider's own code execution ("Programmatic tool calling").
        "caller": allow_tagged("a tool's caller", {"direct": {}}),
        "cache_control": _CACHE,
    },
    "tool_result": {
        "tool_use_id": check_text,
        "content": allow_either(
            check_text, allow_list_of(allow_tagged("a tool result", _RESULT_BLOCKS))
        ),
        "is_error": check_scalar,
        "cache_control": _CACHE,
    },
}
_MESSAGE = allow_record(
    "a message",
    role=allow_one_of("user", "assistant", "system"),
    content=allow_either(check_text, allow_list_of(allow_tagged("a content block", _BLOCKS))),
)
_TOOL_KEYS: Mapping[str, Check] = {
    "name": check_text,
    "description": check_text,
    "input_schema": allow_anything,
    "input_examples": allow_anything,
    "strict": check_scalar,
    "eager_input_streaming": check_scalar,
    "cache_control": _CACHE,
}
_EDIT_KEYS: Mapping[str, Check] = dict.fromkeys(
    ("keep", "trigger", "clear_at_least", "exclude_tools", "clear_tool_inputs"), allow_anything
)
_EDITS = {"clear_thinking_20251015": _EDIT_KEYS, "clear_tool_uses_20250919": _EDIT_KEYS}
_FORMAT = allow_null(allow_tagged("an output format", {"json_schema": {"schema": allow_anything}}))
_COUNT_TOKENS_KEYS: Mapping[str, Check] = {
    "model": check_text,
    "messages": allow_list_of(_MESSAGE),
    "system": allow_either(
        check_text, allow_list_of(allow_tagged("a system block", {"text": _TEXT}))
    ),
    "tools": allow_list_of(allow_tagged("a tool", {"custom": _TOOL_KEYS}, default="custom")),
    "tool_choice": allow_record(
        "tool_choice", type=check_text, name=check_text, disable_parallel_tool_use=check_scalar
    ),
    "thinking": allow_record(
        "thinking", type=check_text, budget_tokens=check_scalar, display=check_scalar
    ),
    "context_management": allow_null(
        allow_record(
            "context_management", edits=allow_list_of(allow_tagged("a context edit", _EDITS))
        )
    ),
    "output_config": allow_record("output_config", effort=check_scalar, format=_FORMAT),
    "output_format": _FORMAT,
    "cache_control": _CACHE,
}
_MESSAGES_KEYS: Mapping[str, Check] = {
    **_COUNT_TOKENS_KEYS,
    "max_tokens": check_scalar,
    "stream": allow_one_of(True, False),
    "metadata": allow_record("metadata", user_id=allow_null(check_text)),
    "stop_sequences": allow_list_of(check_text),
    "temperature": check_scalar,
    "top_p": check_scalar,
    "top_k": check_scalar,
}


def check_messages(body: Mapping[str, Any], models: Collection[str]) -> CheckedRequest:
    """Check a request for an answer. Raises RequestRefusal for what no bead needs."""
    checked = _check_request(body, models, _MESSAGES_KEYS, "max_tokens")
    if checked.max_output is None:
        raise RequestRefusal("max_tokens is missing")
    return checked


def check_count(body: Mapping[str, Any], models: Collection[str]) -> CheckedRequest:
    """Check a request to count a request's tokens, which costs nothing."""
    return _check_request(body, models, _COUNT_TOKENS_KEYS, "")


def _check_request(
    body: Mapping[str, Any], models: Collection[str], checks: Mapping[str, Check], output_key: str
) -> CheckedRequest:
    models = list_plain_models(models)
    checked = check_body(body, models, checks, output_key=output_key, server_side=SERVER_SIDE)
    for tool in checked.body.get("tools", ()):
        if not isinstance(tool.get("input_schema"), dict):
            raise RequestRefusal(
                "a tool without input_schema is not allowed: agents may only use their own tools"
            )
    _limit_cache_marks(checked.body)
    return checked


def _limit_cache_marks(body: Mapping[str, Any]) -> None:
    """If there are too many marks, remove the first ones of the conversation, to which this program
    adds one of its own (``claude_code.py: build_stdin``)."""
    contents = [message.get("content") for message in body.get("messages", ())]
    # Tools and system last, so that their marks stay: every request shares these blocks.
    contents += [body.get("tools"), body.get("system")]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    marked = [block for block in blocks if block.get("cache_control")]
    most = MOST_CACHE_MARKS - 1 if body.get("cache_control") else MOST_CACHE_MARKS
    for block in marked[: max(len(marked) - most, 0)]:
        del block["cache_control"]


def fit_thinking(body: dict[str, Any], limit: int) -> None:
    """Lower a fixed thinking budget that is not below ``limit`` (tokens), as the service
    requires."""
    thinking = body.get("thinking") or {}
    budget = thinking.get("budget_tokens")
    if isinstance(budget, int) and budget >= limit:
        # Thinking counts as output: half of the limit is left for the answer.
        fits = limit // 2 >= LEAST_THINKING
        body["thinking"] = (
            {**thinking, "budget_tokens": limit // 2} if fits else {"type": "disabled"}
        )


def list_plain_models(models: Iterable[str]) -> set[str]:
    """The model ids as requests have them, without the mark of the long context."""
    return {model.removesuffix(LONG_CONTEXT) for model in models}


def filter_betas(header: str, models: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """The ``anthropic-beta`` header with only the known names, of any date; and the dropped ones.

    Names that enable a provider-side tool, a store or a higher price are not among the known.
    """
    allowed = set(_BETAS)
    if any(model.endswith(LONG_CONTEXT) for model in models):
        allowed.add("context-1m")
    kept, dropped = list[str](), list[str]()
    for name in filter(None, map(str.strip, header.split(","))):
        match = _BETA.fullmatch(name)
        if match and match[1] in allowed:
            kept.append(name)
        else:
            dropped.append(name)
    return ",".join(kept), tuple(dropped)
