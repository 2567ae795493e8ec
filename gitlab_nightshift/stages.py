"""The three stages put together: what ``plan``, ``work``, ``publish`` and ``run`` do."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.errors import Code, Interrupted, NightshiftError, config_error
from gitlab_nightshift.events import Note, RunEnded, RunStarted, StepEnded, StepStarted
from gitlab_nightshift.gitlab.project import Project, open_project
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.checkout import check_startable
from gitlab_nightshift.host.environment import NETWORK, allowed
from gitlab_nightshift.host.signals import shield
from gitlab_nightshift.plan.facts import CheckoutFacts, read_facts
from gitlab_nightshift.plan.stage import make_plan
from gitlab_nightshift.publish.desk import Desk, Source, read_source
from gitlab_nightshift.publish.fetch import fetch_bundle
from gitlab_nightshift.publish.merge_request import check_templates
from gitlab_nightshift.publish.stage import publish as do_publish
from gitlab_nightshift.records import (
    Bundle,
    Outcome,
    Plan,
    Published,
    RunResult,
    read_record,
    write_record,
)
from gitlab_nightshift.report.files import move_logs, named_logs, write_results
from gitlab_nightshift.report.result import run_result
from gitlab_nightshift.session import Session, product
from gitlab_nightshift.verdict.build_files import build_commands, default_allowed_commands
from gitlab_nightshift.work.access import MODEL_VARIABLES
from gitlab_nightshift.work.agents import provider_of
from gitlab_nightshift.work.stage import WorkPlace, prompts_preview
from gitlab_nightshift.work.stage import work as do_work

PUBLISH_NEEDS_S = 300.0
"""Seconds of the job that are kept back for publishing, at most a fifth of the job."""


def plan(session: Session) -> Plan:
    """The plan stage; writes ``plan.json``."""
    session.emit(StepStarted("plan", "Plan"))
    check_templates(session.settings)
    facts = facts_of(session)
    made = make_plan(session.settings, session.job, facts, project_of(session))
    write_record(session.results / "plan.json", made)
    for note in (*made.notes, *(f"not known: {text}" for text in made.unknown)):
        session.emit(Note(note))
    session.emit(StepEnded("plan", not made.skip, _plan_line(made)))
    return made


def _plan_line(made: Plan) -> str:
    if made.skip:
        return f"skip: {made.skip}"
    if not made.scheduled:
        return "No category scheduled for today"
    return f"{made.date}: {', then '.join(made.categories)}"


def preview(session: Session, made: Plan) -> dict[str, str]:
    """The prompts of a night as they would be sent."""
    return prompts_preview(_work_place(session), made)


def work(session: Session, made: Plan) -> Bundle:
    """The work stage; writes the bundle and the logs."""
    bundle = do_work(made, _work_place(session), session.results / "bundle")
    move_logs(session.logs, session.results / "logs", session.redact)
    bundle = named_logs(bundle, session.results)
    write_record(session.results / "bundle" / "bundle.json", bundle)
    return bundle


def publish(session: Session, folder: Path, source: Source, recent: frozenset[str]) -> Published:
    """The publish stage; writes ``published.json``. A failure is an outcome, the bundle stays.

    ``source`` and ``recent`` (files that are refused) were read before any agent ran.
    """
    session.emit(StepStarted("publish", "Publish"))
    try:
        published = do_publish(folder, _desk(session, source, recent))
    except (NightshiftError, Interrupted) as error:
        resume = f"nightshift publish {session.settings.output_dir}/bundle"
        stopped = f"stopped by a signal. Go on with: {resume}"
        reason = error.message if isinstance(error, NightshiftError) else stopped
        published = Published(session.job.run_id, Outcome.FAILED, reason, error.code.value)
    text = published.mr_url or published.reason
    session.emit(StepEnded("publish", not published.error_code, text))
    write_record(session.results / "published.json", published)
    return published


def source_of(session: Session) -> Source:
    """What publish needs of the checkout, the machine's git identity among it."""
    return read_source(session.machine_git, session.checkout)


def facts_of(session: Session) -> CheckoutFacts:
    """What plan and publish need to know of the checkout; a night can start from it."""
    check_startable(session.machine_git, session.checkout, session.settings.output_dir)
    return read_facts(session.git, session.checkout, session.settings, session.job)


def _desk(session: Session, source: Source, recent: frozenset[str]) -> Desk:
    job, token = session.job, session.secrets.gitlab_token
    return Desk(
        settings=session.settings,
        job=job,
        project=open_project(job.server_url, job.project_id, token),
        token=token,
        git=session.git,
        source=source,
        private=session.private,
        redact=session.redact,
        emit=session.emit,
        recent_files=recent,
        network={name: session.env[name] for name in NETWORK if session.env.get(name)},
    )


def publish_again(session: Session, given: str | None, from_job: str | None = None) -> RunResult:
    """Publish the bundle of an earlier stage or run; a dry run only reports it."""
    folder = _bundle_of(session, from_job) if from_job else product(session, given, "bundle")
    bundle = read_record(Bundle, folder / "bundle.json")
    if from_job:
        if bundle.run_id != session.job.run_id:
            raise NightshiftError(Code.PUBLISH, "not published: the bundle is another pipeline's")
        # Its logs stay where they are, in that job's artifacts.
        bundle = replace(bundle, beads=tuple(replace(bead, logs=()) for bead in bundle.beads))
    if session.settings.dry_run:
        return ended(session, bundle, None)
    if not session.secrets.gitlab_token:
        raise no_token()
    facts = facts_of(session)
    recent = frozenset(facts.recent_files if facts.recent_enforced else ())
    return ended(session, bundle, publish(session, folder, source_of(session), recent))


def _bundle_of(session: Session, name: str) -> Path:
    """The bundle of another job of this pipeline."""
    job, token = session.job, session.secrets.gitlab_token
    if not token:
        raise no_token()
    if not session.env.get("CI_PIPELINE_ID"):
        raise config_error("--from-job: works in a job of a GitLab pipeline only")
    folder = session.results / "bundle"
    project = open_project(job.server_url, job.project_id, token)
    fetch_bundle(project, job.run_id, name, f"{session.settings.output_dir}/bundle", folder)
    return folder


@dataclass
class _Done:
    """What a run has reached when it ends, or is stopped."""

    bundle: Bundle | None = None
    published: Published | None = None


def run(session: Session) -> RunResult:
    """The three stages in one job. Whatever stops it, the results are written."""
    done = _Done()
    started(session)
    try:
        _three_stages(session, done)
    except (NightshiftError, Interrupted) as error:
        done.bundle = _stopped(session, done.bundle, error)
    with shield():
        assert done.bundle is not None, "every way through the stages leaves a bundle"
        return ended(session, done.bundle, done.published)


def _three_stages(session: Session, done: _Done) -> None:
    """Without a token it stops before anything is spent, unless it is a dry run."""
    dry = session.settings.dry_run
    if not session.secrets.gitlab_token and not dry:
        raise no_token()
    made = plan(session)
    source = source_of(session)
    done.bundle = work(session, made)
    if done.bundle.outcome is Outcome.MR_READY and not done.bundle.error_code and not dry:
        recent = frozenset(made.recent_files if made.recent_files_enforced else ())
        done.published = publish(session, session.results / "bundle", source, recent)


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


def no_token() -> NightshiftError:
    """What to do where there is no token."""
    return config_error(
        "GITLAB_TOKEN is not set: add it as a masked CI variable (a project access token with the "
        "role Developer and the scopes api and write_repository); --dry-run works without"
    )


def ended(session: Session, bundle: Bundle, published: Published | None) -> RunResult:
    """Write what the run leaves, and say the last line."""
    result = run_result(bundle, published)
    write_results(session.results, result, bundle, session.redact)
    session.emit(RunEnded(result))
    return result


def started(session: Session) -> None:
    """Say what will be done, where and within which limits."""
    settings = session.settings
    seconds = work_seconds(session, datetime.now(UTC))
    time_left = "no deadline" if seconds is None else f"{seconds / 60:.0f} min for the work"
    facts = (
        f"agent {provider_of(settings).name}, isolation {settings.isolation}",
        f"budget ${settings.max_budget_usd:g}, {time_left}, "
        f"at most {settings.max_diff_lines} changed lines",
    )
    session.emit(RunStarted(session.job.project_path or str(session.checkout), facts))


def read_plan(session: Session, file: str | None) -> Plan:
    """The plan of an earlier stage."""
    return read_record(Plan, product(session, file, "plan.json"))


def project_of(session: Session) -> Project | None:
    """GitLab's project with the token's rights checked; None without a token."""
    token, job = session.secrets.gitlab_token, session.job
    if not token:
        return None
    if not job.server_url or not job.project_id:
        raise config_error("which project? Outside CI set repo_url to its web address")
    project = open_project(job.server_url, job.project_id, token)
    project.access()
    return project


def _work_place(session: Session) -> WorkPlace:
    settings = session.settings
    files = git_verbs.tracked_files(session.git, session.checkout)
    base = git_verbs.head(session.git, session.checkout)

    def read(name: str) -> bytes | None:
        return git_verbs.read_file(session.git, session.checkout, base, name)

    build = build_commands(files, read)
    default = default_allowed_commands(files, read)
    commands = settings.allowed_commands if settings.allowed_commands is not None else default
    model = (*provider_of(settings).keys, *MODEL_VARIABLES, *NETWORK, *settings.agent_env)
    return WorkPlace(
        settings=settings,
        job=session.job,
        env=allowed(session.env, settings.agent_env),
        model_env={name: session.env[name] for name in model if session.env.get(name)},
        checkout=session.checkout,
        config_folder=session.config_folder,
        home=Path(session.env.get("HOME", "/")),
        private=session.private,
        logs=session.logs,
        allowed_commands=tuple(commands),
        build_commands=tuple(name for name in commands if name in build),
        seconds=work_seconds(session, datetime.now(UTC)),
        redact=session.redact,
        emit=session.emit,
    )


def work_seconds(session: Session, now: datetime) -> float | None:
    """Seconds that the work may take: what is left of the job, less what publish needs."""
    settings, job = session.settings, session.job
    if settings.run_timeout is not None or job.job_timeout_s is None:
        return settings.run_timeout
    try:
        used = (now - datetime.fromisoformat(job.job_started_at)).total_seconds()
    except (ValueError, TypeError):
        used = 0.0
    reserve = min(PUBLISH_NEEDS_S, job.job_timeout_s / 5)
    return max(job.job_timeout_s - max(used, 0.0) - reserve, 1.0)
