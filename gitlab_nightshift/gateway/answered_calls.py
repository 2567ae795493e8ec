"""Finds the tool calls in a model's answer while it is passed on."""

import json
from collections.abc import Iterator
from typing import Any

from gitlab_nightshift.records.tool_calls import MOST_CALLS, ToolCall, build_tool_call
from gitlab_nightshift.text.chat_calls import ChatCalls
from gitlab_nightshift.text.written_calls import find_written_calls

LARGEST_INPUT = 256_000
"""Characters of a call's input; of longer input only the tool's name is kept."""
MOST_OPEN = 64
_ITEMS = frozenset({"function_call", "local_shell_call"})
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
        self._open: dict[int, tuple[Any, str]] = {}
        self._chat = ChatCalls(MOST_CALLS)
        self._text = ""

    def read(self, event: dict[str, Any]) -> None:
        """Read one event of a stream, or a whole answer."""
        kind, index = event.get("type"), event.get("index")
        if kind == "content_block_start" and isinstance(index, int):
            self._begin(index, event.get("content_block"))
        elif kind == "content_block_delta" and isinstance(index, int):
            self._append(index, event.get("delta"))
        elif kind == "content_block_stop" and isinstance(index, int):
            self._finish(index)
        elif kind == "response.output_item.done":
            self._keep_item(event.get("item"))
        elif isinstance(event.get("choices"), list):
            self._read_chat(event["choices"])
        else:
            for part in _list_parts(event):
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
        first = choices[0] if choices and isinstance(choices[0], dict) else {}
        part = first.get("delta") or first.get("message")
        if not isinstance(part, dict):
            return
        text, calls = part.get("content"), part.get("tool_calls")
        if isinstance(text, str) and len(self._text) < LARGEST_INPUT:
            self._text += text
        self._chat.add(calls)

    def _begin(self, index: int, block: object) -> None:
        if isinstance(block, dict) and block.get("type") == "tool_use":
            self._finish(index)
            if len(self._open) < MOST_OPEN:
                self._open[index] = (block, "")

    def _append(self, index: int, delta: object) -> None:
        if index not in self._open or not isinstance(delta, dict):
            return
        more, (block, text) = delta.get("partial_json"), self._open[index]
        if isinstance(more, str) and len(text) <= LARGEST_INPUT:
            self._open[index] = (block, text + more)

    def _finish(self, index: int) -> None:
        if index not in self._open:
            return
        block, text = self._open.pop(index)
        given = _parse(text) if text else block.get("input")
        self._log.add(build_tool_call(block.get("name"), given, block.get("id")))

    def _keep_item(self, item: object) -> None:
        if not isinstance(item, dict):
            return
        if item.get("type") == "tool_use":
            self._log.add(build_tool_call(item.get("name"), item.get("input"), item.get("id")))
        if item.get("type") == "custom_tool_call":
            for given in _list_scripted(item.get("input")):
                self._log.add(build_tool_call(item.get("name"), given, item.get("call_id")))
        if item.get("type") in _ITEMS:
            given = _parse(item.get("arguments")) or item.get("action")
            name = item.get("name") or "local_shell"
            self._log.add(build_tool_call(name, given, item.get("call_id")))


def _list_parts(event: dict[str, Any]) -> Iterator[object]:
    """The parts of an answer that is not a stream; a stream sends them one by one."""
    for name in ("content", "output"):
        parts = event.get(name)
        if isinstance(parts, list) and event.get("type") in (None, "message", "response"):
            yield from parts


def _list_scripted(script: object) -> list[object]:
    """The commands that a script runs, or the script itself if none can be parsed."""
    text = script[:LARGEST_INPUT] if isinstance(script, str) else ""
    commands: list[object] = []
    for part in text.split(_SCRIPTED)[1 : MOST_SCRIPTED + 1]:
        try:
            commands.append(json.JSONDecoder().raw_decode(part)[0])
        except (ValueError, RecursionError):
            commands.append({"command": text})
    return commands or [{"command": text}]


def _parse(text: object) -> object:
    try:
        return json.loads(text) if isinstance(text, str) and len(text) <= LARGEST_INPUT else None
    except (ValueError, RecursionError):
        return None
