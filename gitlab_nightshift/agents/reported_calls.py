"""Tool calls and their results, as an agent's CLI reports them: the word of that CLI alone."""

from dataclasses import replace
from typing import Any

from gitlab_nightshift.agents.missing_commands import MissingCommands
from gitlab_nightshift.records.tool_calls import MOST_CALLS, ToolCall, build_tool_call, clean_line
from gitlab_nightshift.text.lazy_patterns import compile_lazily

LONGEST_OUTPUT, MOST_REFUSED, LONGEST_RESULT = 4_000, 20, 120
_NOT_ALLOWED = compile_lazily(r"nightshift: not allowed: ([^;\n]{1,200})")
"""What the program allowlist says of a command that it does not start."""


class ReportedCalls:
    """The first calls of a bead. A result may come before its call, twice, or never."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolCall] = {}
        self._results: dict[str, str] = {}
        self._refused: dict[str, None] = {}
        self.missing = MissingCommands()

    def add(self, call_id: object, tool: object, given: object) -> None:
        """A call; of two with the same id the first counts."""
        call = build_tool_call(tool, given, call_id)
        if len(self._calls) < MOST_CALLS:
            self._calls.setdefault(call.call_id, call)

    def finish(self, call_id: object, result: str, output: object, *, failed: bool) -> None:
        """Its result, in a word, and what it printed."""
        name = build_tool_call("", None, call_id).call_id
        if len(self._results) < MOST_CALLS:
            self._results.setdefault(name, clean_line(result, LONGEST_RESULT))
        text = _read_output(output)
        for match in _NOT_ALLOWED.finditer(text[:LONGEST_OUTPUT]):
            if len(self._refused) < MOST_REFUSED:
                self._refused.setdefault(clean_line(match[1], LONGEST_RESULT))
        if failed:
            self.missing.read(text)

    def list_calls(self) -> tuple[ToolCall, ...]:
        """The calls in their order, with the results that came."""
        found = self._calls.items()
        return tuple(replace(call, reported=self._results.get(name, "")) for name, call in found)

    def list_refused(self) -> tuple[str, ...]:
        """Commands that the program allowlist refused."""
        return tuple(self._refused)


def _read_output(output: Any) -> str:
    """A result's text, which may come in parts."""
    if isinstance(output, list):
        parts = [part.get("text") for part in output[:20] if isinstance(part, dict)]
        output = "\n".join(part for part in parts if isinstance(part, str))
    return output if isinstance(output, str) else ""
