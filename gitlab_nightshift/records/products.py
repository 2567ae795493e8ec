"""The products of the stages: plan, bundle and publication.

Money is in USD, durations are in seconds, times are ISO 8601 with a zone.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

from gitlab_nightshift.records.bead_results import BeadResult, CommandResult
from gitlab_nightshift.records.field_bounds import Between
from gitlab_nightshift.records.handoffs import AnalysisResult, Answers, Draft, Verdict
from gitlab_nightshift.records.request import TaskRequest
from gitlab_nightshift.records.tool_calls import ToolUse
from gitlab_nightshift.records.usage import SpendingLimit, Usage
from gitlab_nightshift.records.verdicts import Check, Finding, GatedFile
from gitlab_nightshift.text.counts import count_words

VERSION = 1
BUNDLE_VERSION = 2
_MOST = 10**12
"""Also the largest number that a setting takes."""


class Outcome(StrEnum):
    """How a run ended. The first four are no alarm: exit status 0."""

    MR_CREATED = "MR_CREATED"
    NO_IMPROVEMENT = "NO_IMPROVEMENT"
    MR_READY = "MR_READY"
    SKIPPED = "SKIPPED"
    APPROVAL_REQUIRED = "APPROVAL_REQUIRED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class KnownMergeRequest:
    """A merge request of an earlier night, or somebody's that is open: then with its files only.

    ``symbols`` and ``digest`` are what its marker says that it touches, ``reasons`` why people
    refused it, ``day`` when it was closed or merged (ISO 8601), "" while it is open; ``opened``
    when it was opened. ``unread`` says that no person has commented on it.
    """

    iid: int
    title: str
    web_url: str
    category: str
    source_branch: str
    files: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    day: str = ""
    opened: str = ""
    unread: bool = False
    digest: str = ""


@dataclass(frozen=True)
class SkippedCategory:
    """A category that will not be tried, and why."""

    category: str
    reason: str


@dataclass(frozen=True)
class PipelineJob:
    """A job of this pipeline: its name, and its id in GitLab."""

    name: str
    id: int


@dataclass(frozen=True)
class Plan:
    """Product of the plan stage.

    ``scheduled`` is today's category or the override, "" where there is none; ``categories`` are
    those to try, in order. ``recent_files`` are refused in a change only where
    ``recent_files_enforced``; else Analyze is only told of them. ``skip`` is why the night may be
    skipped, "" where it may not; ``pausing`` are the ignored merge requests for which it is.
    ``task`` is a given task instead of a category, "" without one; ``request`` the comment that
    gave it, where one did.
    ``open_merge_requests``, ``rejected_ideas`` and ``merged_ideas`` are of earlier nights,
    ``open_elsewhere`` is what people work on, ``skipped_before`` are the reasons of the skips in a
    row before this night, the newest first.
    ``unknown`` says what could not be known (without a token, say). ``jobs`` are this pipeline's,
    where others than this one follow: a job's own token may not list them.
    """

    run_id: str
    date: str
    base_sha: str
    target_branch: str
    scheduled: str
    categories: tuple[str, ...]
    max_diff_lines: Annotated[int, Between(1, _MOST)]
    max_budget_usd: Annotated[float, Between(0, _MOST)]
    left_out: tuple[SkippedCategory, ...] = ()
    skip: str = ""
    pausing: tuple[int, ...] = ()
    open_merge_requests: tuple[KnownMergeRequest, ...] = ()
    rejected_ideas: tuple[KnownMergeRequest, ...] = ()
    merged_ideas: tuple[KnownMergeRequest, ...] = ()
    open_elsewhere: tuple[KnownMergeRequest, ...] = ()
    recent_files: tuple[str, ...] = ()
    recent_files_enforced: bool = True
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    max_tokens: Annotated[int, Between(1, _MOST)] | None = None
    verify_commands: tuple[str, ...] = ()
    task: str = ""
    request: TaskRequest | None = None
    skipped_before: tuple[str, ...] = ()
    jobs: tuple[PipelineJob, ...] = ()
    version: int = VERSION

    @property
    def limit(self) -> SpendingLimit:
        """What all its beads together may use."""
        return SpendingLimit(self.max_budget_usd, self.max_tokens)


@dataclass(frozen=True)
class ChangeSize:
    """The change as git has it."""

    files: tuple[str, ...]
    added: Annotated[int, Between(0, _MOST)]
    deleted: Annotated[int, Between(0, _MOST)]

    @property
    def lines(self) -> int:
        """Added plus deleted lines, the measure of ``max_diff_lines``."""
        return self.added + self.deleted

    @property
    def delta(self) -> str:
        """``+3 -1``."""
        return f"+{self.added} -{self.deleted}"

    def __str__(self) -> str:
        return f"{count_words(self.lines, 'line')}, {count_words(len(self.files), 'file')}"


@dataclass(frozen=True)
class ProposedChange(ChangeSize):
    """A change in a bundle: its size, and the full id of the tree that it makes."""

    tree_id: str


@dataclass(frozen=True)
class Proposal:
    """A verified change with its texts: what publish turns into a merge request.

    ``checks`` are what this program ran and measured besides ``commands``, ``findings`` the red
    flags that are reported, ``gates`` the files that the write gate does not simply let through,
    ``symbols`` the functions and classes that the change touches, ``digest`` stands for its lines,
    ``verify_tools`` are the commands that Verify was seen to run besides reading (None: not known).
    """

    change: ProposedChange
    category: str
    is_fallback: bool
    analysis: AnalysisResult
    draft: Draft
    verdict: Verdict
    commands: tuple[CommandResult, ...] = ()
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()
    gates: tuple[GatedFile, ...] = ()
    symbols: tuple[str, ...] = ()
    digest: str = ""
    verify_tools: ToolUse | None = None


@dataclass(frozen=True)
class FailedAttemptRecord:
    """An attempt at a change that was sent back: its number within the category, from 1, and why.

    ``error_code`` is the code of a run that ends with it.
    """

    category: str
    number: int
    error_code: str
    why: str


@dataclass(frozen=True)
class Bundle:
    """Product of the work stage, beside ``change.patch``; written for a quiet night too.

    ``incomplete`` says which part of the night could not do its work, "" where all did; the outcome
    stands all the same. ``files_scanned`` is None where nobody saw what was read;
    ``files_scanned_at_least``: it may be more. ``answers`` are for the threads of the plan's
    request, with a change or without one. ``baseline`` is how the commands ended before the
    change.
    """

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
    files_scanned: int | None = 0
    proposal: Proposal | None = None
    usage: Usage = Usage()
    duration_s: Annotated[float, Between(0, _MOST)] = 0.0
    isolation: str = "none"
    beads: tuple[BeadResult, ...] = ()
    failed_attempts: tuple[FailedAttemptRecord, ...] = ()
    task: str = ""
    incomplete: str = ""
    files_scanned_at_least: bool = False
    answers: Answers = ()
    baseline: tuple[CommandResult, ...] = ()
    version: int = BUNDLE_VERSION

    def with_usage(self, counted: Usage | None) -> "Bundle":
        """With the gateway's count; without a gateway (None) the agents' own figures stay."""
        return replace(self, usage=counted) if counted else self


@dataclass(frozen=True)
class Publication:
    """Product of the publish stage: what is in GitLab now. ``suggestion`` is the Markdown of a
    change that is not pushed, but suggested where it was asked for."""

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
    suggestion: str = ""
    version: int = VERSION
