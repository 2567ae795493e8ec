"""A given task, and the replies to whoever gave it: implement → proofs → verify → draft."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.bead_results import (
    AnalysisCandidate,
    AnalysisResult,
    Draft,
    ThreadAnswer,
)
from gitlab_nightshift.records.events import StepEnded
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.registry.categories import TASK
from gitlab_nightshift.stages.work.attempt import ProvenChange, format_step_key
from gitlab_nightshift.stages.work.draft_texts import (
    count_threads,
    format_answer_request,
    select_answers,
)
from gitlab_nightshift.stages.work.night import (
    ANSWERS,
    Night,
    WriteDraft,
    build_ending,
    build_stopped_ending,
    implement,
    propose_change,
    run_night_bead,
    write_draft,
)
from gitlab_nightshift.stages.work.night_ending import CategoryResult, Ending, take_first_line
from gitlab_nightshift.stages.work.run_budget import Stop
from gitlab_nightshift.stages.work.step_input import FailedAttempt


def _build_failed_task_ending(night: Night, stop: Stop, tried: Sequence[CategoryResult]) -> Ending:
    if tried:
        why = f"the task could not be done: {take_first_line(stop.reason)}"
        stop = Stop(Outcome.FAILED, why, stop.code)
    return build_stopped_ending(night, stop, tried)


@dataclass(frozen=True)
class TaskPolicy:
    """How a given task is done; the defaults are a night's.

    ``on_failure`` is called after each failed attempt, ``write_draft`` writes the texts of the
    merge request, and ``build_failed_ending`` builds the ending of a task that failed: because of a
    limit, or after the last of the attempts ``tried``.
    """

    on_failure: Callable[[Night, FailedAttempt], None] = lambda _night, _failed: None
    write_draft: WriteDraft = write_draft
    build_failed_ending: Callable[[Night, Stop, Sequence[CategoryResult]], Ending] = (
        _build_failed_task_ending
    )


NIGHT_POLICY = TaskPolicy()


def do_task(night: Night, policy: TaskPolicy = NIGHT_POLICY) -> Ending:
    """Do the given task without Analyze. A failure is an error: someone is waiting."""
    selected = AnalysisCandidate((), night.plan.task, rationale="Somebody asked for it.")
    analysis = AnalysisResult("IMPROVEMENT_FOUND", category_used=TASK, selected=selected)
    try:
        proven = implement(night, TASK, analysis, policy.on_failure)
        answers = _answer(night, analysis, proven) if isinstance(proven, FailedAttempt) else ()
    except Stop as stop:
        budget = Code.BUDGET if stop.code is None else stop.code
        return policy.build_failed_ending(night, Stop(Outcome.FAILED, stop.reason, budget), ())
    if answers:
        reason = "answered without a change"
        tried = [CategoryResult(TASK, reason)]
        ending = build_ending(night, Outcome.NO_IMPROVEMENT, reason, tried)
        return dataclasses.replace(ending, answers=answers)
    if isinstance(proven, ProvenChange):
        return propose_change(night, TASK, analysis, proven, [], policy.write_draft)
    failed = Stop(Outcome.FAILED, proven.why, proven.code)
    return policy.build_failed_ending(night, failed, [CategoryResult(TASK, proven.why)])


def _answer(
    night: Night, analysis: AnalysisResult, last: FailedAttempt
) -> tuple[ThreadAnswer, ...]:
    """The MR bead's answers if the ``last`` attempt changed nothing; () without any, or if no
    thread is waiting. Raises Stop."""
    request = night.plan.request
    if request is None or not last.unchanged:
        return ()
    sections = {ANSWERS: format_answer_request(request, last.last_words)}
    result = run_night_bead(night, "mr", TASK, 1, analysis, sections=sections)
    drafted = result.handoff.answers if isinstance(result.handoff, Draft) else ()
    answers = select_answers(drafted, request)
    count = f"{len(answers)} of {count_threads(request)} threads answered"
    night.emit(StepEnded(format_step_key("mr", TASK, 1), bool(answers), result.error or count))
    return answers
