"""The whole run as one record: the content of ``result.json``, version 2.

The strings under the fields are the descriptions in the published JSON Schema. Whatever this
program ran, counted or read from git has fields of its own; an agent's statements are only in
``said`` and in the hand-offs of ``beads``.
"""

from dataclasses import dataclass
from typing import Literal

from gitlab_nightshift.records.bead_results import AnalysisCandidate, BeadResult, CommandResult
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
    """`warn`: it passed only on its second run, or fails without the change as well."""
    exit_status: int | None
    """Null if it was stopped."""
    duration_s: float
    error: str
    output: str
    """The end of its output; in `commands` the results of its other runs."""


@dataclass(frozen=True)
class EvidenceFinding:
    """Something that this program measured or tried on the change."""

    title: str
    level: ResultLevel
    """`not_known`: it could not be checked, or is a figure without a limit."""
    detail: str


@dataclass(frozen=True)
class FlagFinding:
    """A red flag in the proposed change."""

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
    """Why it was rejected; empty if it passed. May quote an agent."""


@dataclass(frozen=True)
class AgentStatements:
    """What agents said about the proposed change. This program has verified none of it."""

    summary: str = ""
    reasoning: str = ""
    changes: str = ""
    selected: AnalysisCandidate | None = None
    candidates: tuple[AnalysisCandidate, ...] = ()
    rejected_alternatives: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    """What Verify checked, by its own account."""
    doubts: tuple[str, ...] = ()
    """Verify's remaining doubts."""


@dataclass(frozen=True)
class UpkeepResult:
    """Upkeep of an open merge request of an earlier night, before new work."""

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
    """The number of scanned files, then a line for each category that was tried or left out."""
    task: str = ""
    """The task that replaced the category."""
    mr_url: str = ""
    branch: str = ""
    base_sha: str = ""
    commit_sha: str = ""
    category_used: str = "none"
    """A fallback names its origin: `tests (fallback from docs)`."""
    is_fallback: bool = False
    files_scanned: int | None = 0
    """Files that the Analyze beads read; null if unknown."""
    files_scanned_at_least: bool = False
    """True if a shell may have read more."""
    total_cost_usd: float | None = 0.0
    """Null if unknown."""
    total_tokens: int | None = 0
    """Null if unknown."""
    assumed_cost_usd: float = 0.0
    """The part of the cost that no endpoint reported: with it the sum is the most it can be."""
    assumed_tokens: int = 0
    total_duration_s: float = 0.0
    isolation: str = "none"
    """The sandbox, and which of its guarantees held."""
    beads: tuple[BeadResult, ...] = ()
    project: str = ""
    """The project's path in GitLab."""
    pipeline_url: str = ""
    started_at: str = ""
    """The start of the work, as ISO 8601 with a zone; empty if unknown."""
    scheduled: str = ""
    """The category of the day, or the override; empty for none."""
    title: str = ""
    """The title of the merge request, or of the change that is ready for one."""
    change: ChangeSize | None = None
    """Null without a proposed change."""
    commands: tuple[CommandFinding, ...] = ()
    """What this program ran after the agents, in a process that read none of their output."""
    reported: tuple[CommandFinding, ...] = ()
    """What the process that ran the agents reports to have run; `evidence`, `flags` and `notes` are
    its report too."""
    evidence: tuple[EvidenceFinding, ...] = ()
    flags: tuple[FlagFinding, ...] = ()
    gates: tuple[GatedFile, ...] = ()
    """Changed files that need a second look, or an approval."""
    notes: tuple[str, ...] = ()
    """Further remarks of this program."""
    attempts: tuple[AttemptResult, ...] = ()
    said: AgentStatements | None = None
    """Null without a proposed change."""
    upkeep: UpkeepResult | None = None
    """Null without upkeep. Its beads and cost are included above."""
    version: int = RESULT_VERSION

    @property
    def usage(self) -> Usage:
        """The cost and tokens of the run."""
        return Usage(
            self.total_cost_usd, self.total_tokens, self.assumed_cost_usd, self.assumed_tokens
        )


def build_command_finding(result: CommandResult) -> CommandFinding:
    """Build the ``result.json`` form of a command that the agents' process ran."""
    level: ResultLevel = "fail"
    if result.ok:
        level = "warn" if result.flaky else "pass"
    return CommandFinding(
        result.command, level, result.exit_status, result.duration_s, result.error, result.output
    )


def build_notarized_finding(notarized: NotarizedCommand) -> CommandFinding:
    """Build the ``result.json`` form of a command that the notary ran, with all its runs."""
    last = notarized.runs[-1]
    other_runs = [describe_run(each) for each in notarized.runs[:-1]]
    if notarized.base:
        other_runs.append(f"without the change: {describe_run(notarized.base)}")
    level: ResultLevel = "fail"
    # It passes only if its first run passed: a reviewer should see any other run.
    if notarized.accepted:
        level = "pass" if notarized.ok and not other_runs else "warn"
    return CommandFinding(
        notarized.command,
        level,
        last.exit_status,
        last.duration_s,
        last.error,
        "; ".join(other_runs),
    )


def build_evidence_finding(check: Check) -> EvidenceFinding:
    """Build the ``result.json`` form of a check."""
    return EvidenceFinding(check.title, _LEVELS[check.outcome], check.detail)


def build_flag_finding(finding: Finding) -> FlagFinding:
    """Build the ``result.json`` form of a red flag."""
    level: ResultLevel = "fail" if finding.level == "fail" else "warn"
    return FlagFinding(finding.name, level, finding.file, finding.line, finding.detail)
