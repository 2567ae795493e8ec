"""What a scripted model says: the turns of a conversation, and the request that asks for one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Usage:
    """Tokens that an answer claims to have used."""

    input_tokens: int = 1000
    output_tokens: int = 100
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0


@dataclass(frozen=True)
class Call:
    """One use of a tool, as the model asks for it."""

    name: str
    input: Mapping[str, object]


@dataclass(frozen=True)
class Turn:
    """One answer of the model, or what happens instead of it.

    `delay_s` passes before anything is sent. `hang` sends nothing until the endpoint closes,
    `stall` sends the head of a stream first, `broken` makes of a stream's bytes what is sent before
    the connection ends. A status other than 200 sends `error_body`; `stop` is another reason to
    stop, `extra` are further fields of a message of Chat Completions.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = Usage()
    status: int = 200
    error_body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    hang: bool = False
    stall: bool = False
    broken: Callable[[bytes], bytes] | None = None
    stop: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stop_reason(self) -> str:
        return self.stop or ("tool_use" if self.calls else "end_turn")


@dataclass(frozen=True)
class Request:
    """One request as it came in; names of headers are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: JsonObject

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def items(self) -> list[JsonObject]:
        """The conversation in the shape of Responses; empty in the other shapes."""
        given = self.body.get("input", [])
        return [item for item in given if isinstance(item, dict)]

    @property
    def tools(self) -> list[str]:
        tools = self.body.get("tools", [])
        return [str((tool.get("function") or tool)["name"]) for tool in tools]

    @property
    def system(self) -> str:
        return text_of(self.body.get("system", ""))

    @property
    def messages(self) -> list[JsonObject]:
        said = [item for item in self.items if item.get("type", "message") == "message"]
        return list(self.body.get("messages", said))

    @property
    def prompt(self) -> str:
        """The first user message as it was sent, without the reminders that a CLI adds to it."""
        users = (_blocks(m["content"]) for m in self.messages if m["role"] == "user")
        texts = (text_of([b for b in u if not b.get("text", "").startswith(_OWN)]) for u in users)
        return next(filter(None, texts), "")

    @property
    def tool_results(self) -> list[str]:
        """What the tools of this conversation have answered so far, oldest first."""
        blocks = itertools.chain.from_iterable(
            m["content"] for m in self.messages if isinstance(m["content"], list)
        )
        answers = [b.get("content", "") for b in blocks if b["type"] == "tool_result"]
        answers += [m["content"] for m in self.messages if m.get("role") == "tool"]
        answers += [i["output"] for i in self.items if i.get("type", "").endswith("_output")]
        return [text_of(answer) for answer in answers]


_OWN = ("<system-reminder>", "<environment_context>")
"""How the texts begin that a CLI adds to what its user says."""


Script = Sequence[Turn] | Callable[[Request], Turn]


def keep_events(count: int) -> Callable[[bytes], bytes]:
    """A stream that is lost after so many events."""
    return lambda stream: b"".join(row + b"\n\n" for row in stream.split(b"\n\n")[:count])


def say(text: str) -> Turn:
    """Plain text, which ends the conversation."""
    return Turn(text=text)


def call(name: str, /, **arguments: object) -> Turn:
    """One call of any tool; several in one turn are `Turn(calls=(Call(…), Call(…)))`."""
    return Turn(calls=(Call(name, arguments),))


def bash(command: str, description: str = "Run a command") -> Turn:
    return call("Bash", command=command, description=description)


def read(path: object) -> Turn:
    return call("Read", file_path=str(path))


def write(path: object, content: str) -> Turn:
    return call("Write", file_path=str(path), content=content)


def edit(path: object, old: str, new: str) -> Turn:
    return call("Edit", file_path=str(path), old_string=old, new_string=new)


def answer(value: Mapping[str, object]) -> Turn:
    """The structured output that `--json-schema` asks for."""
    return call("StructuredOutput", **value)


def error(
    status: int, kind: str = "api_error", message: str = "scripted error", **headers: str
) -> Turn:
    """An error answer; `retry_after="1"` becomes the header `retry-after: 1`."""
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Turn(status=status, error_body=body, headers=named)


def costing(turn: Turn, **tokens: int) -> Turn:
    """The same turn with other usage figures."""
    return replace(turn, usage=Usage(**tokens))


def by_phrase(beads: Mapping[str, str]) -> Callable[[Request], str]:
    """A matcher: the bead of the first phrase that is in the prompt."""
    return lambda request: next(
        (bead for phrase, bead in beads.items() if phrase in request.prompt), "unknown"
    )


def text_of(content: object) -> str:
    """The text of a message, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(block["text"] for block in blocks if block.get("type") in _TEXTS)


_TEXTS = ("text", "input_text", "output_text")


def _blocks(content: object) -> list[JsonObject]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]
