"""The products of the stages: plan, bundle and publication.

Money is in USD, durations are in seconds, times are ISO 8601 with a zone.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

from gitlab_nightshift.records.bead_results import (
    AnalysisResult,
    Answers,
    BeadResult,
    CommandResult,
    Draft,
    Verdict,
)
from gitlab_nightshift.records.codec import Between
from gitlab_nightshift.records.request import TaskRequest
from gitlab_nightshift.records.usage import SpendingLimit, ToolUse, Usage
from gitlab_nightshift.records.verdicts import Check, Finding, GatedFile
from gitlab_nightshift.text.printable_text import count_words

PLAN_VERSION = PUBLICATION_VERSION = 1
BUNDLE_VERSION = 2
# The largest number in settings, which set the limits (settings/model.py).
_LARGEST_SETTING = 10**12


class Outcome(StrEnum):
    """How a run ended. The first four have exit status 0."""

    MR_CREATED = "MR_CREATED"
    NO_IMPROVEMENT = "NO_IMPROVEMENT"
    MR_READY = "MR_READY"
    SKIPPED = "SKIPPED"
    APPROVAL_REQUIRED = "APPROVAL_REQUIRED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class KnownMergeRequest:
    """A merge request of an earlier night, or somebody else's open one, of which only the files are
    known.

    ``symbols`` and ``digest`` are from the marker in its description; ``reasons`` are what people
    wrote when they rejected it. ``opened`` is the day on which it was opened, ``day`` that on which
    it was closed or merged ("" while open), ISO 8601. ``unread``: nobody has commented on it, or
    acted on it.
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

    ``scheduled`` is today's category or the override, "" for none; ``categories`` are those to try,
    in order, ``left_out`` those not to try. A change may not touch ``recent_files`` if
    ``recent_files_enforced``; otherwise Analyze is only told about them. ``skip`` is why the night
    is skipped, "" if it is not; ``pausing`` are the numbers of the ignored merge requests that
    cause this. ``task`` replaces the category, "" for none; ``request`` is the comment that gave
    it, if any.

    ``open_merge_requests``, ``rejected_ideas`` and ``merged_ideas`` are of earlier nights;
    ``open_elsewhere`` are people's open merge requests; ``skipped_before`` are the reasons of the
    consecutive skips before this night, newest first. ``notes`` are for the log; ``unknown`` names
    what could not be found out, for example without a token. ``jobs`` are those of this pipeline:
    its later jobs may not list them with their job tokens.
    """

    run_id: str
    date: str
    base_sha: str
    target_branch: str
    scheduled: str
    categories: tuple[str, ...]
    max_diff_lines: Annotated[int, Between(1, _LARGEST_SETTING)]
    max_budget_usd: Annotated[float, Between(0, _LARGEST_SETTING)]
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
    max_tokens: Annotated[int, Between(1, _LARGEST_SETTING)] | None = None
    verify_commands: tuple[str, ...] = ()
    task: str = ""
    request: TaskRequest | None = None
    skipped_before: tuple[str, ...] = ()
    jobs: tuple[PipelineJob, ...] = ()
    version: int = PLAN_VERSION

    @property
    def limit(self) -> SpendingLimit:
        """The limit for all beads of the night together."""
        return SpendingLimit(self.max_budget_usd, self.max_tokens)


@dataclass(frozen=True)
class ChangeSize:
    """The size of a change, as git counts it."""

    files: tuple[str, ...]
    added: Annotated[int, Between(0, _LARGEST_SETTING)]
    deleted: Annotated[int, Between(0, _LARGEST_SETTING)]

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
    """A verified change with its texts, which publish turns into a merge request.

    ``commands`` and ``checks`` are what this program ran and measured; ``findings`` are the red
    flags; ``gates`` are the files that the write gate stopped or reports; ``symbols`` are the
    functions and classes that the change touches; ``digest`` is a hash of its lines;
    ``verify_tools`` are Verify's tool calls except reading (None: unknown).
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
    """A failed attempt at a change: its number within the category, from 1, and why it failed.

    ``error_code`` becomes the run's if no later attempt follows.
    """

    category: str
    number: int
    error_code: str
    why: str


@dataclass(frozen=True)
class Bundle:
    """Product of the work stage, beside ``change.patch``; also of a night without a change.

    ``incomplete`` names the part of the night that failed without changing the outcome, "" for
    none. ``files_scanned`` is None if unknown, and a minimum if ``files_scanned_at_least``.
    ``answers`` are for the threads of the plan's request. ``baseline`` are the results of the
    commands before the change.
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
    duration_s: Annotated[float, Between(0, _LARGEST_SETTING)] = 0.0
    isolation: str = "none"
    beads: tuple[BeadResult, ...] = ()
    failed_attempts: tuple[FailedAttemptRecord, ...] = ()
    task: str = ""
    incomplete: str = ""
    files_scanned_at_least: bool = False
    answers: Answers = ()
    baseline: tuple[CommandResult, ...] = ()
    version: int = BUNDLE_VERSION

    def with_usage(self, usage: Usage | None) -> "Bundle":
        """This bundle with the gateway's ``usage``; unchanged, with the agents' own figures, if
        there was no gateway (None)."""
        return replace(self, usage=usage) if usage else self


@dataclass(frozen=True)
class Publication:
    """Product of the publish stage: its merge request and commit, or why there are none.

    ``suggestion`` is the Markdown of a change that is not pushed, but suggested in the thread that
    asked for it.
    """

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
    version: int = PUBLICATION_VERSION
