"""How the last nights of the schedule ended, from the results in their artifacts."""

import json
from collections.abc import Iterator, Mapping

from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.pipelines import Job
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.products import Outcome

NIGHTS, MOST_REQUESTS = 4, 10
"""Enough to find four skips before tonight's: one request for the list, two for each night, and one
for a pipeline of another schedule."""
LARGEST_RESULT, LONGEST_REASON = 4 * 1024 * 1024, 2_000


def find_skips(project: Project, job: JobFacts, output_dir: str) -> tuple[str, ...] | None:
    """The reasons of the consecutive skips before this night, newest first; None if unknown. Only
    scheduled nights count, and one that was not skipped ends the series."""
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


def _read_skips(project: Project, job: JobFacts, place: str) -> tuple[str, ...] | None:
    skips: list[str] = []
    for result in _read_results(project, job, place):
        if result is None:
            return None
        if result.get("outcome") != Outcome.SKIPPED:
            break
        skips.append(str(result.get("reason"))[:LONGEST_REASON])
        if len(skips) == NIGHTS:
            break
    return tuple(skips)


def _read_results(
    project: Project, job: JobFacts, place: str
) -> Iterator[Mapping[str, object] | None]:
    """The results of earlier nights, newest first; None once the requests are used up."""
    left = MOST_REQUESTS - 1
    for pipeline in project.pipelines.list_scheduled(job.ref_name, MOST_REQUESTS):
        if str(pipeline) == job.run_id:
            continue
        if left < 2:
            yield None
            return
        last = _find_last_job(project, pipeline, job.job_name)
        left -= 2 if last else 1
        if last is None:  # another schedule's
            continue
        result = json.loads(project.download_artifact(last.id, place, LARGEST_RESULT))
        yield result if isinstance(result, dict) else {}


def _find_last_job(project: Project, pipeline: int, name: str) -> Job | None:
    """The last job of a night with a result: of this job's name, or one that shares its prefix
    (``nightshift:plan``, ``nightshift:publish``)."""
    head, colon, _ = name.rpartition(":")
    jobs = (
        each
        for each in project.pipelines.list_jobs(pipeline, whole=False)
        if each.status in ("success", "failed")
        and (each.name.startswith(f"{head}:") if colon else each.name == name)
    )
    return max(jobs, key=lambda each: each.id, default=None)
