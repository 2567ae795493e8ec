"""An answer of the scripted model in the shape of OpenAI's Chat Completions: text alone."""

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
    message = {"role": "assistant", "content": turn.text}
    return {
        "id": f"chatcmpl-{next(_numbers):08}",
        "object": "chat.completion",
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage,
    }


def completion_events(whole: JsonObject) -> Iterator[JsonObject]:
    """The same answer in parts, what it used at the end."""
    head = {"id": whole["id"], "object": "chat.completion.chunk"}
    text = whole["choices"][0]["message"]["content"]
    pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    for piece in pieces:
        yield {**head, "choices": [{"index": 0, "delta": {"content": piece}}], "usage": None}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    yield {**head, "choices": [], "usage": whole["usage"]}
