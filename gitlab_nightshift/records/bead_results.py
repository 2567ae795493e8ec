"""Results of beads and commands, and their costs."""

from dataclasses import dataclass
from enum import StrEnum

from gitlab_nightshift.records.handoffs import Handoff
from gitlab_nightshift.records.tool_calls import ToolUse
from gitlab_nightshift.records.usage import Usage


class BeadStatus(StrEnum):
    """How a bead ended; all but ``ok`` are failures."""

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
    """The result of one bead. ``handoff`` is the validated hand-off, ``tools`` are its tool calls,
    None if unknown.

    Only the agent reports: ``said`` is its last message, ``missing`` are commands that its shell
    did not find.
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
        """True if the process succeeded and its hand-off is valid."""
        return self.status is BeadStatus.OK


@dataclass(frozen=True)
class CommandResult:
    """A command that this program ran itself. ``exit_status`` is None if it was stopped.

    ``flaky``: it failed first, and passed again on the same files. ``output`` is the end of its
    output.
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
