"""The publish stage of a session: at the end of a run, or for an earlier job's bundle."""

import contextlib
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.errors import (
    STOPPED,
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
from gitlab_nightshift.records.storage import UPKEEP, read_kept, read_record, write_record
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
from gitlab_nightshift.stages.plan.checkout_facts import CheckoutFacts, read_facts
from gitlab_nightshift.stages.plan.trigger import DeclinedRequest, IgnoredTrigger
from gitlab_nightshift.stages.publish.approval import find_approver
from gitlab_nightshift.stages.publish.bundle_check import refuse_unknown_category
from gitlab_nightshift.stages.publish.bundle_download import (
    decode_notary,
    download_bundle,
    fetch_bundle,
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
    """Run the publish stage, which writes ``published.json``. A failure is an outcome; the bundle
    stays.

    ``source`` and ``recent`` (files that are refused) were read before any agent ran. ``notary`` is
    None if nothing but another job's word vouches for the change. ``approved_by`` is the approver's
    login, "" without one; ``request`` the comment that asked for the change.
    """
    from gitlab_nightshift.stages.publish.publish_stage import publish as do_publish  # not for plan

    session.emit(StepStarted("publish", "Publish"))
    try:
        context = replace(
            _build_context(session, source, recent),
            approved_by=approved_by,
            request=request,
            notary=notary,
        )
        published = do_publish(folder, context)
    except (NightshiftError, Interruption) as error:
        stopped = f"{STOPPED}. Go on with: {describe_resume(session)}"
        reason = error.message if isinstance(error, NightshiftError) else stopped
        # A change that the notary could not run has not failed: it waits for another try.
        is_waiting = error.code is Code.INCOMPLETE
        outcome = Outcome.MR_READY if is_waiting else Outcome.FAILED
        published = Publication(session.job.run_id, outcome, reason, error.code.value)
    text = published.mr_url or published.reason
    session.emit(StepEnded("publish", not published.error_code, text))
    write_record(session.results / "published.json", published)
    return published


def read_source_checkout(session: Session) -> SourceCheckout:
    """What publish needs of the checkout, including the machine's git identity."""
    return read_source(session.known)


def read_checkout_facts(session: Session) -> CheckoutFacts:
    """The facts of a clean checkout that plan and publish need. Raises NightshiftError for
    changes."""
    refuse_changed(session.machine_git, session.checkout)
    return read_facts(session.known, session.settings, session.job)


def _build_context(
    session: Session, source: SourceCheckout, recent: frozenset[str]
) -> PublishContext:
    return PublishContext(session, session.open_project(), source, recent)


def publish_again(session: Session, origin: BundleOrigin, *, approved: bool = False) -> RunResult:
    """Publish the bundle of an earlier stage or run; a dry run only reports it.

    ``approved``: a person started this job to approve the bundle. That is checked first.
    """
    from_job = origin.job
    approved_by = _check_approver(session) if approved else ""
    try:
        folder = (
            _fetch_job_bundle(session, from_job)
            if from_job
            else locate_product(session, origin.given, "bundle")
        )
    except NightshiftError as error:
        if error.code is not Code.PUBLISH:
            raise
        _report_missing_bundle(session, from_job or "", error)
        raise
    bundle = read_record(Bundle, folder / "bundle.json")
    refuse_unknown_category(bundle, session.settings)
    if from_job:
        if bundle.run_id != session.job.run_id:
            raise NightshiftError(Code.PUBLISH, "not published: the bundle is another pipeline's")
        # The logs stay in that job's artifacts.
        bundle = replace(bundle, beads=tuple(replace(bead, logs=()) for bead in bundle.beads))
    _publish_upkeep(session, folder, bundle, origin, approved_by)
    triggered = session.job.trigger_payload
    trigger = read_trigger_context(session) if triggered else TriggerContext()
    if why := _find_skip_reason(bundle, trigger):
        skipped = replace(bundle, outcome=Outcome.SKIPPED, reason=why)
        return finish_run(session, folder, skipped, None)
    with open_request_session(session, trigger.request) as current:
        published = None
        if not current.settings.dry_run:
            published = _publish_now(current, folder, bundle, origin, approved_by, trigger.request)
    return finish_run(session, folder, bundle, published, trigger.request)


def _publish_upkeep(
    session: Session, night: Path, bundle: Bundle, origin: BundleOrigin, approved_by: str
) -> None:
    """Publish the upkeep of the same run, if there is one. A failure is only a warning: the night's
    own change is published anyway."""
    upkeep_session = replace(session, results=session.results / UPKEEP)
    try:
        folder = _find_upkeep_bundle(upkeep_session, night, origin.job)
        upkeep = read_record(Bundle, folder / "bundle.json") if folder else None
        if folder and upkeep and upkeep.run_id == bundle.run_id:
            _publish_commit(session, upkeep_session, folder, upkeep, origin, approved_by)
    except NightshiftError as error:
        session.emit(Note(f"upkeep is not published: {error.message}", warning=True))


def _find_upkeep_bundle(session: Session, night: Path, from_job: str | None) -> Path | None:
    if from_job is None:
        folder = night.parent / UPKEEP / "bundle"
        if not folder.exists():
            return None
        placed = shutil.copytree(folder, session.results / "bundle")
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(folder.parent / NOTARY, session.results)
        return placed
    try:
        return _fetch_job_bundle(session, from_job, f"{UPKEEP}/bundle")
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def _publish_commit(
    session: Session,
    upkeep_session: Session,
    folder: Path,
    bundle: Bundle,
    origin: BundleOrigin,
    approved_by: str,
) -> None:
    """Publish the upkeep's commit, and reply; its results go to ``upkeep_session``."""
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
                published = _publish_now(
                    target, folder, bundle, origin, approved_by, trigger.request
                )
    notary = read_kept(NotaryRecord, upkeep_session.results / NOTARY)
    result = build_run_result(bundle, published, notary=notary)
    reply_result(session, trigger.request, result, bundle, published, read_patch(folder))


def build_failed_bundle(session: Session, error: NightshiftError | Interruption) -> Bundle:
    """The bundle of a run that failed before its work, or lost it."""
    return Bundle(
        run_id=session.job.run_id,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        base_sha=session.job.commit_sha,
        target_branch=session.settings.target_branch or session.job.default_branch,
        outcome=Outcome.FAILED,
        reason=error.message if isinstance(error, NightshiftError) else STOPPED,
        error_code=error.code.value,
    )


def _report_missing_bundle(session: Session, job: str, error: NightshiftError) -> None:
    """Report a night without a bundle: its work job failed early, or never started."""
    why = f"the job {job} left nothing that can be published: {error.message}"
    bundle = replace(build_failed_bundle(session, error), reason=why)
    finish_run(session, session.results / "bundle", bundle, None)
    reply_failed(session, bundle)


def _find_skip_reason(bundle: Bundle, trigger: TriggerContext) -> str:
    """Why this pipeline's trigger leaves nothing to publish; "" if it does not."""
    if isinstance(trigger.comment, DeclinedRequest | IgnoredTrigger):
        return trigger.comment.why
    request = trigger.request
    moved = request and request.head and request.head != bundle.base_sha
    return "the branch of the merge request has moved in the meantime" if moved else ""


def _publish_now(
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
    recent = frozenset(facts.recent_files if facts.recent_enforced else ())
    source = read_source_checkout(session)
    return publish(session, folder, source, recent, notary, approved_by, request)


def _find_notary(
    session: Session, folder: Path, bundle: Bundle, origin: BundleOrigin
) -> NotaryRecord | None:
    """The notary's record of the bundle, copied to this job's results. None if nothing is
    proposed, or if the only record is by the job that ran the agents."""
    if bundle.outcome is not Outcome.MR_READY:
        return None
    file = folder.parent / NOTARY
    if not origin.job:
        return decode_notary(file.read_bytes(), str(file)) if file.exists() else None
    is_upkeep = session.results.name == UPKEEP
    place = f"{session.settings.output_dir}{f'/{UPKEEP}' if is_upkeep else ''}"
    project, pipeline = session.open_project(), session.job.run_id
    if not origin.notary_job:
        refuse_foreign_notary(project, pipeline, origin.job, place)
        return None
    record = fetch_notary(project, pipeline, origin.notary_job, place, origin.job)
    write_record(session.results / NOTARY, record)
    return record


def _check_approver(session: Session) -> str:
    if not session.secrets.gitlab_token:
        raise build_missing_token_error()
    project = session.open_project()
    login = find_approver(project, session.job, lambda: find_ticking_approver(session, project))
    how = "who started this job" if login == session.job.user_login else "on the dashboard"
    session.emit(GateApproved("write", f"{login}, {how}"))
    return login


def place_bundles(session: Session, plan: Plan, origin: BundleOrigin) -> None:
    """Copy the bundles of night and upkeep into this job's results, for a notary. Another job's are
    downloaded with this job's own token; the plan names that job.

    Raises ``E_CONFIG`` if that is not possible.
    """
    if origin.job:
        _fetch_bundles(session, plan, origin.job)
        return
    folder = locate_product(session, origin.given, "bundle")
    for place in (folder.parent / UPKEEP, folder.parent):
        target = session.results / (UPKEEP if place.name == UPKEEP else "")
        if (place / "bundle").exists() or place == folder.parent:
            shutil.copytree(
                folder if place == folder.parent else place / "bundle", target / "bundle"
            )
            with contextlib.suppress(FileNotFoundError):  # keep an earlier refusal
                shutil.copy(place / NOTARY, target)


def _fetch_bundles(session: Session, plan: Plan, name: str) -> None:
    number = max((job.id for job in plan.jobs if job.name == name), default=None)
    token = session.env.get("CI_JOB_TOKEN", "")
    if number is None or not token:
        why = "CI_JOB_TOKEN is not set" if number else f"the plan names no job {name}"
        text = f"--from-job: {why}: it works only in a pipeline whose plan was made in a job"
        raise build_config_error(text)
    job = session.job
    project = open_project(
        job.server_url, job.project_id, token, tell=session.tell, is_job_token=True
    )
    output = session.settings.output_dir
    with contextlib.suppress(FileNotFoundError):
        download_bundle(
            project, number, f"{output}/{UPKEEP}/bundle", session.results / UPKEEP / "bundle"
        )
    try:
        download_bundle(project, number, f"{output}/bundle", session.results / "bundle")
    except FileNotFoundError:  # publish reports the consequence
        session.emit(Note(f"the job {name} (id {number}) has left no bundle", warning=True))


def _fetch_job_bundle(session: Session, name: str, place: str = "bundle") -> Path:
    """Download the bundle of another job of this pipeline."""
    if not session.secrets.gitlab_token:
        raise build_missing_token_error()
    if not session.env.get("CI_PIPELINE_ID"):
        raise build_config_error("--from-job: works only in a job of a GitLab pipeline")
    folder = session.results / "bundle"
    path = f"{session.settings.output_dir}/{place}"
    fetch_bundle(session.open_project(), session.job.run_id, name, path, folder)
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
    """Write the results, reply to whoever asked for the run, and emit its end. ``folder`` holds the
    bundle."""
    job = session.job
    upkeep = read_upkeep_result(session.results)
    notary = read_kept(NotaryRecord, folder.parent / NOTARY)
    result = build_run_result(bundle, published, job.project_path, job.pipeline_url, upkeep, notary)
    patch = read_patch(folder)
    session.logs.reserve.release()
    try:
        with report_full_disk(session.results):
            url = build_report_url(job.project_url, job.job_id, session.settings.output_dir)
            write_results(session.results, result, patch, session.redact, url)
    finally:
        reply_result(session, request, result, bundle, published, patch)
        update_dashboard(session, result)
        session.emit(RunEnded(result))
    return result
