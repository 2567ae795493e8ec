"""The products of the stages: plan, bundle, publication, and the run as a whole.

Money is in USD, durations are in seconds, times are ISO 8601 with a zone.
"""

from dataclasses import dataclass
from enum import StrEnum

from gitlab_nightshift.records.beads import BeadResult, CommandResult, Usage
from gitlab_nightshift.records.handoffs import AnalysisResult, Draft, Verdict
from gitlab_nightshift.records.request import Request
from gitlab_nightshift.records.verdicts import Check, Finding, Gated

VERSION = 1


class Outcome(StrEnum):
    """How a run ended. The first four are no alarm: exit status 0."""

    MR_CREATED = "MR_CREATED"
    NO_IMPROVEMENT = "NO_IMPROVEMENT"
    MR_READY = "MR_READY"
    SKIPPED = "SKIPPED"
    APPROVAL_REQUIRED = "APPROVAL_REQUIRED"
    FAILED = "FAILED"


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
    ``task`` is a given task instead of a category, "" without one; ``request`` the comment that
    gave it, where one did.
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
    verify_commands: tuple[str, ...] = ()
    task: str = ""
    request: Request | None = None
    version: int = VERSION


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
    """A verified change with its texts: what publish turns into a merge request.

    ``checks`` are what this program ran and measured besides ``commands``, ``findings`` the red
    flags that are told, ``gates`` the files that the write gate does not simply let through.
    """

    change: Change
    category: str
    is_fallback: bool
    analysis: AnalysisResult
    draft: Draft
    verdict: Verdict
    commands: tuple[CommandResult, ...] = ()
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()
    gates: tuple[Gated, ...] = ()


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
    task: str = ""
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
    assumed_cost_usd: float = 0.0
    assumed_tokens: int = 0
    total_duration_s: float = 0.0
    isolation: str = "none"
    beads: tuple[BeadResult, ...] = ()
    version: int = VERSION

    @property
    def usage(self) -> Usage:
        """What the run has used."""
        return Usage(
            self.total_cost_usd, self.total_tokens, self.assumed_cost_usd, self.assumed_tokens
        )
