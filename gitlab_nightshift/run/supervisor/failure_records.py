"""The supervisor's access to a run's records: it reads and completes them, and writes those of a
process that died.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import OUT_OF_MEMORY_HINT, Code, NightshiftError
from gitlab_nightshift.policy.claimed_categories import find_invalid_field
from gitlab_nightshift.records.notary_records import NOTARY, NotaryRecord, find_refusal
from gitlab_nightshift.records.products import Bundle, Outcome, Publication
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import read_if_valid, write_record
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.stages.report.killed_run import build_partial_bundle
from gitlab_nightshift.stages.report.report_files import is_reported, read_patch, write_results
from gitlab_nightshift.stages.report.run_result import build_run_result, read_upkeep_result

WORK_OUTCOMES = (Outcome.MR_READY, Outcome.NO_IMPROVEMENT, Outcome.SKIPPED, Outcome.FAILED)
"""The outcomes that work may claim: nothing is published yet."""
_BUNDLE, _PUBLISHED = "bundle/bundle.json", "published.json"


def build_killed_error(process: str) -> NightshiftError:
    """The error for a process that ended without an answer."""
    text = f"the process of {process} was killed, {OUT_OF_MEMORY_HINT}"
    return NightshiftError(Code.TERMINATED, text)


def build_lost_error(process: str, answer: object) -> NightshiftError:
    """The error for a missing result: without an ``answer`` the process was killed, otherwise the
    redactor refused its record."""
    if not answer:
        return build_killed_error(process)
    text = f"the process of {process} left no result that can be used: see the log above"
    return NightshiftError(Code.INTERNAL, text)


def read_bundle(results: Path) -> Bundle | None:
    """The bundle as the redactor wrote it, None if it is missing or invalid."""
    return read_if_valid(Bundle, results / _BUNDLE)


def read_own_bundle(results: Path, plan: Mapping[str, Any]) -> Bundle | None:
    """The bundle, if it belongs to this run and claims only what work may claim; None without one.
    Removes any other bundle, and raises ``E_PARSE_ERROR``."""
    bundle = read_bundle(results)
    # An agent may control its writer, and might claim another run's merge request as ours.
    if bundle and (fields := _list_foreign_fields(bundle, plan)):
        (results / _BUNDLE).unlink()
        text = f"work gave a bundle that cannot be its own: {', '.join(fields)}"
        raise NightshiftError(Code.PARSE_ERROR, text)
    return bundle


def write_measurements(
    results: Path, bundle: Bundle, usage: Usage | None, seconds: float
) -> Bundle:
    """Replace work's claims in the bundle by measurements: the gateway's ``usage``, how long work
    ran, and when it ended. A later job sees only the bundle."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    measured = replace(bundle.with_usage(usage), created_at=now, duration_s=seconds)
    with contextlib.suppress(OSError):  # the disk is full
        write_record(results / _BUNDLE, measured)
    return measured


def _list_foreign_fields(bundle: Bundle, plan: Mapping[str, Any]) -> list[str]:
    """The fields that differ from the plan's, or that claim too much."""
    names = ("run_id", "base_sha", "target_branch")
    if different := [name for name in names if getattr(bundle, name) != plan[name]]:
        return different
    if bundle.task not in ("", plan["task"]):  # "": of an earlier try, found by its merge request
        return ["task"]
    categories = (*plan["categories"], *(skipped["category"] for skipped in plan["left_out"]))
    if field := find_invalid_field(bundle, categories, (plan["scheduled"],)):
        return [field]
    return [] if bundle.outcome in WORK_OUTCOMES else ["outcome"]


def write_failed(results: Path, error: NightshiftError, plan: Mapping[str, Any]) -> None:
    """Write the bundle of a run that ended early with ``error``; an existing one keeps its change.

    ``plan`` may lack fields. Without a bundle, the events show what was done.
    """
    bundle = read_bundle(results)
    if bundle is None:
        names = ("run_id", "base_sha", "target_branch", "task")
        fields = {name: plan[name] for name in names if name in plan}
        bundle = replace(build_partial_bundle(results), **fields)
    (results / _BUNDLE).parent.mkdir(exist_ok=True)
    failed = replace(bundle, reason=error.message, error_code=error.code.value)
    write_record(results / _BUNDLE, failed)


def write_failed_publication(results: Path, bundle: Bundle, answer: object) -> None:
    """Write the missing publication of publish; ``answer`` is that process's."""
    text = build_lost_error("publish", answer).message
    record = Publication(bundle.run_id, Outcome.FAILED, text, Code.PUBLISH.value)
    write_record(results / _PUBLISHED, record)


def write_publication_if_refused(results: Path, bundle: Bundle, record: NotaryRecord) -> None:
    """Write the publication of a dry run if its notary refuses the change."""
    assert bundle.proposal
    tree_id = bundle.proposal.change.tree_id
    refusal = find_refusal(record, run_id=bundle.run_id, base_sha=bundle.base_sha, tree_id=tree_id)
    if refusal:
        outcome = Outcome.MR_READY if refusal.code is Code.INCOMPLETE else Outcome.FAILED
        publication = Publication(bundle.run_id, outcome, refusal.why, refusal.code.value)
        write_record(results / _PUBLISHED, publication)


def build_own_result(
    results: Path, usage: Usage | None, project: str, pipeline_url: str
) -> RunResult:
    """The run's result, computed only from its bundle and records. ``usage`` is the gateway's."""
    bundle = read_bundle(results)
    assert bundle
    published = read_if_valid(Publication, results / _PUBLISHED)
    upkeep, notary = read_upkeep_result(results), read_if_valid(NotaryRecord, results / NOTARY)
    bundle = bundle.with_usage(usage)
    return build_run_result(bundle, published, project, pipeline_url, upkeep, notary)


def ensure_result(
    results: Path, result: RunResult, values: tuple[str, ...], report_url: str = ""
) -> bool:
    """Write the files of the result, unless report has written them. Returns True if it has.
    ``values`` are the job's secrets."""
    from gitlab_nightshift.redaction.redactor import Redactor

    redact = Redactor(values)
    if is_reported(results, result, redact, report_url):
        return True
    write_results(results, result, read_patch(results / "bundle"), redact, report_url)
    return False
