"""The bundle of a night: its record, without the values of secrets."""

import dataclasses
from datetime import UTC, datetime

from gitlab_nightshift.records import Bundle, Plan, map_texts
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.work.ending import Ending
from gitlab_nightshift.work.ledger import Ledger


def bundle_of(plan: Plan, ending: Ending, ledger: Ledger, duration_s: float) -> Bundle:
    """What a night came to, as it is written."""
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
        files_scanned=ending.files_scanned,
        proposal=ending.proposal,
        usage=ledger.usage(),
        duration_s=round(duration_s, 1),
        isolation=ledger.isolation,
        beads=tuple(ledger.results),
        task=plan.task,
    )


def told(bundle: Bundle, redact: Redactor) -> Bundle:
    """The bundle without the values of secrets in what agents and commands said."""
    proposal = bundle.proposal
    if proposal:
        said = ("analysis", "draft", "verdict", "notes", "checks", "findings")
        told = {name: map_texts(getattr(proposal, name), redact) for name in said}
        proposal = dataclasses.replace(proposal, **told)
    return dataclasses.replace(
        bundle,
        reason=redact(bundle.reason),
        summary=redact(bundle.summary),
        task=redact(bundle.task),
        proposal=proposal,
        beads=map_texts(bundle.beads, redact),
    )
