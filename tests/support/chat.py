"""An answer of the scripted model in the shape of OpenAI's Chat Completions."""

import json
from collections.abc import Iterator
from itertools import count

from tests.support.turns import JsonObject, Request, Turn

_numbers = count(1)
_PIECE = 40
"""Characters of a part of a stream: a mark of a block comes in several."""


def completion(request: Request, turn: Turn) -> JsonObject:
    """The whole answer."""
    usage = {
        "prompt_tokens": turn.usage.input_tokens,
        "completion_tokens": turn.usage.output_tokens,
        "total_tokens": turn.usage.input_tokens + turn.usage.output_tokens,
    }
    message: JsonObject = {"role": "assistant", "content": turn.text, **turn.extra}
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{next(_numbers):08}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.input)},
            }
            for call in turn.calls
        ]
    reason = "tool_calls" if turn.calls else "stop"
    return {
        "id": f"chatcmpl-{next(_numbers):08}",
        "object": "chat.completion",
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": turn.stop or reason}],
        "usage": usage,
    }


def completion_events(whole: JsonObject) -> Iterator[JsonObject]:
    """The same answer in parts, what it used at the end."""
    head = {"id": whole["id"], "object": "chat.completion.chunk"}
    [choice] = whole["choices"]
    text = choice["message"]["content"]
    extra = {k: v for k, v in choice["message"].items() if k not in ("content", "tool_calls")}
    yield {**head, "choices": [{"index": 0, "delta": extra}]}
    for piece in _cut(text):
        yield {**head, "choices": [{"index": 0, "delta": {"content": piece}}], "usage": None}
    for index, call in enumerate(choice["message"].get("tool_calls", ())):
        function = call["function"]
        first = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
        rest = [{"index": index, "function": {"arguments": x}} for x in _cut(function["arguments"])]
        for part in (first, *rest):
            yield {**head, "choices": [{"index": 0, "delta": {"tool_calls": [part]}}]}
    ended = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield {**head, "choices": [ended]}
    yield {**head, "choices": [], "usage": whole["usage"]}


def _cut(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
