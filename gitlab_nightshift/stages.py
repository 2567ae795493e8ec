"""The three stages put together: what ``plan``, ``work``, ``publish`` and ``run`` do."""

import traceback
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gitlab_nightshift.errors import Code, Interrupted, NightshiftError
from gitlab_nightshift.events import (
    Note,
    RunStarted,
    StepEnded,
    StepStarted,
)
from gitlab_nightshift.host.sandbox.system import Look, look_ahead
from gitlab_nightshift.host.signals import shield
from gitlab_nightshift.host.space import is_full_disk, no_space
from gitlab_nightshift.plan.facts import CheckoutFacts
from gitlab_nightshift.plan.stage import make_plan
from gitlab_nightshift.policy.night import closed_gates
from gitlab_nightshift.publish.merge_request import check_templates
from gitlab_nightshift.publishing import ended, facts_of, no_token, publish, source_of
from gitlab_nightshift.records import (
    Bundle,
    Outcome,
    Plan,
    Published,
    Request,
    RunResult,
    read_record,
    write_record,
)
from gitlab_nightshift.report.files import move_logs
from gitlab_nightshift.session import Session, product
from gitlab_nightshift.triggered import (
    Start,
    planned,
    start,
    taken_up,
    tell_taken_up,
)
from gitlab_nightshift.work.agents import chosen, provider_of
from gitlab_nightshift.work.baseline import NOTHING_TO_RUN, Commands
from gitlab_nightshift.work.bounds import check_bounds
from gitlab_nightshift.work.stage import prompts_preview
from gitlab_nightshift.work.stage import work as do_work
from gitlab_nightshift.work_place import verify_commands, work_place, work_seconds


@dataclass(frozen=True)
class _Begun:
    """What is known before the plan: the checkout, and what GitLab says."""

    facts: CheckoutFacts
    start: Start


def _begin(session: Session) -> _Begun:
    """What can be known without GitLab comes first."""
    session.emit(StepStarted("plan", "Plan"))
    check_templates(session.settings)
    settings = chosen(session.settings, session.env).settings
    check_bounds(settings, provider_of(settings), session.env)
    facts = facts_of(session)
    return _Begun(facts, start(session))


def plan(session: Session) -> Plan:
    """The plan stage; writes ``plan.json``."""
    begun = _begin(session)
    with taken_up(session, begun.start.request) as there:
        return _plan(there, begun)


def _plan(session: Session, begun: _Begun) -> Plan:
    request, heard = begun.start.request, begun.start.heard
    facts = facts_of(session) if request and request.head else begun.facts
    verify = verify_commands(session, request)
    made = make_plan(session.settings, session.job, facts, begun.start.project, verify.commands)
    made = planned(made, heard)
    write_record(session.results / "plan.json", made)
    for text in closed_gates(session.settings):
        session.emit(Note(text, warning=True))
    for note in (*made.notes, *(f"not known: {text}" for text in made.unknown)):
        session.emit(Note(note))
    session.emit(Note(f"  proven by: {_proven_by(verify)}"))
    session.emit(StepEnded("plan", not made.skip, _plan_line(made)))
    tell_taken_up(session, made, heard)
    return made


def _proven_by(verify: Commands) -> str:
    source = "the build files; verify_commands is empty" if verify.implied else "verify_commands"
    return f"{', '.join(verify.commands)} ({source})" if verify.commands else NOTHING_TO_RUN


def _plan_line(made: Plan) -> str:
    if made.skip:
        return f"skip: {made.skip}"
    if not made.scheduled:
        return "No category scheduled for today"
    return f"{made.date}: {', then '.join(made.categories)}"


def preview(session: Session, made: Plan) -> dict[str, str]:
    """The prompts of a night as they would be sent."""
    return prompts_preview(work_place(session), made)


def work(session: Session, made: Plan, look: Look | None = None) -> Bundle:
    """The work stage; writes the bundle and the logs."""
    with taken_up(session, made.request) as there:
        place = work_place(there, made.request, look)
        bundle = do_work(made, place, session.results / "bundle")
    move_logs(session.logs.folder, session.results / "logs")
    return bundle


@dataclass
class _Done:
    """What a run has reached when it ends, or is stopped."""

    bundle: Bundle | None = None
    published: Published | None = None
    request: Request | None = None


def run(session: Session) -> RunResult:
    """The three stages in one job. Whatever stops it, the results are written."""
    done = _Done()
    started(session)
    try:
        _three_stages(session, done)
    except (NightshiftError, Interrupted) as error:
        done.bundle = _stopped(session, done.bundle, error)
    except Exception as error:
        done.bundle = _stopped(session, done.bundle, _failure(session, error))
    with shield():
        assert done.bundle is not None, "every way through the stages leaves a bundle"
        return ended(session, done.bundle, done.published, done.request)


def _three_stages(session: Session, done: _Done) -> None:
    """Without a token it stops before anything is spent, unless it is a dry run."""
    if not session.secrets.gitlab_token and not session.settings.dry_run:
        raise no_token()
    look = look_ahead(session.own_places) if session.settings.isolation != "none" else None
    begun = _begin(session)
    done.request = begun.start.request
    with taken_up(session, done.request) as there:
        made = _plan(there, begun)
        source = source_of(there)
        done.bundle = work(there, made, look)
        ready = done.bundle.outcome is Outcome.MR_READY and not done.bundle.error_code
        if ready and not there.settings.dry_run:
            recent = frozenset(made.recent_files if made.recent_files_enforced else ())
            folder = there.results / "bundle"
            done.published = publish(there, folder, source, recent, request=made.request)


def _failure(session: Session, error: Exception) -> NightshiftError:
    """What the run ends with where a step outside of the work stage fails unexpectedly."""
    if is_full_disk(error):
        return no_space(session.private, session.checkout)
    session.logs.write("traceback.txt", traceback.format_exc())
    move_logs(session.logs.folder, session.results / "logs")
    text = f"a defect of nightshift: {type(error).__name__}; see logs/traceback.txt"
    return NightshiftError(Code.INTERNAL, text)


def _stopped(
    session: Session, bundle: Bundle | None, error: NightshiftError | Interrupted
) -> Bundle:
    """A bundle for a run that ended between its stages; one that is there keeps its change."""
    reason = error.message if isinstance(error, NightshiftError) else "stopped by a signal"
    if bundle:
        return replace(bundle, reason=reason, error_code=error.code.value)
    made = Bundle(
        run_id=session.job.run_id,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        base_sha=session.job.commit_sha,
        target_branch=session.settings.target_branch or session.job.default_branch,
        outcome=Outcome.FAILED,
        reason=reason,
        error_code=error.code.value,
    )
    folder = session.results / "bundle"
    folder.mkdir(exist_ok=True)
    write_record(folder / "bundle.json", made)
    return made


def started(session: Session) -> None:
    """Say what will be done, where and within which limits."""
    settings = session.settings
    seconds = work_seconds(session, datetime.now(UTC))
    time_left = "no deadline" if seconds is None else f"{seconds / 60:.0f} min for the work"
    facts = (
        f"agent {chosen(settings, session.env)}, isolation {settings.isolation}",
        f"budget ${settings.max_budget_usd:g}, {time_left}, "
        f"at most {settings.max_diff_lines} changed lines",
    )
    session.emit(RunStarted(session.job.project_path or str(session.checkout), facts))


def read_plan(session: Session, file: str | None) -> Plan:
    """The plan of an earlier stage."""
    return read_record(Plan, product(session, file, "plan.json"))
