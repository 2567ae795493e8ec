"""The tools of a model: their descriptions, and what each does. A result is a text for the model.

A call that cannot be used (an unknown tool, wrong arguments, a path outside the checkout, a command
that is not allowed) is a mistake: the model gets an explanation, and mistakes are counted.
"""

import contextlib
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents.model.answers import Block
from gitlab_nightshift.agents.model.checkout_files import OutsideError, Workspace
from gitlab_nightshift.agents.model.edits import (
    NotApplicableError,
    UnreadableFileError,
    build_block,
    plan_edits,
)
from gitlab_nightshift.sandbox.process import ProgramStartError, run_bounded

LONGEST_OUTPUT = 16_000
"""Characters of a result."""
MOST_LINES, MOST_NAMES, MOST_MATCHES = 600, 400, 100
"""Lines of a file, names in a folder and matches of a search in one result."""
LONGEST_MATCH = 240
"""Characters."""
LARGEST_SEARCH = 2_000_000
"""Bytes of matches that end a search."""
SEARCH_S = 60.0
SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh", "fish"})
REFUSED = "nightshift: not allowed"
"""``stages/work/program_allowlist.py`` prints this for a refused command, and exits with 126."""
NOT_ALLOWED_STATUS = 126
FINISH = "finish"
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}


class MistakeError(Exception):
    """A call that cannot be used; the message is for the model, ``kind`` for a person."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class ToolResult:
    """A call's result. ``text`` is for the model, ``outcome`` the result in a word for the log."""

    text: str
    outcome: str = "ok"


@dataclass(frozen=True)
class Tool:
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    required: tuple[str, ...] = ()

    def to_chat(self) -> dict[str, Any]:
        """The tool in the form of Chat Completions."""
        schema = {"type": "object", "properties": self.parameters, "required": list(self.required)}
        function = {"name": self.name, "description": self.description, "parameters": schema}
        return {"type": "function", "function": function}


RUN = Tool(
    "run",
    "Run a program in the repository's root and wait for it. No shell: no pipes, redirections, && "
    "or variables. Only git, plain reading tools (ls, cat, grep, ...) and the allowed commands.",
    {"command": {"type": "array", "items": _TEXT, "description": "the program and its words"}},
    ("command",),
)
READ = Tool(
    "read",
    "Read a text file, or list a folder. Lines count from 1.",
    {"path": _TEXT, "first_line": _NUMBER, "lines": {**_NUMBER, "description": "default 600"}},
    ("path",),
)
SEARCH = Tool(
    "search",
    "Search all files of the repository, by an extended regular expression.",
    {"pattern": _TEXT, "folder": {**_TEXT, "description": "where to look; default: everywhere"}},
    ("pattern",),
)
EDIT = Tool(
    "edit",
    "Replace a text that occurs exactly once in a file. An empty old text creates a new file.",
    {"path": _TEXT, "old": _TEXT, "new": _TEXT},
    ("path", "old", "new"),
)
FINISH_WITH_SUMMARY = Tool(
    FINISH,
    "Your last call: say in one sentence what you changed, or why you changed nothing.",
    {"summary": _TEXT},
    ("summary",),
)


@dataclass(frozen=True)
class CommandRules:
    """The rules for ``run``: it may start ``allowed`` commands by name or path, or ``any_command``.
    Commands get ``env`` and ``timeout_s`` seconds each."""

    allowed: tuple[str, ...]
    any_command: bool
    env: Mapping[str, str]
    timeout_s: float


@dataclass(frozen=True)
class Toolbox:
    """The tools over a workspace; without ``rules`` there is no ``run``."""

    workspace: Workspace
    rules: CommandRules | None
    edits: bool = True

    def list_tools(self) -> tuple[Tool, ...]:
        """All tools but ``finish``, which is the loop's."""
        return (*([RUN] if self.rules else []), READ, SEARCH, *([EDIT] if self.edits else []))

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> ToolResult:
        """Run a call. Raises MistakeError."""
        tool = next((tool for tool in self.list_tools() if tool.name == name), None)
        if tool is None:
            names = ", ".join([tool.name for tool in self.list_tools()] + [FINISH])
            raise MistakeError(
                "an unknown tool", f"there is no tool {name[:60]!r}; there are {names}"
            )
        _check_arguments(tool, arguments)
        handlers: Mapping[str, Callable[[Mapping[str, Any]], ToolResult]] = {
            "run": self._run,
            "read": self._read,
            "search": self._search,
            "edit": self._edit,
        }
        try:
            return handlers[name](arguments or {})
        except OutsideError as error:
            raise MistakeError("a path outside the checkout", str(error)) from None
        except UnreadableFileError as error:
            return ToolResult(f"it cannot be read: {error}", "failed")

    def _run(self, arguments: Mapping[str, Any]) -> ToolResult:
        assert self.rules
        command = self._check_command(arguments["command"])
        try:
            done = run_bounded(
                command,
                cwd=self.workspace.top,
                env=self.rules.env,
                timeout_s=self.rules.timeout_s,
                longest=LONGEST_OUTPUT,
            )
        except ProgramStartError as error:
            text = f"{command[0]} cannot be started: {error.strerror}. {self._describe_allowed()}"
            raise MistakeError("a command that is not allowed", text) from None
        output = done.output.decode("utf-8", "replace")
        # 126 alone is also the shell's status for a file that cannot be executed (POSIX, XCU
        # 2.8.2).
        if done.exit_status == NOT_ALLOWED_STATUS and REFUSED in output:
            raise MistakeError("a command that is not allowed", output.strip())
        return ToolResult(f"{done.how}\n{output}", done.how)

    def _check_command(self, command: Any) -> list[str]:
        assert self.rules
        # A model may give one string although the parameter is a list.
        words = shlex.split(command) if isinstance(command, str) else command
        if not words or not all(isinstance(word, str) and "\0" not in word for word in words):
            text = "command: expected a list of words, the program first"
            raise MistakeError("arguments of another shape", text)
        programs = [shlex.split(allowed)[0] for allowed in self.rules.allowed]
        if self.rules.any_command or words[0] in programs:
            return list(words)
        why = ""  # other names are left to the program allowlist, which knows what PATH leads to
        if Path(words[0]).name in SHELLS:
            why = "there is no shell: give the program and its words"
        elif "/" in words[0]:
            why = f"{words[0][:100]} is not an allowed command"
        if why:
            text = f"{REFUSED}: {shlex.join(words)[:200]}; {why}. {self._describe_allowed()}"
            raise MistakeError("a command that is not allowed", text)
        return list(words)

    def _describe_allowed(self) -> str:
        assert self.rules
        return f"Allowed: plain reading tools; {', '.join(self.rules.allowed) or 'git'}."

    def _read(self, arguments: Mapping[str, Any]) -> ToolResult:
        path = arguments["path"]
        data = self.workspace.read_extra_file(path)
        if data is None:
            path = self.workspace.locate(path)
            with contextlib.suppress(UnreadableFileError):  # it is not a folder
                names = self.workspace.list_folder(path)
                return ToolResult("\n".join(_cut_list(names, MOST_NAMES)))
            data = self.workspace.read(path)
        if data is None:
            return ToolResult(f"{path}: there is no such file", "failed")
        if b"\0" in data:
            return ToolResult(f"{path}: a binary file of {len(data)} bytes", "failed")
        return ToolResult(_show_lines(path, data, arguments))

    def _search(self, arguments: Mapping[str, Any]) -> ToolResult:
        folder = self.workspace.locate(str(arguments.get("folder") or ""))
        git = self.workspace.git
        # -z: a path may contain the colon that would end it; -I: no binary files.
        command = [git.program, "grep", "-z", "-n", "-I", "-E", "--untracked", "--no-color"]
        done = run_bounded(
            [*command, "-e", arguments["pattern"], "--", folder or "."],
            cwd=self.workspace.top,
            env=git.env,
            timeout_s=SEARCH_S,
            longest=LARGEST_SEARCH,
        )
        text = done.output.decode("utf-8", "replace")
        # 1: nothing found. A search that was ended for its size has another status, and matches.
        if done.exit_status not in (0, 1) and "\0" not in text:
            return ToolResult(cut_text(text, 500) or done.how, "failed")
        matches = [
            f"{fields[0]}:{fields[1]}: {fields[2].strip()[:LONGEST_MATCH]}"
            for fields in (line.split("\0", 2) for line in text.splitlines())
            if len(fields) == 3 and not self.workspace.is_hidden(fields[0])
        ]
        return ToolResult("\n".join(_cut_list(matches, MOST_MATCHES)) or "nothing found")

    def _edit(self, arguments: Mapping[str, Any]) -> ToolResult:
        path = self.workspace.locate(arguments["path"])
        old, new = arguments["old"], arguments["new"]
        try:
            if old:
                text = (self.workspace.read(path) or b"").decode("utf-8", "surrogateescape")
                block = build_block(path, text.removeprefix("\ufeff"), old, new)
            else:
                block = Block(1, path, (), tuple(new.removesuffix("\n").split("\n")))
            return self.apply_blocks((block,))
        except NotApplicableError as error:
            return ToolResult(f"not applied: {str(error).removeprefix('block 1 ')}", "failed")

    def apply_blocks(self, blocks: tuple[Block, ...]) -> ToolResult:
        """Apply blocks to the workspace, all or none. Raises NotApplicableError, MistakeError."""
        try:
            for block in blocks:
                self.workspace.locate(block.path)
        except OutsideError as error:
            raise MistakeError("a path outside the checkout", str(error)) from None
        edits = plan_edits(blocks, self.workspace.read)
        self.workspace.apply(edits)
        lines = (f"{edit.action} {edit.path} (+{edit.added} -{edit.deleted})" for edit in edits)
        return ToolResult("\n".join(lines))


def _check_arguments(tool: Tool, arguments: Mapping[str, Any] | None) -> None:
    if arguments is None:
        raise MistakeError("broken JSON", f"{tool.name}: its arguments are not one JSON object")
    missing = [name for name in tool.required if name not in arguments]
    texts = (name for name in arguments if tool.parameters.get(name) == _TEXT)
    wrong = [name for name in texts if not isinstance(arguments[name], str)]
    if missing or wrong:
        what = f"{missing[0]} is missing" if missing else f"{wrong[0]} has to be a text"
        raise MistakeError("arguments of another shape", f"{tool.name}: {what}")


def _show_lines(path: str, data: bytes, arguments: Mapping[str, Any]) -> str:
    """The lines of a file that a call asks for, below a line that says which they are."""
    lines = data.decode("utf-8", "replace").splitlines()
    first = max(_read_number(arguments.get("first_line"), 1), 1)
    count = max(min(_read_number(arguments.get("lines"), MOST_LINES), MOST_LINES), 1)
    shown = lines[first - 1 : first - 1 + count]
    text = cut_text("\n".join(shown), LONGEST_OUTPUT)
    return f"{path}, lines {first} to {first - 1 + len(shown)} of {len(lines)}:\n{text}"


def _read_number(value: Any, default: int) -> int:
    return value if type(value) is int else default


def _cut_list(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[:most], f"... {len(lines) - most} more"]


def cut_text(text: str, most: int) -> str:
    """The start and the end of a text, at most about ``most`` characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n... ({len(text) - 2 * half} characters left out) ...\n{text[-half:]}"
