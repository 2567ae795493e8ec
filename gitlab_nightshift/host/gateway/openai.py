"""OpenAI Responses and Chat Completions: what of a request goes on to the endpoint."""

from collections.abc import Collection, Mapping
from typing import Any

from gitlab_nightshift.host.gateway.limits import IMAGE_TOKENS
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

SERVER_SIDE = (
    *("background", "conversation", "mcp_servers", "plugins", "previous_response_id", "prompt"),
    *("web_search_options", "audio"),
)
_SILENT = frozenset(
    {
        *("body.client_metadata", "body.store", "body.service_tier", "body.stream_options"),
        "body.user",
    }
)
"""Left out without a word: ids of the client's installation, and what is set here."""
_ENCRYPTED = "reasoning.encrypted_content"
LIGHT = "x-openai-internal-codex-responses-lite"
"""The header by which codex asks for the shape that its newer models have."""


_PICTURE = picture(IMAGE_TOKENS)


def _data_url(seen: Seen, value: Any) -> str:
    """An image within the request: the provider would fetch any other address."""
    if not isinstance(value, str) or not value.startswith("data:image/"):
        raise Refusal("an image by its address is not allowed")
    return str(_PICTURE(seen, value))


_IDS: Mapping[str, Check] = {"id": scalar, "call_id": scalar, "status": scalar}
_SAID: Mapping[str, Mapping[str, Check]] = {
    "input_text": {"text": text},
    "output_text": {"text": text},
    "refusal": {"refusal": text},
    "input_image": {"image_url": _data_url, "detail": scalar},
}
_OUTPUT: Mapping[str, Check] = {
    **_IDS,
    "output": either(text, list_of(tagged("a tool's output", _SAID))),
}
_THOUGHTS = list_of(
    tagged("a thought", {kind: {"text": text} for kind in ("summary_text", "reasoning_text")})
)
_OWN_TOOLS: Mapping[str, Mapping[str, Check]] = {
    "function": {"name": text, "description": scalar, "parameters": anything, "strict": scalar},
    "custom": {"name": text, "description": scalar, "format": anything},
}
_NAMESPACE: Mapping[str, Check] = {
    "name": text,
    "description": scalar,
    "tools": list_of(tagged("a tool", _OWN_TOOLS)),
}
_TOOLS = {**_OWN_TOOLS, "local_shell": {}, "namespace": _NAMESPACE}
_ITEMS: Mapping[str, Mapping[str, Check]] = {
    "message": {
        **_IDS,
        "role": one_of("user", "assistant", "system", "developer"),
        "phase": scalar,
        "content": either(text, list_of(tagged("a content part", _SAID))),
    },
    "function_call": {**_IDS, "name": text, "namespace": scalar, "arguments": text},
    "function_call_output": _OUTPUT,
    "custom_tool_call": {**_IDS, "name": text, "namespace": scalar, "input": text},
    "custom_tool_call_output": _OUTPUT,
    "local_shell_call": {**_IDS, "action": anything},
    # Where a client asks for the light shape, its tools come in here.
    "additional_tools": {
        "id": scalar,
        "role": one_of("developer"),
        "tools": list_of(tagged("a tool", _TOOLS)),
    },
    "local_shell_call_output": _OUTPUT,
    "reasoning": {
        **_IDS,
        "summary": _THOUGHTS,
        "content": optional(_THOUGHTS),
        "encrypted_content": scalar,
    },
}
_SCHEMA: Mapping[str, Check] = {
    "name": text,
    "description": scalar,
    "schema": anything,
    "strict": scalar,
}
_CHOICE = either(
    text, record("tool_choice", type=one_of("function", "custom"), name=text, function=anything)
)
_SHARED: Mapping[str, Check] = {
    "model": text,
    "stream": one_of(True, False),
    "tool_choice": _CHOICE,
    "parallel_tool_calls": scalar,
    "prompt_cache_key": scalar,
    "temperature": scalar,
    "top_p": scalar,
}
_RESPONSES: Mapping[str, Check] = {
    **_SHARED,
    "input": either(text, list_of(tagged("an input item", _ITEMS, usual="message"))),
    "instructions": scalar,
    "tools": list_of(tagged("a tool", _TOOLS)),
    "max_output_tokens": scalar,
    "max_tool_calls": scalar,
    "reasoning": optional(record("reasoning", effort=scalar, summary=scalar, context=scalar)),
    "text": record(
        "text",
        verbosity=scalar,
        format=tagged("a format", {"text": {}, "json_object": {}, "json_schema": _SCHEMA}),
    ),
    "include": list_of(one_of(_ENCRYPTED)),
    "truncation": scalar,
}
_PARTS: Mapping[str, Mapping[str, Check]] = {
    "text": {"text": text},
    "refusal": {"refusal": text},
    "image_url": {"image_url": record("image_url", url=_data_url, detail=scalar)},
}
_CALLS: Mapping[str, Mapping[str, Check]] = {
    "function": {"id": text, "function": record("function", name=text, arguments=text)},
    "custom": {"id": text, "custom": record("custom", name=text, input=text)},
}
_CHAT_MESSAGE = record(
    "a message",
    role=one_of("system", "developer", "user", "assistant", "tool"),
    content=optional(either(text, list_of(tagged("a content part", _PARTS)))),
    name=text,
    tool_call_id=text,
    tool_calls=optional(list_of(tagged("a tool call", _CALLS, usual="function"))),
    refusal=scalar,
    reasoning_content=scalar,
)
_CHAT_TOOLS: Mapping[str, Mapping[str, Check]] = {
    "function": {"function": record("function", **_OWN_TOOLS["function"])},
    "custom": {"custom": record("custom", **_OWN_TOOLS["custom"])},
}
_CHAT: Mapping[str, Check] = {
    **_SHARED,
    "messages": list_of(_CHAT_MESSAGE),
    "tools": list_of(tagged("a tool", _CHAT_TOOLS)),
    "max_tokens": scalar,
    "max_completion_tokens": scalar,
    "n": one_of(1),
    "stop": either(text, optional(list_of(text))),
    "seed": scalar,
    "presence_penalty": scalar,
    "frequency_penalty": scalar,
    "reasoning_effort": scalar,
    "verbosity": scalar,
    "response_format": tagged(
        "a format",
        {"text": {}, "json_object": {}, "json_schema": {"json_schema": record("f", **_SCHEMA)}},
    ),
}


def check_responses(body: Mapping[str, Any], models: Collection[str]) -> Question:
    """A request of the Responses interface; nothing of it is stored at the provider."""
    question = _checked(body, models, _RESPONSES, "max_output_tokens")
    question.body["store"] = False
    return question


def check_chat(body: Mapping[str, Any], models: Collection[str]) -> Question:
    """A request of Chat Completions; a stream always ends with what it used."""
    limits = [name for name in ("max_tokens", "max_completion_tokens") if body.get(name)]
    if len(limits) == 2:
        raise Refusal("max_tokens and max_completion_tokens are one too many")
    question = _checked(body, models, _CHAT, limits[0] if limits else "max_completion_tokens")
    if question.stream:
        question.body["stream_options"] = {"include_usage": True}
    return question


def _checked(
    body: Mapping[str, Any], models: Collection[str], checks: Mapping[str, Check], limit: str
) -> Question:
    return asked(body, models, checks, output_key=limit, server_side=SERVER_SIDE, silent=_SILENT)
