"""OpenAI Responses and Chat Completions: the parts of a request that are forwarded."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from gitlab_nightshift.gateway.limits import IMAGE_TOKENS
from gitlab_nightshift.gateway.request_body import (
    BY_BYTES,
    MESSAGE_FIELDS,
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

SERVER_SIDE = (
    *("background", "conversation", "mcp_servers", "plugins", "previous_response_id", "prompt"),
    *("web_search_options", "audio"),
)
"""Keys by which the provider itself would act, store or fetch: refused."""
_DROPPED_SILENTLY = frozenset(
    {
        *("body.client_metadata", "body.store", "body.service_tier", "body.stream_options"),
        "body.user",
    }
)
"""Dropped without a report: ids of the client's installation, and keys that are set below."""
_ENCRYPTED = "reasoning.encrypted_content"
LIMIT_KEYS = ("max_completion_tokens", "max_tokens")
"""The keys of an answer's limit in Chat Completions: OpenAI's, and that of most other servers."""
OPTIONAL = (
    *("stream_options", "response_format", "tool_choice", "parallel_tool_calls"),
    *("prompt_cache_key", "reasoning_effort", "verbosity", "temperature", "top_p", "seed"),
    *("presence_penalty", "frequency_penalty"),
)
"""Fields of Chat Completions that a request can do without."""
LIGHT_HEADER = "x-openai-internal-codex-responses-lite"
"""The header by which codex requests the format of its newer models."""


_PICTURE = allow_picture(IMAGE_TOKENS)


def _check_data_url(traits: RequestTraits, value: Any) -> str:
    """An image within the request; the provider would fetch any other URL."""
    if not isinstance(value, str) or not value.startswith("data:image/"):
        raise RequestRefusal("an image given by URL is not allowed")
    return str(_PICTURE(traits, value))


_ITEM_KEYS: Mapping[str, Check] = dict.fromkeys(("id", "call_id", "status"), check_scalar)
_CONTENT_PARTS: Mapping[str, Mapping[str, Check]] = {
    "input_text": {"text": check_text},
    "output_text": {"text": check_text},
    "refusal": {"refusal": check_text},
    "input_image": {"image_url": _check_data_url, "detail": check_scalar},
}
_TOOL_OUTPUT: Mapping[str, Check] = {
    **_ITEM_KEYS,
    "output": allow_either(
        check_text, allow_list_of(allow_tagged("a tool's output", _CONTENT_PARTS))
    ),
}
# Thoughts are sent back with the next request, encrypted, as the provider does not store them.
_THOUGHTS = allow_list_of(
    allow_tagged(
        "a thought", {kind: {"text": check_text} for kind in ("summary_text", "reasoning_text")}
    )
)
_CLIENT_TOOLS: Mapping[str, Mapping[str, Check]] = {
    "function": {
        "name": check_text,
        "description": check_scalar,
        "parameters": allow_anything,
        "strict": check_scalar,
    },
    "custom": {"name": check_text, "description": check_scalar, "format": allow_anything},
}
_NAMESPACE: Mapping[str, Check] = {
    "name": check_text,
    "description": check_scalar,
    "tools": allow_list_of(allow_tagged("a tool", _CLIENT_TOOLS)),
}
_TOOLS = {**_CLIENT_TOOLS, "local_shell": {}, "namespace": _NAMESPACE}
_INPUT_ITEMS: Mapping[str, Mapping[str, Check]] = {
    "message": {
        **_ITEM_KEYS,
        "role": allow_one_of("user", "assistant", "system", "developer"),
        "phase": check_scalar,
        "content": allow_either(
            check_text, allow_list_of(allow_tagged("a content part", _CONTENT_PARTS))
        ),
    },
    "function_call": {
        **_ITEM_KEYS,
        "name": check_text,
        "namespace": check_scalar,
        "arguments": check_text,
    },
    "function_call_output": _TOOL_OUTPUT,
    "custom_tool_call": {
        **_ITEM_KEYS,
        "name": check_text,
        "namespace": check_scalar,
        "input": check_text,
    },
    "custom_tool_call_output": _TOOL_OUTPUT,
    "local_shell_call": {**_ITEM_KEYS, "action": allow_anything},
    # A client that requests the light format sends its tools here.
    "additional_tools": {
        "id": check_scalar,
        "role": allow_one_of("developer"),
        "tools": allow_list_of(allow_tagged("a tool", _TOOLS)),
    },
    "local_shell_call_output": _TOOL_OUTPUT,
    "reasoning": {
        **_ITEM_KEYS,
        "summary": _THOUGHTS,
        "content": allow_null(_THOUGHTS),
        "encrypted_content": check_scalar,
    },
}
_SCHEMA: Mapping[str, Check] = {
    "name": check_text,
    "description": check_scalar,
    "schema": allow_anything,
    "strict": check_scalar,
}
_TOOL_CHOICE = allow_either(
    check_text,
    allow_record(
        "tool_choice",
        type=allow_one_of("function", "custom"),
        name=check_text,
        function=allow_anything,
    ),
)
_SHARED_KEYS: Mapping[str, Check] = {
    "model": check_text,
    "stream": allow_one_of(True, False),
    "tool_choice": _TOOL_CHOICE,
    "parallel_tool_calls": check_scalar,
    "prompt_cache_key": check_scalar,
    "temperature": check_scalar,
    "top_p": check_scalar,
}
_RESPONSES_KEYS: Mapping[str, Check] = {
    **_SHARED_KEYS,
    "input": allow_either(
        check_text, allow_list_of(allow_tagged("an input item", _INPUT_ITEMS, default="message"))
    ),
    "instructions": check_scalar,
    "tools": allow_list_of(allow_tagged("a tool", _TOOLS)),
    "max_output_tokens": check_scalar,
    "max_tool_calls": check_scalar,
    "reasoning": allow_null(
        allow_record("reasoning", effort=check_scalar, summary=check_scalar, context=check_scalar)
    ),
    "text": allow_record(
        "text",
        verbosity=check_scalar,
        format=allow_tagged("a format", {"text": {}, "json_object": {}, "json_schema": _SCHEMA}),
    ),
    # Everything else that can be included is a result of the provider's own tools.
    "include": allow_list_of(allow_one_of(_ENCRYPTED)),
    "truncation": check_scalar,
}
_CHAT_PARTS: Mapping[str, Mapping[str, Check]] = {
    "text": {"text": check_text},
    "refusal": {"refusal": check_text},
    "image_url": {"image_url": allow_record("image_url", url=_check_data_url, detail=check_scalar)},
}
_CALLS: Mapping[str, Mapping[str, Check]] = {
    "function": {
        "id": check_text,
        "extra_content": allow_anything,  # Gemini's thought_signature
        "function": allow_record("function", name=check_text, arguments=check_text),
    },
    "custom": {
        "id": check_text,
        "custom": allow_record("custom", name=check_text, input=check_text),
    },
}
_CHAT_MESSAGE = allow_record(
    "a message",
    role=allow_one_of("system", "developer", "user", "assistant", "tool"),
    content=allow_null(
        allow_either(check_text, allow_list_of(allow_tagged("a content part", _CHAT_PARTS)))
    ),
    name=check_text,
    tool_call_id=check_text,
    tool_calls=allow_null(allow_list_of(allow_tagged("a tool call", _CALLS, default="function"))),
    refusal=check_scalar,
    reasoning_content=check_scalar,
    reasoning=check_scalar,
    reasoning_details=allow_anything,
)
_CHAT_TOOLS: Mapping[str, Mapping[str, Check]] = {
    "function": {"function": allow_record("function", **_CLIENT_TOOLS["function"])},
    "custom": {"custom": allow_record("custom", **_CLIENT_TOOLS["custom"])},
}
_CHAT_KEYS: Mapping[str, Check] = {
    **_SHARED_KEYS,
    "messages": allow_list_of(_CHAT_MESSAGE),
    "tools": allow_list_of(allow_tagged("a tool", _CHAT_TOOLS)),
    "max_tokens": check_scalar,
    "max_completion_tokens": check_scalar,
    # More answers to a request would cost more than one reserves.
    "n": allow_one_of(1),
    "stop": allow_either(check_text, allow_null(allow_list_of(check_text))),
    "seed": check_scalar,
    "presence_penalty": check_scalar,
    "frequency_penalty": check_scalar,
    "reasoning_effort": check_scalar,
    "verbosity": check_scalar,
    "response_format": allow_tagged(
        "a format",
        {
            "text": {},
            "json_object": {},
            "json_schema": {"json_schema": allow_record("json_schema", **_SCHEMA)},
        },
    ),
}


_check_request = partial(check_body, server_side=SERVER_SIDE, silent=_DROPPED_SILENTLY)


def check_responses(body: Mapping[str, Any], models: Collection[str]) -> CheckedRequest:
    """Check a request of Responses, and forbid the provider to store it."""
    checked = _check_request(body, models, _RESPONSES_KEYS, output_key="max_output_tokens")
    # The default is true: the provider would keep the conversation for 30 days.
    checked.body["store"] = False
    return replace(checked, other_keys=(BY_BYTES,))


def check_chat(body: Mapping[str, Any], models: Collection[str]) -> CheckedRequest:
    """Check a request of Chat Completions, and let a stream end with its usage."""
    limits = [name for name in LIMIT_KEYS if body.get(name)]
    if len(limits) == 2:  # it would be unclear which of them counts
        raise RequestRefusal("send max_tokens or max_completion_tokens, not both")
    key = limits[0] if limits else LIMIT_KEYS[0]
    checked = _check_request(body, models, _CHAT_KEYS, output_key=key)
    if checked.stream:
        # Without it a stream reports no usage, and its worst case would be billed.
        checked.body["stream_options"] = {"include_usage": True}
    other_keys = [name for name in LIMIT_KEYS if name != key] + [BY_BYTES]
    optional = [name for name in OPTIONAL if name in checked.body] + list(MESSAGE_FIELDS)
    return replace(checked, other_keys=tuple(other_keys), optional=tuple(optional))
