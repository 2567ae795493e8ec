"""The night: for each category analyze → (implement → verify) × n → draft, as contract §3 says.

What a step returns is a record; only the end of the whole run (:class:`Stop`) is an exception.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass

from gitlab_nightshift.errors import Code, Interrupted, NightshiftError
from gitlab_nightshift.events import Emit, Note, StepEnded, StepStarted
from gitlab_nightshift.guidance import TASK
from gitlab_nightshift.host.checkout import Checkout
from gitlab_nightshift.policy import to_approve
from gitlab_nightshift.records import (
    AnalysisCandidate,
    AnalysisResult,
    BeadResult,
    BeadStatus,
    Draft,
    Outcome,
    Plan,
    Proposal,
)
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.work.attempt import Bad, Good, step_key, try_change
from gitlab_nightshift.work.bead import Bench, run_bead
from gitlab_nightshift.work.context import bead_values
from gitlab_nightshift.work.draft import draft_from_analysis
from gitlab_nightshift.work.ending import Ending, Tried, first_line, used
from gitlab_nightshift.work.ledger import Stop
from gitlab_nightshift.work.proving import Proof
from gitlab_nightshift.work.recording import Recorder

_BROKEN = {BeadStatus.CRASHED, BeadStatus.BAD_OUTPUT, BeadStatus.IDLE}
_TITLES = {"analyze": "Analyze", "implement": "Implement", "verify": "Verify", "mr": "MR"}


@dataclass(frozen=True)
class Night:
    """All that a night needs; nothing in it changes but the checkout and the bench's ledger."""

    plan: Plan
    settings: Settings
    bench: Bench
    checkout: Checkout
    proof: Proof
    values: Mapping[str, str]
    recorder: Recorder

    @property
    def emit(self) -> Emit:
        """Where events go."""
        return self.bench.emit


def run_night(night: Night) -> Ending:
    """Try the plan's categories in order until one leads to a proposal; or do the given task."""
    return _do_task(night) if night.plan.task else _try_categories(night)


def _do_task(night: Night) -> Ending:
    """Nobody has to look for it; somebody waits for it, so that a failure is one."""
    selected = AnalysisCandidate((), night.plan.task, rationale="Somebody asked for it.")
    analysis = AnalysisResult("IMPROVEMENT_FOUND", category_used=TASK, selected=selected)
    try:
        good = _implement(night, TASK, analysis)
    except Stop as stop:
        budget = Code.BUDGET if stop.code is None else stop.code
        return _stopped(night, Stop(Outcome.FAILED, stop.reason, budget), [], 0)
    if isinstance(good, Good):
        return _proposed(night, TASK, analysis, good, [], 0)
    why = f"the task could not be done: {first_line(good.why)}"
    return _stopped(night, Stop(Outcome.FAILED, why, good.code), [Tried(TASK, good.why)], 0)


def _try_categories(night: Night) -> Ending:
    tried: list[Tried] = []
    scanned = 0
    try:
        for category in night.plan.categories:
            result, analysis = _analyze(night, category)
            scanned += analysis.files_scanned if analysis else 0
            if analysis is None or analysis.result == "NO_IMPROVEMENT":
                tried.append(_not_found(result, analysis))
                continue
            good = _implement(night, category, analysis)
            if isinstance(good, Good):
                return _proposed(night, category, analysis, good, tried, scanned)
            tried.append(Tried(category, f"verify failed after retries: {first_line(good.why)}"))
    except Stop as stop:
        return _stopped(night, stop, tried, scanned)
    return _exhausted(night, tried, scanned)


# --- the four beads ---------------------------------------------------------------------------


def _analyze(night: Night, category: str) -> tuple[BeadResult, AnalysisResult | None]:
    result = _bead(night, "analyze", category)
    key = step_key("analyze", category, 1)
    night.checkout.put_back()
    analysis = result.handoff if isinstance(result.handoff, AnalysisResult) else None
    if analysis is not None and analysis.result == "IMPROVEMENT_FOUND":
        assert analysis.selected is not None
        night.emit(StepEnded(key, True, analysis.selected.description))
    else:
        night.emit(StepEnded(key, False, _not_found(result, analysis).why))
    return result, analysis


def _implement(night: Night, category: str, analysis: AnalysisResult) -> Good | Bad:
    """Up to 1 + ``max_implement_retries`` attempts; the next gets the last one's error.

    After a good one the checkout is left as it is: ``_draft`` puts it back.
    """
    last: Bad = Bad("")
    for attempt in range(1, night.settings.max_implement_retries + 2):

        def bead(name: str, number: int = attempt, error: str = last.why) -> BeadResult:
            return _bead(night, name, category, number, analysis, error)

        outcome = try_change(night.checkout, night.proof, analysis, bead, night.recorder)
        if isinstance(outcome, Good):
            return outcome
        night.checkout.put_back()
        last = outcome
    return last


def _draft(night: Night, category: str, analysis: AnalysisResult, good: Good) -> Draft:
    """The MR bead's texts; whatever happens to it, the verified change keeps a draft.

    It is the last bead: the checkout is put back when it is closed.
    """
    key = step_key("mr", category, 1)
    night.checkout.lay(good.captured)
    try:
        result = _bead(night, "mr", category, 1, analysis)
        draft, why = result.handoff, result.error
    except Stop as stop:
        draft, why = None, stop.reason
    except NightshiftError as error:
        if error.code is not Code.CONFIG:  # such as a process that could not be ended
            raise
        draft, why = None, error.message
    if isinstance(draft, Draft):
        night.emit(StepEnded(key, True, draft.title))
        return draft
    night.emit(StepEnded(key, False, f"{why}; the texts are made from the analysis"))
    return draft_from_analysis(analysis)


def _bead(
    night: Night,
    bead: str,
    category: str,
    attempt: int = 1,
    analysis: AnalysisResult | None = None,
    verify_error: str = "",
) -> BeadResult:
    night.emit(
        StepStarted(step_key(bead, category, attempt), _step_title(night, bead, category, attempt))
    )
    told = night.plan.recent_files_enforced or bead == "analyze"
    values = bead_values(
        night.values if told else {**night.values, "recent_files": ""},
        night.settings,
        category,
        left_s=night.bench.ledger.left_s(),
        analysis=analysis,
        verify_error=verify_error,
        context=night.plan.request.context if night.plan.request else "",
    )
    text = json.dumps(dataclasses.asdict(analysis), indent=2) if analysis else ""
    return run_bead(night.bench, bead, category, attempt, values, text)


def _step_title(night: Night, bead: str, category: str, attempt: int) -> str:
    again = f" · attempt {attempt}" if bead in {"implement", "verify"} else ""
    return f"{_TITLES[bead]} · {category}{again} · {getattr(night.settings.models, bead)}"


# --- endings ----------------------------------------------------------------------------------


def _proposed(
    night: Night,
    category: str,
    analysis: AnalysisResult,
    good: Good,
    tried: list[Tried],
    scanned: int,
) -> Ending:
    needed = to_approve(good.gates)
    reason, stopped = "a verified change is ready to publish", ""
    if needed:
        reason += f", once it is approved: {needed}"
    try:
        draft = _draft(night, category, analysis, good)
    except Interrupted as stop:
        draft = draft_from_analysis(analysis)
        reason, stopped = "stopped by a signal; the verified change is kept", stop.code.value
    fallback = category != night.plan.scheduled
    proposal = Proposal(
        change=good.captured.summary(),
        category=category,
        is_fallback=fallback,
        analysis=analysis,
        draft=draft,
        verdict=good.verdict,
        commands=good.seen.commands,
        notes=good.seen.notes,
        checks=good.seen.checks,
        findings=good.told,
        gates=good.gates,
    )
    return Ending(
        outcome=Outcome.MR_READY,
        reason=reason,
        category_used=used(category, night.plan.scheduled),
        is_fallback=fallback,
        files_scanned=scanned,
        summary=_summary(night, [*tried, Tried(category, draft.title)], scanned),
        error_code=stopped,
        proposal=proposal,
        captured=good.captured,
    )


def _exhausted(night: Night, tried: list[Tried], scanned: int) -> Ending:
    if why := _broken(night.bench.ledger.results):
        return _stopped(night, Stop(Outcome.FAILED, why, Code.PROVIDER_UNAVAILABLE), tried, scanned)
    results = night.bench.ledger.results
    full = [result for result in results if result.status is BeadStatus.DISK_FULL]
    if results and len(full) == len(results):
        why = f"in every bead ({len(full)}) {full[-1].error}"
        return _stopped(night, Stop(Outcome.FAILED, why, Code.CONFIG), tried, scanned)
    reason = f"All categories exhausted. {len(tried)} tried, none led to a verified change."
    return Ending(
        outcome=Outcome.NO_IMPROVEMENT,
        reason=reason,
        category_used=night.plan.scheduled,
        files_scanned=scanned,
        summary=_summary(night, tried, scanned),
    )


def _broken(results: list[BeadResult]) -> str:
    """Why the agent's CLI is of no use: not one bead came to an end; "" where it is."""
    if not results or any(result.status not in _BROKEN for result in results):
        return ""
    said = first_line(results[-1].error)
    return f"the agent's CLI failed in every bead ({len(results)}), last: {said}"


def _stopped(night: Night, stop: Stop, tried: list[Tried], scanned: int) -> Ending:
    night.emit(Note(stop.reason, warning=stop.code is not None))
    return Ending(
        outcome=stop.outcome,
        reason=stop.reason,
        category_used=night.plan.scheduled,
        files_scanned=scanned,
        summary=_summary(night, tried, scanned),
        error_code=stop.code.value if stop.code else "",
    )


def _summary(night: Night, tried: list[Tried], scanned: int) -> str:
    left_out = [f"{row.category}: left out: {row.reason}" for row in night.plan.left_out]
    return "\n".join([f"{scanned} files scanned", *(str(row) for row in tried), *left_out])


def _not_found(result: BeadResult, analysis: AnalysisResult | None) -> Tried:
    if analysis is None:
        return Tried(
            result.category, f"analysis failed: {result.status}: {first_line(result.error)}"
        )
    return Tried(
        result.category, f"no improvement: {first_line(analysis.reason) or 'no reason given'}"
    )
