"""Finds what earlier runs have done: the results of earlier nights, another pipeline's run of this
night, and an earlier try of this run.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.pipelines import Job
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.project_settings import FLEET_SCHEDULE
from gitlab_nightshift.gitlab.resources import MergeRequest, build_earlier_publication
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.codec import InvalidRecordError, decode_record
from gitlab_nightshift.records.notary_records import NOTARY, NotaryRecord
from gitlab_nightshift.records.products import Bundle, Outcome, Publication
from gitlab_nightshift.records.storage import LARGEST_BUNDLE, LARGEST_PATCH, build_record
from gitlab_nightshift.stages.plan.plan_stage import CheckoutFacts

MOST_SKIPS, MOST_REQUESTS = 4, 10
"""Reported skips before this night, and requests to find them: one for the list, two for each
night, and one for each pipeline of another schedule."""
LARGEST_RESULT, LONGEST_REASON = 4 * 1024 * 1024, 2_000
"""Bytes of a ``result.json``, characters of a reason."""


def find_skips(project: Project, job: JobFacts, output_dir: str) -> tuple[str, ...] | None:
    """The reasons of the nights that were skipped in a row before this night, newest first; None if
    unknown, empty outside a schedule. Only scheduled nights count."""
    if job.pipeline_source != "schedule":
        return ()
    try:
        return _read_skips(project, job, f"{output_dir}/result.json")
    except (ApiError, ValueError, RecursionError):
        return None


def find_last_outcome(project: Project, job: JobFacts, output_dir: str) -> str:
    """The outcome of the previous night; "" if unknown. An incomplete night counts as failed."""
    try:
        last = next(_read_results(project, job, f"{output_dir}/result.json"), None) or {}
    except (ApiError, ValueError, RecursionError):
        return ""
    return Outcome.FAILED if last.get("error_code") else str(last.get("outcome") or "")


def _read_skips(project: Project, job: JobFacts, path: str) -> tuple[str, ...] | None:
    skips: list[str] = []
    for result in _read_results(project, job, path):
        if result is None:
            return None
        if result.get("outcome") != Outcome.SKIPPED:
            break
        skips.append(str(result.get("reason"))[:LONGEST_REASON])
        if len(skips) == MOST_SKIPS:
            break
    return tuple(skips)


def _read_results(
    project: Project, job: JobFacts, path: str
) -> Iterator[Mapping[str, object] | None]:
    """The results of earlier nights, newest first, from ``path`` in a job's artifacts; None at the
    end if there are more than ``MOST_REQUESTS`` can read."""
    requests_left = MOST_REQUESTS - 1  # one for the list
    for pipeline in project.pipelines.list_scheduled(job.ref_name, MOST_REQUESTS):
        if str(pipeline) == job.run_id:
            continue
        if requests_left < 2:
            yield None
            return
        result_job = _find_result_job(project, pipeline, job.job_name)
        requests_left -= 2 if result_job else 1
        if result_job is None:  # a pipeline of another schedule
            continue
        result = json.loads(project.download_artifact(result_job.id, path, LARGEST_RESULT))
        yield result if isinstance(result, dict) else {}


def _find_result_job(project: Project, pipeline: int, name: str) -> Job | None:
    """The last ended job of a night: with this job's name, or with its prefix (``nightshift:plan``,
    ``nightshift:publish``)."""
    prefix, colon, _ = name.rpartition(":")
    jobs = (
        each
        for each in project.pipelines.list_jobs(pipeline, all_pages=False)
        if each.status in ("success", "failed")
        and (each.name.startswith(f"{prefix}:") if colon else each.name == name)
    )
    return max(jobs, key=lambda each: each.id, default=None)


# --- another run of this night ------------------------------------------------------------------


OLDEST_TONIGHT = timedelta(hours=11)
"""The greatest age of a pipeline of this night. A fleet's window lasts 12 hours at most, and it
starts a project at the same time every night: last night's pipeline is older."""
MOST_STARTERS = 3
"""Pipelines for which GitLab is asked who started them: one request each."""


def find_tonights_run(project: Project, job: JobFacts) -> int:
    """The earlier pipeline that the fleet's schedule has started tonight, for the same user; 0 if
    none is known. A pipeline that another user starts by hand is another night.

    A fleet checks for tonight's pipeline before it starts one, but GitLab creates pipelines with a
    delay, so a fleet that is killed and restarted may start two.
    """
    by_fleet = job.pipeline_source == "schedule" and job.schedule_description == FLEET_SCHEDULE
    if not (by_fleet and job.run_id.isdecimal()):
        return 0
    try:
        created = datetime.fromisoformat(job.pipeline_created_at)
    except ValueError:
        created = datetime.now(UTC)
    try:
        pipelines = project.pipelines.list_fleet_pipelines((created - OLDEST_TONIGHT).isoformat())
        earlier = [each.id for each in pipelines if each.id < int(job.run_id)]
        for pipeline in earlier[:MOST_STARTERS]:
            if project.pipelines.find_starter(pipeline) == job.user_login:
                return pipeline
    except ApiError:
        pass
    return 0


# --- an earlier try of this run -----------------------------------------------------------------


MOST_TRIES = 5
"""The newest earlier tries, whose artifacts are searched."""


@dataclass(frozen=True)
class EarlierTry:
    """An earlier try of this run that has left no work to do: its bundle, and ``why`` in one line;
    ``published`` if it has opened its merge request.

    The bundle is hostile; ``patch`` is its change if that is still unpublished. ``notary`` is the
    record of that try's notary, of which only a refusal counts: otherwise the notary runs again.
    """

    why: str
    bundle: Bundle
    patch: bytes = b""
    notary: NotaryRecord | None = None
    published: Publication | None = None

    @property
    def publishable(self) -> bool:
        """True if its change is still to be published."""
        return self.bundle.outcome is Outcome.MR_READY and self.published is None


def find_earlier_try(
    project: Project, job: JobFacts, facts: CheckoutFacts, bundle_dir: str, *, single_job: bool
) -> EarlierTry | None:
    """The earlier try of this run whose change is only to be published or reported; None if there
    is none.

    ``bundle_dir`` is the bundle's folder in a job's artifacts; ``single_job``: this job runs all
    stages, so an earlier try has the same name. Raises ``E_PARSE_ERROR`` for an unusable bundle:
    that night was paid for, and must not be repeated.
    """
    if not job.in_ci:
        return None
    if merge_request := project.merge_requests.find_by_run(job.run_id):
        return _build_from_merge_request(merge_request, job, facts)
    for earlier_job in _list_tries(project, job, single_job=single_job):
        bundle = _read_bundle(project, earlier_job, bundle_dir)
        if bundle is not None and bundle.run_id == job.run_id:
            return _build_from_bundle(project, earlier_job, bundle_dir, bundle, facts)
    return None


def _build_from_merge_request(
    merge_request: MergeRequest, job: JobFacts, facts: CheckoutFacts
) -> EarlierTry:
    category = merge_request.marker.category if merge_request.marker else ""
    published = build_earlier_publication(job.run_id, merge_request, category)
    bundle = Bundle(
        run_id=job.run_id,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        base_sha=facts.base_sha,
        target_branch=facts.target_branch,
        outcome=Outcome.MR_READY,
        category_used=category,
    )
    return EarlierTry(published.reason, bundle, published=published)


def _list_tries(project: Project, job: JobFacts, *, single_job: bool) -> Iterator[Job]:
    """Jobs of this pipeline that may have run this night before, newest first."""
    try:
        jobs = project.pipelines.list_jobs(job.run_id, include_retried=True)
    except ApiError as error:
        # A token that may not see the jobs cannot resume: the night runs again.
        if error.status in (403, 404):
            return
        raise
    others = [each for each in jobs if str(each.id) != job.job_id and each.finished]
    same_name = [each for each in others if each.name == job.job_name]
    if single_job:
        tries = same_name if job.job_name else others
    else:  # work runs in another job, which cannot have run before this job's first try
        tries = [each for each in others if each not in same_name] if same_name else []
    yield from sorted(tries, key=lambda each: each.id, reverse=True)[:MOST_TRIES]


def _read_bundle(project: Project, job: Job, bundle_dir: str) -> Bundle | None:
    try:
        data = project.download_artifact(job.id, f"{bundle_dir}/bundle.json", LARGEST_BUNDLE)
        return build_record(Bundle, json.loads(data), f"job {job.id}")
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    except (NightshiftError, ValueError, RecursionError) as error:
        why = error.message if isinstance(error, NightshiftError) else "it is not JSON"
        text = f"job {job.id} of this run left a bundle that cannot be used: {why}. Start a new"
        raise NightshiftError(Code.PARSE_ERROR, f"{text} pipeline for another night") from None


def _read_notary(project: Project, job: Job, bundle_dir: str) -> NotaryRecord | None:
    try:
        data = project.download_artifact(job.id, f"{bundle_dir}/{NOTARY}", LARGEST_BUNDLE)
        return decode_record(NotaryRecord, data)
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    except InvalidRecordError:
        return None


def _build_from_bundle(
    project: Project, job: Job, bundle_dir: str, bundle: Bundle, facts: CheckoutFacts
) -> EarlierTry | None:
    """The try; None if it was skipped, failed or incomplete, so that this one does the work."""
    where = f"job {job.id} of this run"
    # The logs stay in that job's artifacts.
    without_logs = replace(bundle, beads=tuple(replace(bead, logs=()) for bead in bundle.beads))
    if bundle.outcome is Outcome.MR_READY:
        if (bundle.base_sha, bundle.target_branch) != (facts.base_sha, facts.target_branch):
            why = f"{where} made its change on another commit: start a new pipeline"
            skipped = replace(without_logs, outcome=Outcome.SKIPPED, reason=why, proposal=None)
            return EarlierTry(why, skipped)
        patch = project.download_artifact(job.id, f"{bundle_dir}/change.patch", LARGEST_PATCH)
        why = f"{where} has verified a change, which will be published now"
        record = _read_notary(project, job, bundle_dir.rpartition("/")[0])
        return EarlierTry(why, replace(without_logs, error_code=""), patch, record)
    if bundle.outcome is Outcome.NO_IMPROVEMENT and not bundle.incomplete:
        why = f"{where} has already done this night: {bundle.reason}"
        return EarlierTry(why, replace(without_logs, reason=why))
    return None
