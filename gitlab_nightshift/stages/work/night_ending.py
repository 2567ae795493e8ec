"""How a run of the work stage ends: its outcome and reason as data, and the bundle that records
them."""

import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.errors import STOPPED_BY_SIGNAL, Code, Interruption, NightshiftError
from gitlab_nightshift.records.bead_results import (
    AnalysisResult,
    BeadResult,
    BeadStatus,
    ThreadAnswer,
)
from gitlab_nightshift.records.products import Bundle, Outcome, Plan, Proposal
from gitlab_nightshift.records.storage import LARGEST_BUNDLE, to_json
from gitlab_nightshift.records.usage import add_usage
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.disk_space import build_no_space_error, is_full_disk
from gitlab_nightshift.stages.work.run_budget import Ledger
from gitlab_nightshift.stages.work.tool_use import NONE_READ, FilesRead
from gitlab_nightshift.stages.work.work_context import WorkContext

MOST_SKIPS = 5
"""Nights in a row, skipped for the same reason, that cause a warning."""


@dataclass(frozen=True)
class CategoryResult:
    """What came of a category: ``why`` it has no proposal, or the proposal's title. ``analysis`` is
    None if Analyze failed."""

    category: str
    why: str
    analysis: AnalysisResult | None = None

    def __str__(self) -> str:
        return f"{self.category}: {self.why}"


@dataclass(frozen=True)
class Ending:
    """How the run ended. ``summary`` lists what was read and tried, ``captured`` is the proposed
    change, ``incomplete`` names parts of the run that failed, ``answers`` go to the threads that
    the task came from."""

    outcome: Outcome
    reason: str
    category_used: str
    is_fallback: bool = False
    files_read: FilesRead = NONE_READ
    summary: str = ""
    error_code: str = ""
    incomplete: str = ""
    proposal: Proposal | None = None
    captured: CapturedChange | None = None
    answers: tuple[ThreadAnswer, ...] = ()


def build_unscheduled_ending(plan: Plan) -> Ending:
    """The ending of a run that plan has skipped, or for which no category is scheduled: nothing is
    spent."""
    why = plan.skip or "No category scheduled for today"
    outcome = Outcome.SKIPPED if plan.skip else Outcome.NO_IMPROVEMENT
    return Ending(outcome, why, plan.scheduled or "none")


def run_to_ending(plan: Plan, work_context: WorkContext, run: Callable[[], Ending]) -> Ending:
    """Call ``run`` and turn exceptions into results; nothing else in the work stage does."""
    try:
        return run()
    except (Exception, Interruption) as error:
        disks = work_context.private, work_context.checkout  # a night may fill both
        code, reason = explain_exception(error, disks, work_context.logs.write)
    return Ending(Outcome.FAILED, reason, plan.scheduled or "none", error_code=code.value)


def explain_exception(
    error: Exception | Interruption, disks: Sequence[Path], write_log: Callable[[str, str], None]
) -> tuple[Code, str]:
    """The code and the reason of a run that ``error`` has ended. Called while it is being handled,
    since a defect's traceback is written as a log. ``disks`` are folders on the disks that the run
    may have filled."""
    if isinstance(error, NightshiftError):
        return error.code, error.message
    if isinstance(error, Interruption):
        return error.code, STOPPED_BY_SIGNAL
    if is_full_disk(error):
        return Code.CONFIG, build_no_space_error(*disks).message
    write_log("traceback.txt", traceback.format_exc())
    text = f"a defect of nightshift: {type(error).__name__}; see logs/traceback.txt"
    return Code.INTERNAL, text


def describe_failed_analyses(results: Sequence[BeadResult]) -> str:
    """Which Analyze beads failed, "" for none. A bead stopped by the budget did not fail."""
    analyses = [each for each in results if each.bead == "analyze"]
    failed = [each for each in analyses if each.status not in (BeadStatus.OK, BeadStatus.BUDGET)]
    if not failed:
        return ""
    if all(each.status is BeadStatus.CRASHED for each in failed):
        how = f"crashed: {', '.join(each.category for each in failed)}"
    else:
        how = f"failed: {', '.join(f'{each.category} ({each.status})' for each in failed)}"
    good = len(analyses) - len(failed)
    return f"{good} of {len(analyses)} categories analysed, {len(failed)} {how}"


def describe_repeated_skip(plan: Plan, ending: Ending) -> str:
    """A warning if several nights in a row were skipped for the same reason; "" if not."""
    # Numbers and dates may differ. What was incomplete precedes the reason in a stored result
    # (stages/report/run_result.py).
    today = re.sub(r"\d+", "", ending.reason)
    alike = [why for why in plan.skipped_before if re.sub(r"\d+", "", why).endswith(today)]
    if ending.outcome is not Outcome.SKIPPED or len(alike) + 1 < MOST_SKIPS:
        return ""
    return f"{MOST_SKIPS} nights in a row were skipped for the same reason"


def take_first_line(text: str) -> str:
    """The first line of a text, at most 300 characters of it."""
    return " ".join(text.strip().partition("\n")[0].split())[:300]


def build_bundle(plan: Plan, ending: Ending, ledger: Ledger, duration_s: float) -> Bundle:
    """The content of ``bundle.json``."""
    return Bundle(
        run_id=plan.run_id,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        base_sha=plan.base_sha,
        target_branch=plan.target_branch,
        outcome=ending.outcome,
        reason=ending.reason,
        error_code=ending.error_code,
        summary=ending.summary,
        category_used=ending.category_used,
        is_fallback=ending.is_fallback,
        files_scanned=ending.files_read.count,
        files_scanned_at_least=ending.files_read.at_least,
        proposal=ending.proposal,
        usage=add_usage(ledger.list_usage()),
        duration_s=round(duration_s, 1),
        isolation=ledger.isolation,
        beads=tuple(ledger.results),
        failed_attempts=tuple(ledger.failed_attempts),
        task=plan.task,
        answers=ending.answers,
        baseline=ledger.baseline,
        incomplete=ending.incomplete or describe_repeated_skip(plan, ending),
    )


def encode_bundle(bundle: Bundle) -> bytes:
    """The bundle as JSON. If it is too large, the beads lose their hand-offs; the proposal has its
    own copies."""
    data = to_json(bundle).encode()
    if len(data) <= LARGEST_BUNDLE:
        return data
    beads = tuple(replace(bead, handoff=None) for bead in bundle.beads)
    return to_json(replace(bundle, beads=beads)).encode()
