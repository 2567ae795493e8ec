"""The tool calls in an answer of Chat Completions, put together from the pieces of a stream.

Servers differ: Gemini gives all calls one index, Ollama sends whole calls, some arguments as
objects, some no id.
"""

import json
from dataclasses import dataclass, field
from typing import Any

LONGEST_ARGUMENTS = 4_000_000
"""Characters; what comes after them is left out, so that they are no JSON any more."""


@dataclass
class ChatCall:
    """One call while it comes: ``extra`` goes back to the endpoint with it."""

    index: object
    call_id: object
    name: str = ""
    extra: object = None
    size: int = 0
    _texts: list[str] = field(default_factory=list)

    def add_arguments(self, given: object) -> None:
        """A piece of the arguments, or all of them as an object."""
        text = given if isinstance(given, str) else "" if given is None else json.dumps(given)
        if self.size <= LONGEST_ARGUMENTS:
            self._texts.append(text)
        self.size += len(text)

    def parse_arguments(self) -> Any:
        """The arguments, None where they are no JSON; a call may have none at all."""
        try:
            return json.loads("".join(self._texts) or "{}", strict=False)
        except (ValueError, RecursionError):
            return None


@dataclass
class ChatCalls:
    """The calls of one answer, at most ``most``; ``more`` were left out."""

    most: int
    calls: list[ChatCall] = field(default_factory=list)
    more: int = 0

    def add(self, given: object) -> int:
        """Read the ``tool_calls`` of a message or of a piece; returns how much was new."""
        before = sum(call.size + 1 for call in self.calls) + self.more
        for part in given if isinstance(given, list) else ():
            if isinstance(part, dict):
                self._add_piece(part)
        return sum(call.size + 1 for call in self.calls) + self.more - before

    def _add_piece(self, part: dict[str, Any]) -> None:
        told = part.get("function")
        function = told if isinstance(told, dict) else {}
        name = function.get("name")
        call = self._find(part, name)
        if call is None and len(self.calls) >= self.most:
            self.more += 1
            return
        if call is None:
            call = ChatCall(part.get("index"), part.get("id"))
            self.calls.append(call)
        call.call_id = call.call_id or part.get("id")
        call.name = call.name or (name if isinstance(name, str) else "")
        call.extra = part.get("extra_content") or call.extra
        call.add_arguments(function.get("arguments"))

    def _find(self, part: dict[str, Any], name: object) -> ChatCall | None:
        """The call that a piece continues: of its index, unless another id, or a name after a name,
        begins another one."""
        same = (call for call in reversed(self.calls) if call.index == part.get("index"))
        call, call_id = next(same, None), part.get("id")
        if call is None or not (call_id and call.call_id):
            return None if call and name and call.name else call
        return call if call_id == call.call_id else None
