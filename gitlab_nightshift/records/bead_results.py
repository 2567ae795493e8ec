"""The hand-offs of beads, and the results of beads and commands.

The sizes of hand-offs are limited: they are hostile data.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from gitlab_nightshift.records.codec import Between, Length
from gitlab_nightshift.records.usage import ToolUse, Usage

# --- hand-offs ------------------------------------------------------------------------------------


# Far more than agents write: prompts ask for paragraphs, and for at most 5 candidates.
Line = Annotated[str, Length(500)]
Text = Annotated[str, Length(20_000)]
FilePath = Annotated[str, Length(4096, least=1)]
Paths = Annotated[tuple[FilePath, ...], Length(200)]


@dataclass(frozen=True)
class AnalysisCandidate:
    """A possible improvement. ``files`` are paths relative to the checkout; ``rank`` 1 is the best.

    ``value`` is from 3 (wrong results or a security hole) to 1 (nice to have), 0 for unknown;
    ``evidence`` are citations such as ``src/a.py:12: `the line's text` ``.
    """

    files: Paths
    description: Annotated[str, Length(20_000, least=1)]
    rank: int = 1
    rationale: Text = ""
    value: int = 0
    evidence: Annotated[tuple[Text, ...], Length(20)] = ()


@dataclass(frozen=True)
class AnalysisResult:
    """The result of Analyze. ``selected`` is required for an improvement."""

    result: Literal["IMPROVEMENT_FOUND", "NO_IMPROVEMENT"]
    category_used: Line = ""
    reason: Text = ""
    files_scanned: int = 0
    candidates: Annotated[tuple[AnalysisCandidate, ...], Length(5)] = ()
    selected: AnalysisCandidate | None = None


@dataclass(frozen=True)
class Verdict:
    """Verify's verdict on a change, with what it ran and checked, and its remaining doubts."""

    passed: bool
    error_details: Text = ""
    commands_run: Annotated[tuple[Line, ...], Length(200)] = ()
    checked: Annotated[tuple[Line, ...], Length(50)] = ()
    doubts: Annotated[tuple[Line, ...], Length(50)] = ()


@dataclass(frozen=True)
class ThreadAnswer:
    """The answer to one of the threads that gave the task. ``thread`` is its number, from 1;
    ``files`` were changed because of it."""

    thread: Annotated[int, Between(1, 100)]
    text: Annotated[str, Length(2000, least=1)]
    files: Paths = ()


Answers = Annotated[tuple[ThreadAnswer, ...], Length(100)]


@dataclass(frozen=True)
class Draft:
    """The MR bead's texts for a merge request: untrusted, to be checked and escaped."""

    title: Annotated[str, Length(500, least=1)]
    summary: Annotated[str, Length(20_000, least=1)]
    branch_slug: Line = ""
    commit_message: Text = ""
    reasoning: Text = ""
    changes: Text = ""
    rejected_alternatives: Annotated[tuple[Text, ...], Length(20)] = ()
    answers: Answers = ()


Handoff = AnalysisResult | Verdict | Draft


# --- results --------------------------------------------------------------------------------------


class BeadStatus(StrEnum):
    """How a bead ended; all but ``ok`` are failures.

    ``denied``: without a hand-off, after its CLI refused a tool. ``unavailable``: the model or its
    endpoint could not be used. ``bad_output``: the output is not in the CLI's format. ``idle``:
    nothing was printed for too long.
    """

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
    """The result of one bead. ``handoff`` is the validated hand-off; ``tools`` are the tool calls,
    None if unknown; ``logs`` are the names of the raw logs.

    Reported only by the agent: ``said``, its last message; ``denied``, the calls that its CLI
    refused; ``missing``, the commands that its shell did not find.
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
    """The result of a command that this program ran. ``exit_status`` is None if it was stopped.

    ``flaky``: it failed, then passed on the same files. ``output`` is the end of its output.
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
