"""The scripted model in the shape of OpenAI's Responses, as the codex CLI reads it.

The turns are those that are written for claude: Bash, Read, Edit and Write become what codex has
for them, the structured output its last message, any other call one of ``exec_command``. A model
for which the CLI sends the light shape calls its tools from JavaScript, every other one directly.
"""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Iterator

from tests.support.turns import Call, JsonObject, Request, Turn

_numbers = itertools.count(1)


def response(request: Request, turn: Turn) -> JsonObject:
    """The whole answer."""
    items = [_message(turn.text)] if turn.text else []
    items += [_item(call, light=_is_light(request)) for call in turn.calls]
    used = turn.usage
    sent = used.input_tokens + used.cache_read_input_tokens
    return {
        "id": f"resp_{next(_numbers):08}",
        "object": "response",
        "status": "incomplete" if turn.stop else "completed",
        "incomplete_details": {"reason": turn.stop} if turn.stop else None,
        "model": request.model,
        "output": items,
        "usage": {
            "input_tokens": sent,
            "input_tokens_details": {"cached_tokens": used.cache_read_input_tokens},
            "output_tokens": used.output_tokens,
            "output_tokens_details": {"reasoning_tokens": used.output_tokens // 2},
            "total_tokens": sent + used.output_tokens,
        },
    }


def response_events(whole: JsonObject) -> Iterator[JsonObject]:
    """The same answer as a stream of server-sent events."""
    head = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": head}
    for index, item in enumerate(whole["output"]):
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}


def _is_light(request: Request) -> bool:
    return any(item.get("type") == "additional_tools" for item in request.items)


def _message(text: str) -> JsonObject:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    name = f"msg_{next(_numbers):08}"
    return {"type": "message", "id": name, "role": "assistant", "content": content}


def _item(call: Call, *, light: bool) -> JsonObject:
    if call.name == "StructuredOutput":
        return _message(json.dumps(call.input))
    if call.name in ("Edit", "Write"):
        patch = _patch(call)
        script = f"text(await tools.apply_patch({json.dumps(patch)}))"
        return _custom("exec", script) if light else _custom("apply_patch", patch)
    arguments = json.dumps(_command(call))
    if light:
        return _custom("exec", f"text(await tools.exec_command({arguments}))")
    return {**_call("function_call"), "name": "exec_command", "arguments": arguments}


def _command(call: Call) -> JsonObject:
    if call.name == "Read":
        return {"cmd": f"cat {shlex.quote(_path(call))}"}
    return {"cmd": call.input["command"]} if call.name == "Bash" else dict(call.input)


def _custom(name: str, text: str) -> JsonObject:
    return {**_call("custom_tool_call"), "name": name, "input": text}


def _call(kind: str) -> JsonObject:
    number = next(_numbers)
    return {"type": kind, "id": f"item_{number:08}", "call_id": f"call_{number:08}"}


def _path(call: Call) -> str:
    return str(call.input["file_path"])


def _patch(call: Call) -> str:
    if call.name == "Write":
        body = [f"*** Add File: {_path(call)}", *_signed("+", call.input["content"])]
    else:
        old, new = (_signed(sign, call.input[f"{name}_string"]) for sign, name in _SIDES)
        body = [f"*** Update File: {_path(call)}", "@@", *old, *new]
    return "\n".join(["*** Begin Patch", *body, "*** End Patch"])


_SIDES = (("-", "old"), ("+", "new"))


def _signed(sign: str, text: object) -> list[str]:
    return [f"{sign}{line}" for line in str(text).removesuffix("\n").split("\n")]
