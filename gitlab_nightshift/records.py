"""What passes between the halls: frozen records, versioned, read and written as JSON.

Sizes are bounded where an agent fills a record in: a hand-off is hostile data. Money is in USD,
durations are in seconds, times are ISO 8601 with a zone.
"""

import dataclasses
import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from annotated_types import MaxLen, MinLen

from gitlab_nightshift.errors import Code, NightshiftError

VERSION = 1

Line = Annotated[str, MaxLen(500)]
Text = Annotated[str, MaxLen(20_000)]
FilePath = Annotated[str, MinLen(1), MaxLen(4096)]
Paths = Annotated[tuple[FilePath, ...], MaxLen(200)]


class Outcome(StrEnum):
    """How a run ended. The first four are no alarm: exit status 0."""

    MR_CREATED = "MR_CREATED"
    NO_IMPROVEMENT = "NO_IMPROVEMENT"
    MR_READY = "MR_READY"
    SKIPPED = "SKIPPED"
    APPROVAL_REQUIRED = "APPROVAL_REQUIRED"
    FAILED = "FAILED"


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


@dataclass(frozen=True)
class Usage:
    """What a bead or a run cost. ``None`` is unknown, and a sum with an unknown is unknown."""

    cost_usd: float | None = 0.0
    tokens: int | None = 0

    def __add__(self, other: Self) -> "Usage":
        return Usage(_sum(self.cost_usd, other.cost_usd), _sum(self.tokens, other.tokens))


Number = TypeVar("Number", int, float)


def _sum(left: Number | None, right: Number | None) -> Number | None:
    return None if left is None or right is None else left + right


# --- hand-offs: what a bead reports (contract, "Beads") ---------------------------------------


@dataclass(frozen=True)
class AnalysisCandidate:
    """One possible improvement; ``files`` are paths relative to the checkout."""

    files: Paths
    description: Annotated[str, MinLen(1), MaxLen(20_000)]
    rank: int = 1
    rationale: Text = ""


@dataclass(frozen=True)
class AnalysisResult:
    """What Analyze found. ``selected`` is required where something was found."""

    result: Literal["IMPROVEMENT_FOUND", "NO_IMPROVEMENT"]
    category_used: Line = ""
    reason: Text = ""
    files_scanned: int = 0
    candidates: Annotated[tuple[AnalysisCandidate, ...], MaxLen(5)] = ()
    selected: AnalysisCandidate | None = None


@dataclass(frozen=True)
class Verdict:
    """What Verify says of a change."""

    passed: bool
    error_details: Text = ""
    commands_run: Annotated[tuple[Line, ...], MaxLen(200)] = ()


@dataclass(frozen=True)
class Draft:
    """The texts of a merge request as the MR bead wrote them: data, to be checked and escaped."""

    title: Annotated[str, MinLen(1), MaxLen(500)]
    summary: Annotated[str, MinLen(1), MaxLen(20_000)]
    branch_slug: Line = ""
    commit_message: Text = ""
    reasoning: Text = ""
    changes: Text = ""
    rejected_alternatives: Annotated[tuple[Text, ...], MaxLen(20)] = ()


Handoff = AnalysisResult | Verdict | Draft


# --- beads and commands -----------------------------------------------------------------------


@dataclass(frozen=True)
class BeadResult:
    """One bead's process, ended. ``handoff`` is the validated hand-off where there is one."""

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

    @property
    def ok(self) -> bool:
        """True where the process ended well and its hand-off is whole."""
        return self.status is BeadStatus.OK


@dataclass(frozen=True)
class CommandResult:
    """A command that this program ran itself. ``exit_status`` is None where it did not end."""

    command: str
    exit_status: int | None
    duration_s: float
    error: str = ""

    @property
    def ok(self) -> bool:
        """True for exit status 0."""
        return self.exit_status == 0


# --- plan ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpenMergeRequest:
    """An open merge request of an earlier night."""

    iid: int
    title: str
    web_url: str
    category: str
    source_branch: str


@dataclass(frozen=True)
class LeftOut:
    """A category that will not be tried, and why."""

    category: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """Product of the plan stage.

    ``scheduled`` is today's category or the override, "" where there is none; ``categories`` are
    those to try, in order. ``recent_files`` are refused in a change only where
    ``recent_files_enforced``; else they are only told to Analyze. ``skip`` is why the night may be
    skipped, "" where it may not.
    ``unknown`` says what could not be known (without a token, say).
    """

    run_id: str
    date: str
    base_sha: str
    target_branch: str
    scheduled: str
    categories: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    skip: str = ""
    open_merge_requests: tuple[OpenMergeRequest, ...] = ()
    rejected_ideas: tuple[str, ...] = ()
    recent_files: tuple[str, ...] = ()
    recent_files_enforced: bool = True
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    max_diff_lines: int = 100
    max_budget_usd: float = 10.0
    max_tokens: int | None = None
    version: int = VERSION


# --- work → publish -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A change as this program read it from the tree: ids are full git object ids."""

    tree_id: str
    files: tuple[str, ...]
    added: int
    deleted: int

    @property
    def lines(self) -> int:
        """Added plus deleted lines, the measure of ``max_diff_lines``."""
        return self.added + self.deleted


@dataclass(frozen=True)
class Proposal:
    """A verified change with its texts: what publish turns into a merge request."""

    change: Change
    category: str
    is_fallback: bool
    analysis: AnalysisResult
    draft: Draft
    verdict: Verdict
    commands: tuple[CommandResult, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bundle:
    """Product of the work stage, beside ``change.patch``; written for a quiet night too."""

    run_id: str
    created_at: str
    base_sha: str
    target_branch: str
    outcome: Outcome
    reason: str = ""
    error_code: str = ""
    summary: str = ""
    category_used: str = "none"
    is_fallback: bool = False
    files_scanned: int = 0
    proposal: Proposal | None = None
    usage: Usage = Usage()
    duration_s: float = 0.0
    isolation: str = "none"
    beads: tuple[BeadResult, ...] = ()
    version: int = VERSION


@dataclass(frozen=True)
class Published:
    """Product of the publish stage: what stands in GitLab now."""

    run_id: str
    outcome: Outcome
    reason: str = ""
    error_code: str = ""
    mr_url: str = ""
    mr_iid: int | None = None
    branch: str = ""
    commit_sha: str = ""
    title: str = ""
    warnings: tuple[str, ...] = ()
    version: int = VERSION


@dataclass(frozen=True)
class RunResult:
    """The whole run, as ``result.json`` shows it."""

    run_id: str
    outcome: Outcome
    error_code: str = ""
    reason: str = ""
    summary: str = ""
    task: str = ""
    mr_url: str = ""
    branch: str = ""
    base_sha: str = ""
    commit_sha: str = ""
    category_used: str = "none"
    is_fallback: bool = False
    files_scanned: int = 0
    total_cost_usd: float | None = 0.0
    total_tokens: int | None = 0
    total_duration_s: float = 0.0
    isolation: str = "none"
    beads: tuple[BeadResult, ...] = ()
    version: int = VERSION


Record = TypeVar("Record", Plan, Bundle, Published, RunResult)


def to_json(record: Any) -> str:
    """A record as JSON that a person can read; file names keep odd bytes as escapes."""
    return json.dumps(dataclasses.asdict(record), indent=2) + "\n"


def write_record(path: Path, record: Any) -> None:
    """Write a record to ``path`` whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(to_json(record), encoding="utf-8")
    part.replace(path)


def read_record(kind: type[Record], path: Path) -> Record:
    """Read a record of an earlier stage; :class:`NightshiftError` says what is wrong with it."""
    from pydantic import TypeAdapter, ValidationError

    what = kind.__name__.lower()
    try:
        data = json.loads(path.read_bytes())
        if not isinstance(data, dict) or data.get("version") != VERSION:
            raise ValueError(f"it is not a version {VERSION} {what}")
        return TypeAdapter(kind).validate_python(data)
    except FileNotFoundError:
        raise NightshiftError(Code.CONFIG, f"{path}: no such {what}") from None
    except OSError as error:
        raise NightshiftError(Code.CONFIG, f"{path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise _unreadable(path, what, f"{place}: {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, what, str(error)) from None


def _unreadable(path: Path, what: str, why: str) -> NightshiftError:
    return NightshiftError(Code.PARSE_ERROR, f"{path}: not a {what} that can be used: {why}")
