"""Beads and commands that have ended, and what they cost."""

from dataclasses import dataclass
from enum import StrEnum

from gitlab_nightshift.records.handoffs import Handoff
from gitlab_nightshift.records.tool_calls import ToolUse
from gitlab_nightshift.records.usage import Usage


class BeadStatus(StrEnum):
    """How a bead's process ended; everything but ``ok`` is a failed bead."""

    OK = "ok"
    BUDGET = "budget"
    DENIED = "denied"
    UNAVAILABLE = "unavailable"
    BAD_OUTPUT = "bad_output"
    NO_HANDOFF = "no_handoff"
    CRASHED = "crashed"
    IDLE = "idle"
    TIMEOUT = "timeout"
    OUTPUT_LIMIT = "output_limit"
    DISK_FULL = "disk_full"


@dataclass(frozen=True)
class BeadResult:
    """One bead's process, ended. ``handoff`` is the validated hand-off where there is one,
    ``tools`` the tools that it was seen to call, None where nobody saw.

    Of an agent's own word are ``said``, its last one, and ``missing``, commands that its shell has
    not found.
    """

    bead: str
    category: str
    attempt: int
    model: str
    status: BeadStatus
    usage: Usage
    duration_s: float
    error: str = ""
    handoff: Handoff | None = None
    denied: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    said: str = ""
    missing: tuple[str, ...] = ()
    tools: ToolUse | None = None

    @property
    def ok(self) -> bool:
        """True where the process ended well and its hand-off is whole."""
        return self.status is BeadStatus.OK


@dataclass(frozen=True)
class CommandResult:
    """A command that this program ran itself. ``exit_status`` is None where it did not end.

    ``flaky``: it failed first, and passed when it was run again on the same files. ``output`` is
    the end of what it printed.
    """

    command: str
    exit_status: int | None
    duration_s: float
    error: str = ""
    flaky: bool = False
    output: str = ""

    @property
    def ok(self) -> bool:
        """True for exit status 0."""
        return self.exit_status == 0
