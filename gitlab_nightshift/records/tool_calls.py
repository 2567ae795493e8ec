"""The tools that an agent called, and who observed the calls."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from gitlab_nightshift.records.codec import Length

MOST_CALLS = 200
"""Calls of a bead that are kept; the others are only counted."""
LONGEST_SUBJECT, LONGEST_ID = 300, 100
LONGEST_COMMAND = 10_000
"""Characters; a longer one is shown unparsed, as shlex would take too long."""
_SUBJECTS = ("command", "cmd", "file_path", "path", "pattern")


@dataclass(frozen=True)
class ToolCall:
    """One call: the tool's name, its subject (a command, a path), and the result that the agent's
    CLI reported, "" for none. ``call_id`` is the model's."""

    tool: str
    subject: str = ""
    reported: str = ""
    call_id: str = ""


@dataclass(frozen=True)
class ToolUse:
    """The calls of a bead. ``source`` observed them: this program's ``gateway``, in the model's
    answers, or only the agent's own ``cli``. ``more`` is the number of calls that were not kept."""

    source: Literal["gateway", "cli"]
    calls: Annotated[tuple[ToolCall, ...], Length(MOST_CALLS)] = ()
    more: int = 0


def build_tool_call(tool: object, arguments: object, call_id: object = "") -> ToolCall:
    """A call from a model's or a CLI's data, which is hostile and may have any shape."""
    given = arguments if isinstance(arguments, Mapping) else {}
    subject = next((given[name] for name in _SUBJECTS if given.get(name)), "")
    return ToolCall(
        clean_line(tool, LONGEST_ID),
        clean_line(unwrap_command(subject), LONGEST_SUBJECT),
        call_id=clean_line(call_id, LONGEST_ID),
    )


SHELLS = ("sh", "bash", "dash", "zsh")


def unwrap_command(command: Any) -> Any:
    """A command without the ``sh -c`` that an agent's CLI puts around it."""
    if isinstance(command, str) and len(command) > LONGEST_COMMAND:
        return command
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError:
        return command
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return command
    if len(words) == 3 and words[0].rpartition("/")[2] in SHELLS and words[1] in ("-c", "-lc"):
        return words[2]
    return command if isinstance(command, str) else shlex.join(words)


def clean_line(value: object, most: int) -> str:
    """A string as one line of at most ``most`` characters, "" for other types."""
    # Cut first, to bound the work below; to twice ``most``, as joining white space shortens it.
    text = value[: most * 2] if isinstance(value, str) else ""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:most]
