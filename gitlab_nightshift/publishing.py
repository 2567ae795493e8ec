"""The publish stage as a session runs it: at the end of a run, or from an earlier job's bundle."""

from dataclasses import replace
from pathlib import Path

from gitlab_nightshift.errors import Code, Interrupted, NightshiftError, config_error
from gitlab_nightshift.events import GateApproved, RunEnded, StepEnded, StepStarted
from gitlab_nightshift.gitlab.project import open_project
from gitlab_nightshift.host.checkout import refuse_changed
from gitlab_nightshift.host.environment import NETWORK
from gitlab_nightshift.host.space import told_where_full
from gitlab_nightshift.plan.facts import CheckoutFacts, read_facts
from gitlab_nightshift.plan.trigger import Declined, Ignored
from gitlab_nightshift.publish.approval import approver
from gitlab_nightshift.publish.desk import Desk, Source, read_source
from gitlab_nightshift.publish.fetch import fetch_bundle
from gitlab_nightshift.publish.stage import publish as do_publish
from gitlab_nightshift.records import (
    Bundle,
    Outcome,
    Published,
    Request,
    RunResult,
    read_record,
    write_record,
)
from gitlab_nightshift.report.files import write_results
from gitlab_nightshift.report.result import run_result
from gitlab_nightshift.session import Session, product
from gitlab_nightshift.triggered import Start, start, taken_up, tell_ended


def publish(
    session: Session,
    folder: Path,
    source: Source,
    recent: frozenset[str],
    approved_by: str = "",
    request: Request | None = None,
) -> Published:
    """The publish stage; writes ``published.json``. A failure is an outcome, the bundle stays.

    ``source`` and ``recent`` (files that are refused) were read before any agent ran;
    ``approved_by`` is the login of who has approved it, "" where nobody has, ``request`` the
    comment that asked for it.
    """
    session.emit(StepStarted("publish", "Publish"))
    try:
        desk = replace(_desk(session, source, recent), approved_by=approved_by, request=request)
        published = do_publish(folder, desk)
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
    refuse_changed(session.machine_git, session.checkout)
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


def publish_again(
    session: Session, given: str | None, from_job: str | None = None, *, approved: bool = False
) -> RunResult:
    """Publish the bundle of an earlier stage or run; a dry run only reports it.

    ``approved`` says that a person has started this job to approve it, which is checked first.
    """
    approved_by = _approver(session) if approved else ""
    folder = _bundle_of(session, from_job) if from_job else product(session, given, "bundle")
    bundle = read_record(Bundle, folder / "bundle.json")
    if from_job:
        if bundle.run_id != session.job.run_id:
            raise NightshiftError(Code.PUBLISH, "not published: the bundle is another pipeline's")
        # Its logs stay where they are, in that job's artifacts.
        bundle = replace(bundle, beads=tuple(replace(bead, logs=()) for bead in bundle.beads))
    begun = start(session) if session.job.trigger_payload else Start()
    if why := _not_for(bundle, begun):
        return ended(session, replace(bundle, outcome=Outcome.SKIPPED, reason=why), None)
    with taken_up(session, begun.request) as there:
        dry = there.settings.dry_run
        published = None if dry else _now(there, folder, approved_by, begun.request)
    return ended(session, bundle, published, begun.request)


def _not_for(bundle: Bundle, begun: Start) -> str:
    """Why the comment that triggered this pipeline leaves nothing to publish; "" where it does."""
    if isinstance(begun.heard, Declined | Ignored):
        return begun.heard.why
    moved = begun.request and begun.request.head and begun.request.head != bundle.base_sha
    return "the branch of the merge request has moved since" if moved else ""


def _now(session: Session, folder: Path, approved_by: str, request: Request | None) -> Published:
    if not session.secrets.gitlab_token:
        raise no_token()
    facts = facts_of(session)
    recent = frozenset(facts.recent_files if facts.recent_enforced else ())
    return publish(session, folder, source_of(session), recent, approved_by, request)


def _approver(session: Session) -> str:
    job, token = session.job, session.secrets.gitlab_token
    if not token:
        raise no_token()
    login = approver(open_project(job.server_url, job.project_id, token), job)
    session.emit(GateApproved("write", f"{login}, who started this job"))
    return login


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


def no_token() -> NightshiftError:
    """What to do where there is no token."""
    return config_error(
        "GITLAB_TOKEN is not set: add it as a masked CI variable (a project access token with the "
        "role Developer and the scopes api and write_repository); --dry-run works without"
    )


def ended(
    session: Session, bundle: Bundle, published: Published | None, request: Request | None = None
) -> RunResult:
    """Write what the run leaves, answer who asked for it, and say the last line."""
    result = run_result(bundle, published)
    session.logs.reserve.release()
    try:
        with told_where_full(session.results):
            write_results(session.results, result, bundle, session.redact)
    finally:
        tell_ended(session, request, result, bundle, published)
        session.emit(RunEnded(result))
    return result
