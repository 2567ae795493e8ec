"""Finds the tool calls in a model's answer while it is passed on."""

import json
from typing import Any

from gitlab_nightshift.records.tool_calls import MOST_CALLS, ToolCall, build_tool_call
from gitlab_nightshift.text.chat_calls import ChatCalls, find_written_calls
from gitlab_nightshift.text.json_parts import as_object, as_objects, as_text, parse_json

LARGEST_INPUT = 256_000
"""Characters of a call's input; of longer input only the tool's name is kept."""
MOST_OPEN = 64
_SCRIPTED, MOST_SCRIPTED = "exec_command(", 20
"""How a script for codex's tool ``exec`` runs a command, and the most that are read per script."""


class CallLog:
    """A bead's calls in order: the first are kept, the others only counted."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.more = 0

    def add(self, call: ToolCall) -> None:
        """Remember a call."""
        if len(self.calls) < MOST_CALLS:
            self.calls.append(call)
        else:
            self.more += 1


class CallReader:
    """Reads the events of one answer, of any interface and with any JSON."""

    def __init__(self, log: CallLog) -> None:
        self._log = log
        self._open: dict[int, tuple[dict[str, Any], str]] = {}
        self._chat = ChatCalls(MOST_CALLS)
        self._text = ""

    def read(self, event: dict[str, Any]) -> None:
        """Read one event of a stream, or a whole answer."""
        kind, index = event.get("type"), event.get("index")
        # Messages: a call's input comes in pieces, between the start and the stop of its block.
        if kind == "content_block_start" and isinstance(index, int):
            self._begin(index, as_object(event.get("content_block")))
        elif kind == "content_block_delta" and isinstance(index, int):
            self._append(index, as_text(as_object(event.get("delta")).get("partial_json")))
        elif kind == "content_block_stop" and isinstance(index, int):
            self._finish(index)
        # Responses: a call comes whole once it is done.
        elif kind == "response.output_item.done":
            self._keep_item(as_object(event.get("item")))
        elif isinstance(event.get("choices"), list):
            self._read_chat(event["choices"])
        # Messages and Responses without a stream; a stream has sent these parts one by one.
        elif kind in (None, "message", "response"):
            for part in (*as_objects(event.get("content")), *as_objects(event.get("output"))):
                self._keep_item(part)

    def end(self) -> None:
        """Keep the calls that were begun but not ended, because the stream was cut, and those of
        Chat Completions, which have no end mark. If there are none, its text may contain them."""
        for index in list(self._open):
            self._finish(index)
        for call in self._chat.calls:
            self._log.add(build_tool_call(call.name, call.parse_arguments(), call.call_id))
        for name, given in () if self._chat.calls else find_written_calls(self._text):
            self._log.add(build_tool_call(name, given))
        self._log.more += self._chat.more
        self._chat, self._text = ChatCalls(MOST_CALLS), ""

    def _read_chat(self, choices: list[Any]) -> None:
        first = as_object(choices[0]) if choices else {}
        part = as_object(first.get("delta") or first.get("message"))
        if len(self._text) < LARGEST_INPUT:
            self._text += as_text(part.get("content"))
        self._chat.add(part.get("tool_calls"))

    def _begin(self, index: int, block: dict[str, Any]) -> None:
        if block.get("type") == "tool_use":
            self._finish(index)
            if len(self._open) < MOST_OPEN:
                self._open[index] = (block, "")

    def _append(self, index: int, more: str) -> None:
        block, text = self._open.get(index, ({}, ""))
        if block and len(text) <= LARGEST_INPUT:
            self._open[index] = (block, text + more)

    def _finish(self, index: int) -> None:
        block, text = self._open.pop(index, ({}, ""))
        if block:
            given = _parse_input(text) if text else block.get("input")
            self._log.add(build_tool_call(block.get("name"), given, block.get("id")))

    def _keep_item(self, item: dict[str, Any]) -> None:
        kind, name, call_id = item.get("type"), item.get("name"), item.get("call_id")
        if kind == "tool_use":
            self._log.add(build_tool_call(name, item.get("input"), item.get("id")))
        if kind == "custom_tool_call":
            for given in _list_scripted(as_text(item.get("input"))[:LARGEST_INPUT]):
                self._log.add(build_tool_call(name, given, call_id))
        if kind in ("function_call", "local_shell_call"):
            given = _parse_input(item.get("arguments")) or item.get("action")
            self._log.add(build_tool_call(name or "local_shell", given, call_id))


def _list_scripted(script: str) -> list[object]:
    """The commands that a script runs, or the script itself if none can be parsed."""
    commands: list[object] = []
    for part in script.split(_SCRIPTED)[1 : MOST_SCRIPTED + 1]:
        try:
            commands.append(json.JSONDecoder().raw_decode(part)[0])
        except (ValueError, RecursionError):
            commands.append({"command": script})
    return commands or [{"command": script}]


def _parse_input(text: object) -> object:
    return parse_json(text) if isinstance(text, str) and len(text) <= LARGEST_INPUT else None
