"""The tool calls in an answer of Chat Completions, put together from the pieces of a stream.

Servers differ: Gemini gives all calls index 0, Ollama sends whole calls, some servers send
arguments as objects, some no ids.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from gitlab_nightshift.text.json_parts import as_object, as_objects, as_text, parse_json

LONGEST_ARGUMENTS = 4_000_000
"""Characters; the rest is left out, which makes the arguments invalid JSON."""


@dataclass
class ChatCall:
    """One call as it arrives; ``extra`` goes back to the endpoint with it."""

    index: object
    call_id: object
    name: str = ""
    extra: object = None
    size: int = 0
    _texts: list[str] = field(default_factory=list)

    def add_arguments(self, given: object) -> None:
        """Add a piece of the arguments, or all of them as an object."""
        text = given if isinstance(given, str) else "" if given is None else json.dumps(given)
        if self.size <= LONGEST_ARGUMENTS:
            self._texts.append(text)
        self.size += len(text)

    def parse_arguments(self) -> Any:
        """The arguments, None if they are not JSON; a call may have none at all."""
        return parse_json("".join(self._texts) or "{}", strict=False)


@dataclass
class ChatCalls:
    """The calls of one answer, at most ``most``; ``more`` were left out."""

    most: int
    calls: list[ChatCall] = field(default_factory=list)
    more: int = 0

    def add(self, given: object) -> int:
        """Read the ``tool_calls`` of a message or of a piece; returns how much was new."""
        before = sum(call.size + 1 for call in self.calls) + self.more
        for part in as_objects(given):
            self._add_piece(part)
        return sum(call.size + 1 for call in self.calls) + self.more - before

    def _add_piece(self, part: dict[str, Any]) -> None:
        function = as_object(part.get("function"))
        name = as_text(function.get("name"))
        call = self._find(part, name)
        if call is None and len(self.calls) >= self.most:
            self.more += 1
            return
        if call is None:
            call = ChatCall(part.get("index"), part.get("id"))
            self.calls.append(call)
        call.call_id = call.call_id or part.get("id")
        call.name = call.name or name
        call.extra = part.get("extra_content") or call.extra
        call.add_arguments(function.get("arguments"))

    def _find(self, part: dict[str, Any], name: str) -> ChatCall | None:
        """The call that a piece continues: the last one of its index, unless another id, or a name
        after a name, begins a new call."""
        same = (call for call in reversed(self.calls) if call.index == part.get("index"))
        call, call_id = next(same, None), part.get("id")
        if call is None or not (call_id and call.call_id):
            return None if call and name and call.name else call
        return call if call_id == call.call_id else None
