"""How a run of the work stage ends: its outcome and reason as data, and the bundle with them."""

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

SKIPS_TO_WARN = 5
"""Nights in a row that were skipped for the same reason, from which on there is a warning."""


@dataclass(frozen=True)
class CategoryResult:
    """What came of a category. ``detail`` is the proposal's title, or why there is no proposal;
    ``analysis`` is None if Analyze failed."""

    category: str
    detail: str
    analysis: AnalysisResult | None = None

    def __str__(self) -> str:
        return f"{self.category}: {self.detail}"


@dataclass(frozen=True)
class Ending:
    """How the run ended. ``summary`` lists what was read and tried, ``incomplete`` describes what
    failed without ending the run, ``captured`` is the proposed change, ``answers`` are for the
    threads that the task came from."""

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
    """The ending of a run that the plan skips, or that has no scheduled category: no agent runs."""
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
    """The error code and reason of a run that ``error`` ended. Call it in the ``except`` block: it
    logs the traceback of a defect. ``disks`` are folders on the disks that the run may have
    filled."""
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
    beads = [bead for bead in results if bead.bead == "analyze"]
    failed = [bead for bead in beads if bead.status not in (BeadStatus.OK, BeadStatus.BUDGET)]
    if not failed:
        return ""
    if all(bead.status is BeadStatus.CRASHED for bead in failed):
        how = f"crashed: {', '.join(bead.category for bead in failed)}"
    else:
        how = f"failed: {', '.join(f'{bead.category} ({bead.status})' for bead in failed)}"
    analysed = len(beads) - len(failed)
    return f"{analysed} of {len(beads)} categories analysed, {len(failed)} {how}"


def describe_repeated_skip(plan: Plan, ending: Ending) -> str:
    """A warning if several nights in a row were skipped for the same reason; "" if not."""
    # Numbers and dates may differ. In a stored result, a text on what was incomplete may precede
    # the reason (stages/report/run_result.py).
    reason = re.sub(r"\d+", "", ending.reason)
    same = [why for why in plan.skipped_before if re.sub(r"\d+", "", why).endswith(reason)]
    if ending.outcome is not Outcome.SKIPPED or len(same) + 1 < SKIPS_TO_WARN:
        return ""
    return f"{SKIPS_TO_WARN} nights in a row were skipped for the same reason"


def shorten_to_line(text: str) -> str:
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
    """The bundle as JSON. If it is too large, it leaves out the beads' hand-offs: the proposal has
    copies of those that matter."""
    data = to_json(bundle).encode()
    if len(data) <= LARGEST_BUNDLE:
        return data
    beads = tuple(replace(bead, handoff=None) for bead in bundle.beads)
    return to_json(replace(bundle, beads=beads)).encode()
