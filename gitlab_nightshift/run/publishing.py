"""The publish stage of a session: at the end of a run, or for an earlier job's bundle."""

import contextlib
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.errors import (
    STOPPED_BY_SIGNAL,
    Code,
    Interruption,
    NightshiftError,
    build_config_error,
)
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.project import open_project
from gitlab_nightshift.records.events import GateApproved, Note, RunEnded, StepEnded, StepStarted
from gitlab_nightshift.records.notary_records import NOTARY, BundleOrigin, NotaryRecord
from gitlab_nightshift.records.products import Bundle, Outcome, Plan, Publication
from gitlab_nightshift.records.request import TaskRequest
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import UPKEEP, read_if_valid, read_record, write_record
from gitlab_nightshift.repository.changed_files import refuse_changed
from gitlab_nightshift.repository.disk_space import report_full_disk
from gitlab_nightshift.run.comment_runs import (
    TriggerContext,
    find_started_upkeep,
    open_request_session,
    read_trigger_context,
    reply_failed,
    reply_result,
)
from gitlab_nightshift.run.dashboard_runs import find_ticking_approver, update_dashboard
from gitlab_nightshift.run.session_opening import locate_product
from gitlab_nightshift.session import Session
from gitlab_nightshift.stages.plan.comment_request import DeclinedRequest, IgnoredTrigger
from gitlab_nightshift.stages.plan.plan_stage import CheckoutFacts, read_facts
from gitlab_nightshift.stages.publish.approval import find_approver
from gitlab_nightshift.stages.publish.bundle_check import refuse_unknown_category
from gitlab_nightshift.stages.publish.bundle_download import (
    decode_notary,
    download_bundle,
    download_newest_bundle,
    fetch_notary,
    refuse_foreign_notary,
)
from gitlab_nightshift.stages.publish.publish_context import (
    PublishContext,
    SourceCheckout,
    describe_resume,
    read_source,
)
from gitlab_nightshift.stages.report.report_files import build_report_url, read_patch, write_results
from gitlab_nightshift.stages.report.run_result import build_run_result, read_upkeep_result


def publish(
    session: Session,
    folder: Path,
    source: SourceCheckout,
    recent: frozenset[str],
    notary: NotaryRecord | None,
    approved_by: str = "",
    request: TaskRequest | None = None,
) -> Publication:
    """Run the publish stage, and write ``published.json``. A failure becomes an outcome; the bundle
    stays.

    ``source`` and ``recent`` (files that may not be changed) were read before any agent ran.
    ``notary`` is the notary's record, None if only the job that ran the agents vouches for the
    change. ``approved_by`` is the approver's login, "" without one; ``request`` the comment that
    asked for the change.
    """
    # Imported late: plan uses this module, but publishes nothing.
    from gitlab_nightshift.stages.publish.publish_stage import publish as publish_bundle

    session.emit(StepStarted("publish", "Publish"))
    try:
        context = PublishContext(
            session,
            session.open_project(),
            source,
            recent,
            approved_by=approved_by,
            request=request,
            notary=notary,
        )
        published = publish_bundle(folder, context)
    except (NightshiftError, Interruption) as error:
        published = _build_failed_publication(session, error)
    text = published.mr_url or published.reason
    session.emit(StepEnded("publish", not published.error_code, text))
    write_record(session.results / "published.json", published)
    return published


def _build_failed_publication(
    session: Session, error: NightshiftError | Interruption
) -> Publication:
    if isinstance(error, NightshiftError):
        reason = error.message
    else:
        reason = f"{STOPPED_BY_SIGNAL}. Go on with: {describe_resume(session)}"
    # A change whose commands the notary could not run has not failed: it waits for another try.
    outcome = Outcome.MR_READY if error.code is Code.INCOMPLETE else Outcome.FAILED
    return Publication(session.job.run_id, outcome, reason, error.code.value)


def read_checkout_facts(session: Session) -> CheckoutFacts:
    """The facts of the checkout. Raises NightshiftError if it has uncommitted changes."""
    refuse_changed(session.machine_git, session.checkout)
    return read_facts(session.known_checkout, session.settings, session.job)


def publish_existing(
    session: Session, origin: BundleOrigin, *, approved: bool = False
) -> RunResult:
    """Publish the bundle that another job, an earlier stage or an earlier run made; a dry run only
    reports it.

    ``approved``: a person started this job to approve the bundle, whose rights are checked first.
    """
    approved_by = _check_approver(session) if approved else ""
    folder = _find_bundle(session, origin)
    bundle = read_record(Bundle, folder / "bundle.json")
    refuse_unknown_category(bundle, session.settings)
    if origin.job:
        if bundle.run_id != session.job.run_id:
            raise NightshiftError(Code.PUBLISH, "not published: the bundle is another pipeline's")
        # The logs stay in that job's artifacts.
        bundle = replace(bundle, beads=tuple(replace(bead, logs=()) for bead in bundle.beads))
    _publish_upkeep(session, folder, bundle, origin, approved_by)
    trigger = TriggerContext()
    if session.job.trigger_payload:
        trigger = read_trigger_context(session)
    if why := _find_skip_reason(bundle, trigger):
        skipped = replace(bundle, outcome=Outcome.SKIPPED, reason=why)
        return finish_run(session, folder, skipped, None)
    with open_request_session(session, trigger.request) as current:
        published = None
        if not current.settings.dry_run:
            published = _publish_bundle(
                current, folder, bundle, origin, approved_by, trigger.request
            )
    return finish_run(session, folder, bundle, published, trigger.request)


def _find_bundle(session: Session, origin: BundleOrigin) -> Path:
    """The folder of the bundle, downloaded if another job made it. If that left none, the night is
    reported before the error is raised."""
    if not origin.job:
        return locate_product(session, origin.given, "bundle")
    try:
        return _fetch_job_bundle(session, origin.job)
    except NightshiftError as error:
        if error.code is Code.PUBLISH:
            _report_missing_bundle(session, origin.job, error)
        raise


def _publish_upkeep(
    session: Session, night_folder: Path, bundle: Bundle, origin: BundleOrigin, approved_by: str
) -> None:
    """Publish the upkeep of the same run, if there is one. A failure is only a warning: the night's
    own change is published anyway."""
    upkeep_session = replace(session, results=session.results / UPKEEP)
    try:
        folder = _find_upkeep_bundle(upkeep_session, night_folder, origin.job)
        upkeep = read_record(Bundle, folder / "bundle.json") if folder else None
        if folder and upkeep and upkeep.run_id == bundle.run_id:
            _publish_upkeep_commit(session, upkeep_session, folder, upkeep, origin, approved_by)
    except NightshiftError as error:
        session.emit(Note(f"upkeep is not published: {error.message}", warning=True))


def _find_upkeep_bundle(session: Session, night_folder: Path, from_job: str | None) -> Path | None:
    """Copy the upkeep's bundle into the session's results: from beside the night's bundle, or by
    GitLab's API from the job that made both. None if there is none."""
    if from_job is None:
        folder = night_folder.parent / UPKEEP / "bundle"
        if not folder.exists():
            return None
        _place_bundle(folder, session.results)
        return session.results / "bundle"
    try:
        return _fetch_job_bundle(session, from_job, f"{UPKEEP}/bundle")
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def _publish_upkeep_commit(
    session: Session,
    upkeep_session: Session,
    folder: Path,
    bundle: Bundle,
    origin: BundleOrigin,
    approved_by: str,
) -> None:
    """Publish the upkeep's commit, and reply; ``upkeep_session`` has the folder for its results."""
    trigger = find_started_upkeep(session, bundle)
    if trigger.request is None:
        raise NightshiftError(Code.PUBLISH, "this run has not started one")
    published = None
    if why := _find_skip_reason(bundle, trigger):
        bundle = replace(bundle, outcome=Outcome.SKIPPED, reason=why)
    else:
        with open_request_session(session, trigger.request) as current:
            if not current.settings.dry_run:
                target = replace(current, results=upkeep_session.results)
                published = _publish_bundle(
                    target, folder, bundle, origin, approved_by, trigger.request
                )
    notary = read_if_valid(NotaryRecord, upkeep_session.results / NOTARY)
    result = build_run_result(bundle, published, notary=notary)
    reply_result(session, trigger.request, result, bundle, published, read_patch(folder))


def build_failed_bundle(session: Session, error: NightshiftError | Interruption) -> Bundle:
    """The bundle of a run that failed before its work, or lost its bundle."""
    return Bundle(
        run_id=session.job.run_id,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        base_sha=session.job.commit_sha,
        target_branch=session.settings.target_branch or session.job.default_branch,
        outcome=Outcome.FAILED,
        reason=error.message if isinstance(error, NightshiftError) else STOPPED_BY_SIGNAL,
        error_code=error.code.value,
    )


def _report_missing_bundle(session: Session, job: str, error: NightshiftError) -> None:
    """Report a night without a bundle: its work job failed early, or has not started."""
    why = f"the job {job} left nothing that can be published: {error.message}"
    bundle = replace(build_failed_bundle(session, error), reason=why)
    finish_run(session, session.results / "bundle", bundle, None)
    reply_failed(session, bundle)


def _find_skip_reason(bundle: Bundle, trigger: TriggerContext) -> str:
    """Why the comment that triggered this pipeline does not allow publishing; "" if it does."""
    if isinstance(trigger.comment, DeclinedRequest | IgnoredTrigger):
        return trigger.comment.why
    request = trigger.request
    has_moved = request and request.head and request.head != bundle.base_sha
    return "the branch of the merge request has moved in the meantime" if has_moved else ""


def _publish_bundle(
    session: Session,
    folder: Path,
    bundle: Bundle,
    origin: BundleOrigin,
    approved_by: str,
    request: TaskRequest | None,
) -> Publication:
    if not session.secrets.gitlab_token:
        raise build_missing_token_error()
    notary = _find_notary(session, folder, bundle, origin)
    facts = read_checkout_facts(session)
    recent = frozenset(facts.recent_files if facts.recent_files_enforced else ())
    source = read_source(session.known_checkout)
    return publish(session, folder, source, recent, notary, approved_by, request)


def _find_notary(
    session: Session, folder: Path, bundle: Bundle, origin: BundleOrigin
) -> NotaryRecord | None:
    """The notary's record of the bundle. A downloaded one is written to this job's results. None if
    the bundle proposes nothing, or if no separate job ran the notary. Raises ``E_PUBLISH`` if the
    job that ran the agents left a record."""
    if bundle.outcome is not Outcome.MR_READY:
        return None
    file = folder.parent / NOTARY
    if not origin.job:
        return decode_notary(file.read_bytes(), str(file)) if file.exists() else None
    output_dir = session.settings.output_dir
    if session.results.name == UPKEEP:
        output_dir = f"{output_dir}/{UPKEEP}"
    project, pipeline = session.open_project(), session.job.run_id
    if not origin.notary_job:
        refuse_foreign_notary(project, pipeline, origin.job, output_dir)
        return None
    record = fetch_notary(project, pipeline, origin.notary_job, output_dir, origin.job)
    write_record(session.results / NOTARY, record)
    return record


def _check_approver(session: Session) -> str:
    if not session.secrets.gitlab_token:
        raise build_missing_token_error()
    project = session.open_project()
    login = find_approver(project, session.job, lambda: find_ticking_approver(session, project))
    action = "who started this job" if login == session.job.user_login else "on the dashboard"
    session.emit(GateApproved("write", f"{login}, {action}"))
    return login


def place_bundles(session: Session, plan: Plan, origin: BundleOrigin) -> None:
    """Copy the bundles of night and upkeep into this job's results, for a notary. Those of another
    job of this pipeline are downloaded with CI_JOB_TOKEN; the plan has that job's id.

    Raises ``E_CONFIG`` if that is not possible.
    """
    if origin.job:
        _fetch_bundles(session, plan, origin.job)
        return
    bundle = locate_product(session, origin.given, "bundle")
    is_upkeep = bundle.parent.name == UPKEEP  # the command line may name that bundle
    _place_bundle(bundle, session.results / UPKEEP if is_upkeep else session.results)
    upkeep = bundle.parent / UPKEEP / "bundle"
    if upkeep.exists():
        _place_bundle(upkeep, session.results / UPKEEP)


def _place_bundle(bundle: Path, results: Path) -> None:
    """Copy a bundle's folder, and the notary's record if there is one: its refusal still counts."""
    shutil.copytree(bundle, results / "bundle")
    with contextlib.suppress(FileNotFoundError):
        shutil.copy(bundle.parent / NOTARY, results)


def _fetch_bundles(session: Session, plan: Plan, name: str) -> None:
    # A retried job has the same name: the newest one counts.
    job_id = max((job.id for job in plan.jobs if job.name == name), default=None)
    token = session.env.get("CI_JOB_TOKEN", "")
    if job_id is None or not token:
        why = "CI_JOB_TOKEN is not set" if job_id else f"the plan names no job {name}"
        text = f"--from-job: {why}: it works only in a pipeline whose plan was made in a job"
        raise build_config_error(text)
    job = session.job
    project = open_project(
        job.server_url, job.project_id, token, tell=session.tell, is_job_token=True
    )
    output = session.settings.output_dir
    with contextlib.suppress(FileNotFoundError):
        download_bundle(
            project, job_id, f"{output}/{UPKEEP}/bundle", session.results / UPKEEP / "bundle"
        )
    try:
        download_bundle(project, job_id, f"{output}/bundle", session.results / "bundle")
    except FileNotFoundError:  # publish will report that, too
        session.emit(Note(f"the job {name} (id {job_id}) has left no bundle", warning=True))


def _fetch_job_bundle(session: Session, name: str, bundle_dir: str = "bundle") -> Path:
    """Download the bundle of another job of this pipeline, with the token. Raises ``E_CONFIG``
    without one, or outside a pipeline."""
    if not session.secrets.gitlab_token:
        raise build_missing_token_error()
    if not session.env.get("CI_PIPELINE_ID"):
        raise build_config_error("--from-job: works only in a job of a GitLab pipeline")
    folder = session.results / "bundle"
    path = f"{session.settings.output_dir}/{bundle_dir}"
    download_newest_bundle(session.open_project(), session.job.run_id, name, path, folder)
    return folder


def build_missing_token_error() -> NightshiftError:
    """The error for a missing token, which says how to add one."""
    return build_config_error(
        "GITLAB_TOKEN is not set: add it as a masked CI variable (a project access token with the "
        "role Developer and the scopes api and write_repository); --dry-run works without"
    )


def finish_run(
    session: Session,
    folder: Path,
    bundle: Bundle,
    published: Publication | None,
    request: TaskRequest | None = None,
) -> RunResult:
    """Write the results, reply to whoever asked, emit ``RunEnded``. ``folder`` has the bundle."""
    job = session.job
    upkeep = read_upkeep_result(session.results)
    notary = read_if_valid(NotaryRecord, folder.parent / NOTARY)
    result = build_run_result(bundle, published, job.project_path, job.pipeline_url, upkeep, notary)
    patch = read_patch(folder)
    session.logs.reserve.release()  # disk space that was reserved for the results
    try:
        with report_full_disk(session.results):
            url = build_report_url(job.project_url, job.job_id, session.settings.output_dir)
            write_results(session.results, result, patch, session.redact, url)
    finally:
        # Even if the disk is full, whoever asked for the run gets a reply.
        reply_result(session, request, result, bundle, published, patch)
        update_dashboard(session, result)
        session.emit(RunEnded(result))
    return result
