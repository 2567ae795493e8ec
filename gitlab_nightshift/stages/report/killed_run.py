"""The result of a killed run, from the files that it had written. They are read strictly."""

import contextlib
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.notary_records import NOTARY, NotaryRecord
from gitlab_nightshift.records.products import Bundle, Outcome, Plan, Publication
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import read_if_valid
from gitlab_nightshift.stages.report.event_file import EVENTS, EventSummary, read_summary
from gitlab_nightshift.stages.report.report_files import read_patch, write_results
from gitlab_nightshift.stages.report.result_files import (
    EARLIER,
    OUTPUT,
    RESULTS,
    place_results,
    remove_part,
)
from gitlab_nightshift.stages.report.run_result import build_run_result, read_upkeep_result
from gitlab_nightshift.system.raw_logs import move_logs

_COST = "the cost is what was known until then"


def recover_results(private: Path, why: str = "killed", run_id: str = "unknown") -> None:
    """Put a killed run's results into its output folder, unless that has newer results."""
    with contextlib.suppress(OSError):
        output = Path(os.fsdecode((private / OUTPUT).read_bytes()))
        remove_part(private, output)
        if not os.path.lexists(output):
            with contextlib.suppress(OSError):
                write_killed(private / RESULTS, private / EARLIER, why, run_id)
                move_logs(private / "logs", private / RESULTS / "logs")
            place_results(private, output)


def write_killed(results: Path, earlier: Path, why: str, run_id: str) -> None:
    """Write the result of a killed run into ``results``: ``FAILED`` and ``why``, or what it had
    published already. Nothing is written if a result exists, or no run had started.

    ``earlier`` has the results of earlier stages; ``run_id`` is used if there is no plan. All texts
    are redacted already. Raises OSError.
    """
    from gitlab_nightshift.redaction.redactor import Redactor

    summary = read_summary(results / EVENTS)
    if not summary.started or summary.ended or read_if_valid(RunResult, results / "result.json"):
        return
    bundle = read_if_valid(Bundle, results / "bundle/bundle.json")
    bundle = bundle or _add_plan(_build_bundle(summary), results, earlier, run_id)
    code, reason = Code.TERMINATED.value, f"{why}; {_COST}"
    bundle = replace(bundle, outcome=Outcome.FAILED, error_code=code, reason=reason)
    published = read_if_valid(Publication, results / "published.json")
    upkeep, notary = read_upkeep_result(results), read_if_valid(NotaryRecord, results / NOTARY)
    result = build_run_result(bundle, published, summary.project, upkeep=upkeep, notary=notary)
    write_results(results, result, read_patch(results / "bundle"), Redactor(()))


def build_partial_bundle(results: Path) -> Bundle:
    """A bundle for a run that wrote none, from its events. Raises OSError."""
    return _build_bundle(read_summary(results / EVENTS))


def _build_bundle(summary: EventSummary) -> Bundle:
    return Bundle(
        run_id="",
        created_at=(summary.times or [datetime.now(UTC)])[-1].isoformat(timespec="seconds"),
        base_sha="",
        target_branch="",
        outcome=Outcome.FAILED,
        usage=summary.usage,
        duration_s=summary.duration_s,
        isolation=summary.tier,
        beads=tuple(summary.beads),
    )


def _add_plan(bundle: Bundle, results: Path, earlier: Path, run_id: str) -> Bundle:
    """The bundle with the plan's ids, branch and task, if there is a plan."""
    plan = read_if_valid(Plan, results / "plan.json") or read_if_valid(Plan, earlier / "plan.json")
    if plan is None:
        return replace(bundle, run_id=run_id)
    return replace(
        bundle,
        run_id=plan.run_id,
        base_sha=plan.base_sha,
        target_branch=plan.target_branch,
        task=plan.task,
    )
