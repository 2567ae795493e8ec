"""Builds the bundle of a night."""

from dataclasses import replace
from datetime import UTC, datetime

from gitlab_nightshift.records.products import Bundle, Plan
from gitlab_nightshift.records.storage import LARGEST_BUNDLE, to_json
from gitlab_nightshift.records.usage import add_usage
from gitlab_nightshift.stages.work.night_ending import Ending, describe_repeated_skip
from gitlab_nightshift.stages.work.run_budget import Ledger


def build_bundle(plan: Plan, ending: Ending, ledger: Ledger, duration_s: float) -> Bundle:
    """The outcome of a night, as it is written to ``bundle.json``."""
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
