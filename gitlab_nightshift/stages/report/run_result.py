"""Builds a run's result from the records of its stages, and one-line texts from it for later jobs
and for people."""

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.bead_results import AnalysisResult, BeadResult, Verdict
from gitlab_nightshift.records.notary_records import NotaryRecord
from gitlab_nightshift.records.products import Bundle, ChangeSize, Outcome, Proposal, Publication
from gitlab_nightshift.records.run_results import (
    AgentStatements,
    AttemptResult,
    RunResult,
    UpkeepResult,
    build_command_finding,
    build_evidence_finding,
    build_flag_finding,
    build_notarized_finding,
)
from gitlab_nightshift.records.storage import UPKEEP, read_if_valid
from gitlab_nightshift.stages.report.job_log import format_line
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_FALLBACK = compile_lazily(r".*\(fallback from (.*)\)", re.DOTALL)


def build_run_result(
    bundle: Bundle,
    published: Publication | None,
    project: str = "",
    pipeline_url: str = "",
    upkeep: UpkeepResult | None = None,
    notary: NotaryRecord | None = None,
) -> RunResult:
    """The result of the whole run, from its bundle and publication. ``upkeep`` was done before the
    work on the bundle, ``notary`` is the notary's record of the change."""
    return RunResult(
        run_id=bundle.run_id,
        **_describe_ending(bundle, published),
        summary=_describe_work(bundle, upkeep),
        task=bundle.task,
        base_sha=bundle.base_sha,
        category_used=bundle.category_used,
        is_fallback=bundle.is_fallback,
        files_scanned=bundle.files_scanned,
        files_scanned_at_least=bundle.files_scanned_at_least,
        total_cost_usd=bundle.usage.cost_usd,
        total_tokens=bundle.usage.tokens,
        assumed_cost_usd=bundle.usage.assumed_usd,
        assumed_tokens=bundle.usage.assumed_tokens,
        total_duration_s=bundle.duration_s + (upkeep.duration_s if upkeep else 0.0),
        isolation=bundle.isolation,
        beads=bundle.beads,
        project=project,
        pipeline_url=pipeline_url,
        started_at=_compute_start(bundle),
        scheduled=_find_scheduled(bundle),
        attempts=_list_attempts(bundle),
        upkeep=upkeep,
        **_describe_proposal(bundle.proposal, published, notary),
    )


def _describe_ending(bundle: Bundle, published: Publication | None) -> dict[str, Any]:
    """The fields of a result that say how the run ended, and what it published."""
    last: Bundle | Publication = published or bundle
    error_code, reason = last.error_code, last.reason
    if bundle.incomplete and last.outcome is not Outcome.FAILED:
        error_code = error_code or Code.INCOMPLETE.value
        reason = ". ".join(dict.fromkeys(filter(None, (bundle.incomplete, reason))))
    return {
        "outcome": last.outcome,
        "error_code": error_code,
        "reason": reason,
        "mr_url": published.mr_url if published else "",
        "branch": published.branch if published else "",
        "commit_sha": published.commit_sha if published else "",
    }


def _describe_work(bundle: Bundle, upkeep: UpkeepResult | None) -> str:
    upkeep_line = f"upkeep: {format_line(upkeep.reason, 500)}" if upkeep else ""
    return "\n".join(filter(None, (bundle.summary, upkeep_line)))


def _compute_start(bundle: Bundle) -> str:
    """When work began (ISO 8601): the bundle was created at its end."""
    try:
        ended = datetime.fromisoformat(bundle.created_at)
        return (ended - timedelta(seconds=bundle.duration_s)).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        return ""


def _find_scheduled(bundle: Bundle) -> str:
    """The day's category: the used one, or the one that it replaces as a fallback; "" for a task,
    or if no category was used."""
    if bundle.task or bundle.category_used == "none":
        return ""
    match = _FALLBACK.fullmatch(bundle.category_used)
    return match[1] if bundle.is_fallback and match else bundle.category_used


def _list_attempts(bundle: Bundle) -> tuple[AttemptResult, ...]:
    """The attempts that were sent back, and the one that led to the proposal."""
    failed = tuple(
        AttemptResult(each.category, each.number, False, each.error_code, each.why)
        for each in bundle.failed_attempts
    )
    if bundle.proposal is None:
        return failed
    category = bundle.proposal.category
    number = 1 + [each.category for each in failed].count(category)
    return (*failed, AttemptResult(category, number, passed=True))


def _describe_proposal(
    proposal: Proposal | None, published: Publication | None, notary: NotaryRecord | None
) -> dict[str, Any]:
    """The fields of a result about the proposed change."""
    if proposal is None:
        return {}
    change = proposal.change
    return {
        "title": (published and published.title) or proposal.draft.title,
        "change": ChangeSize(change.files, change.added, change.deleted),
        "commands": tuple(map(build_notarized_finding, notary.commands if notary else ())),
        "reported": tuple(map(build_command_finding, proposal.commands)),
        "evidence": tuple(map(build_evidence_finding, proposal.checks)),
        "flags": tuple(map(build_flag_finding, proposal.findings)),
        "gates": proposal.gates,
        "notes": proposal.notes,
        "said": _collect_statements(proposal),
    }


def _collect_statements(proposal: Proposal) -> AgentStatements:
    draft, analysis = proposal.draft, proposal.analysis
    return AgentStatements(
        summary=draft.summary,
        reasoning=draft.reasoning or (analysis.selected.rationale if analysis.selected else ""),
        changes=draft.changes,
        selected=analysis.selected,
        candidates=tuple(sorted(analysis.candidates, key=lambda each: each.rank)),
        rejected_alternatives=draft.rejected_alternatives,
        checked=proposal.verdict.checked,
        doubts=proposal.verdict.doubts,
    )


def render_dotenv(result: RunResult) -> str:
    """``nightshift.env``, a dotenv report for later jobs."""
    # A value is one line: GitLab supports no others (its Ci::ParseDotenvArtifactService).
    cost = "" if result.total_cost_usd is None else f"{result.total_cost_usd:.4f}"
    variables = {
        "NIGHT_OUTCOME": result.outcome.value,
        "NIGHT_MR_URL": result.mr_url,
        "NIGHT_CATEGORY": result.category_used,
        "NIGHT_COST_USD": cost,
    }
    return "".join(f"{name}={format_line(value, 1000)}\n" for name, value in variables.items())


def describe_bead(bead: BeadResult) -> str:
    """The result of a bead in one line: its error, or what its hand-off says."""
    handoff = bead.handoff
    if isinstance(handoff, AnalysisResult):
        text = handoff.selected.description if handoff.selected else handoff.reason
    elif isinstance(handoff, Verdict):
        text = "passed" if handoff.passed else f"not passed: {handoff.error_details}"
    else:
        text = handoff.title if handoff else bead.error
    return format_line(text.strip().partition("\n")[0], 500)


# --- upkeep -------------------------------------------------------------------------------------


def read_upkeep_result(results: Path) -> UpkeepResult | None:
    """What this run did for an open merge request before new work; None if nothing."""
    bundle = read_if_valid(Bundle, results / UPKEEP / "bundle/bundle.json")
    if bundle is None:
        return None
    published = read_if_valid(Publication, results / UPKEEP / "published.json")
    last: Bundle | Publication = published or bundle
    return UpkeepResult(
        outcome=last.outcome,
        error_code=last.error_code,
        reason=last.reason,
        mr_url=published.mr_url if published else "",
        commit_sha=published.commit_sha if published else "",
        duration_s=bundle.duration_s,
    )
