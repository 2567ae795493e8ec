"""The whole run as one record: what ``result.json`` holds, version 2.

Texts under the fields become the descriptions of the published JSON Schema. What this program ran,
counted or read from git stands in fields of their own; what an agent alone says stands in ``said``
and in the hand-offs of ``beads``.
"""

from dataclasses import dataclass
from typing import Literal

from gitlab_nightshift.records.bead_results import BeadResult, CommandResult
from gitlab_nightshift.records.handoffs import AnalysisCandidate
from gitlab_nightshift.records.notary_records import NotarizedCommand, describe_run
from gitlab_nightshift.records.products import ChangeSize, Outcome
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.records.verdicts import Check, CheckOutcome, Finding, GatedFile

RESULT_VERSION = 2

ResultLevel = Literal["pass", "warn", "fail", "not_known"]

_LEVELS: dict[CheckOutcome, ResultLevel] = {
    CheckOutcome.PASSED: "pass",
    CheckOutcome.FAILED: "fail",
    CheckOutcome.UNDECIDED: "not_known",
    CheckOutcome.NOT_CHECKED: "not_known",
}


@dataclass(frozen=True)
class CommandFinding:
    """A command that was run on the change."""

    command: str
    level: ResultLevel
    """`warn`: it passed only in the second attempt, or fails without the change as well."""
    exit_status: int | None
    """Null where it did not end by itself."""
    duration_s: float
    error: str
    output: str
    """The end of what it printed; of one in `commands`, how its other runs ended."""


@dataclass(frozen=True)
class EvidenceFinding:
    """Something that this program measured, or tried, on the change."""

    title: str
    level: ResultLevel
    """`not_known`: it could not be checked, or is a figure that nothing is held against."""
    detail: str


@dataclass(frozen=True)
class FlagFinding:
    """A red flag that the proposed change has."""

    name: str
    level: ResultLevel
    file: str
    """Empty for the whole change."""
    line: int
    """0 for the whole file."""
    detail: str


@dataclass(frozen=True)
class AttemptResult:
    """An attempt at a category's change."""

    category: str
    number: int
    """From 1, within the category."""
    passed: bool
    error_code: str = ""
    why: str = ""
    """Why it was sent back; empty where it passed. May quote an agent."""


@dataclass(frozen=True)
class AgentStatements:
    """What agents said of the proposed change. Nothing here was checked by this program."""

    summary: str = ""
    reasoning: str = ""
    changes: str = ""
    selected: AnalysisCandidate | None = None
    candidates: tuple[AnalysisCandidate, ...] = ()
    rejected_alternatives: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    """What Verify says that it checked."""
    doubts: tuple[str, ...] = ()
    """What Verify is not sure of."""


@dataclass(frozen=True)
class UpkeepResult:
    """What was done for an open merge request of an earlier night, before new work."""

    outcome: Outcome
    error_code: str = ""
    reason: str = ""
    mr_url: str = ""
    commit_sha: str = ""
    duration_s: float = 0.0


@dataclass(frozen=True)
class RunResult:
    """The whole run."""

    run_id: str
    """The pipeline's id; a retried job is the same run. A UUID outside CI."""
    outcome: Outcome
    error_code: str = ""
    """Empty, or a code of docs/errors.md."""
    reason: str = ""
    summary: str = ""
    """Files scanned, then a line for each category that was tried or left out."""
    task: str = ""
    """The task that was given instead of a category."""
    mr_url: str = ""
    branch: str = ""
    base_sha: str = ""
    commit_sha: str = ""
    category_used: str = "none"
    """With where it was the fallback from: `tests (fallback from docs)`."""
    is_fallback: bool = False
    files_scanned: int | None = 0
    """Files that the Analyze beads were seen to read; null where nobody saw."""
    files_scanned_at_least: bool = False
    """A shell may have read more."""
    total_cost_usd: float | None = 0.0
    """Null where it is not known."""
    total_tokens: int | None = 0
    """Null where it is not known."""
    assumed_cost_usd: float = 0.0
    """The part of the cost that no endpoint reported: with it the sum is the most it can be."""
    assumed_tokens: int = 0
    total_duration_s: float = 0.0
    isolation: str = "none"
    """The sandbox, and how far each of its guarantees held."""
    beads: tuple[BeadResult, ...] = ()
    project: str = ""
    """The project's path in GitLab."""
    pipeline_url: str = ""
    started_at: str = ""
    """When the work began, as ISO 8601 with a zone; empty where it is not known."""
    scheduled: str = ""
    """The category of the day, or the override; empty where there was none."""
    title: str = ""
    """Of the merge request, or of the change that is ready for one."""
    change: ChangeSize | None = None
    """Null where nothing is proposed."""
    commands: tuple[CommandFinding, ...] = ()
    """What this program ran after the agents, in a process that had read nothing of theirs."""
    reported: tuple[CommandFinding, ...] = ()
    """What the process that ran the agents says that it ran; `evidence`, `flags` and `notes` are
    its word as well."""
    evidence: tuple[EvidenceFinding, ...] = ()
    flags: tuple[FlagFinding, ...] = ()
    gates: tuple[GatedFile, ...] = ()
    """Changed files that need a second look, or an approval."""
    notes: tuple[str, ...] = ()
    """What this program has to say besides."""
    attempts: tuple[AttemptResult, ...] = ()
    said: AgentStatements | None = None
    """Null where nothing is proposed."""
    upkeep: UpkeepResult | None = None
    """Null where nothing was done before new work. Its beads and cost are among those above."""
    version: int = RESULT_VERSION

    @property
    def usage(self) -> Usage:
        """What the run has used."""
        return Usage(
            self.total_cost_usd, self.total_tokens, self.assumed_cost_usd, self.assumed_tokens
        )


def build_command_finding(result: CommandResult) -> CommandFinding:
    """A command as ``result.json`` has it."""
    level: ResultLevel = "fail"
    if result.ok:
        level = "warn" if result.flaky else "pass"
    return CommandFinding(
        result.command, level, result.exit_status, result.duration_s, result.error, result.output
    )


def build_notarized_finding(seen: NotarizedCommand) -> CommandFinding:
    """A command that the notary ran, as ``result.json`` has it: all its runs are told."""
    last = seen.runs[-1]
    told = [describe_run(each) for each in seen.runs[:-1]]
    if seen.base:
        told.append(f"without the change: {describe_run(seen.base)}")
    level: ResultLevel = "fail"
    if seen.accepted:
        level = "pass" if seen.ok and not told else "warn"
    return CommandFinding(
        seen.command, level, last.exit_status, last.duration_s, last.error, "; ".join(told)
    )


def build_evidence_finding(check: Check) -> EvidenceFinding:
    """A check as ``result.json`` has it."""
    return EvidenceFinding(check.title, _LEVELS[check.outcome], check.detail)


def build_flag_finding(finding: Finding) -> FlagFinding:
    """A red flag as ``result.json`` has it."""
    level: ResultLevel = "fail" if finding.level == "fail" else "warn"
    return FlagFinding(finding.name, level, finding.file, finding.line, finding.detail)
