"""Bundles of runs that end before their work, by a failure or because an earlier try did it."""

from datetime import UTC, datetime

from gitlab_nightshift.errors import STOPPED, Interruption, NightshiftError
from gitlab_nightshift.records.notary_records import NOTARY
from gitlab_nightshift.records.products import Bundle, Outcome
from gitlab_nightshift.records.storage import write_record
from gitlab_nightshift.run.comment_runs import tell_failed
from gitlab_nightshift.run.dashboard_runs import update_dashboard
from gitlab_nightshift.session import Session
from gitlab_nightshift.stages.plan.earlier_run import EarlierRun
from gitlab_nightshift.stages.report.run_result import build_run_result


def write_failed_bundle(session: Session, error: NightshiftError | Interruption) -> None:
    """Write the bundle of a run that failed before its work, reply to whoever asked for it, and
    update the dashboard. A cancelled run skips that: someone is waiting for its end."""
    bundle = build_failed_bundle(session, error)
    _write_bundle(session, bundle)
    tell_failed(session, bundle)
    if isinstance(error, NightshiftError):
        update_dashboard(session, build_run_result(bundle, None))


def build_failed_bundle(session: Session, error: NightshiftError | Interruption) -> Bundle:
    """The bundle of a run that failed before its work."""
    return Bundle(
        run_id=session.job.run_id,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        base_sha=session.job.commit_sha,
        target_branch=session.settings.target_branch or session.job.default_branch,
        outcome=Outcome.FAILED,
        reason=error.message if isinstance(error, NightshiftError) else STOPPED,
        error_code=error.code.value,
    )


def write_earlier_run(session: Session, earlier: EarlierRun) -> None:
    """Write the products of an earlier try as this one's."""
    _write_bundle(session, earlier.bundle)
    (session.results / "bundle/change.patch").write_bytes(earlier.patch)
    if earlier.notary:
        write_record(session.results / NOTARY, earlier.notary)
    if earlier.published:
        write_record(session.results / "published.json", earlier.published)


def _write_bundle(session: Session, bundle: Bundle) -> None:
    folder = session.results / "bundle"
    folder.mkdir(exist_ok=True)
    write_record(folder / "bundle.json", bundle)
