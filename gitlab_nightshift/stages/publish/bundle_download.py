"""Downloads the bundle and the notary's record from other jobs by GitLab's API: three files, and
nothing else of those jobs.

If the runner unpacks a job's artifacts, it unpacks whatever is in them, and a ``dotenv`` report
sets variables such as PATH in later jobs. Anybody with the job's token can upload both, so the job
with the publishing token must not get them from a job that ran agents.
"""

from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.records.codec import InvalidRecordError, decode_record
from gitlab_nightshift.records.notary_records import NOTARY, NotaryRecord, is_refused
from gitlab_nightshift.records.storage import LARGEST_BUNDLE, LARGEST_PATCH

MOST_TRIES = 5
"""The newest tries of the notary's job, whose records are read."""
LARGEST_NOTARY = 4 * 1024 * 1024
"""Bytes."""
BUNDLE_FILES = {"bundle.json": LARGEST_BUNDLE, "change.patch": LARGEST_PATCH}
"""The files of a bundle, with their limits in bytes."""


def fetch_notary(
    project: Project, pipeline: str, job: str, output_dir: str, bundle_job: str
) -> NotaryRecord:
    """The record that the notary's ``job`` left. A retry cannot overrule a refusal: if an earlier
    try of the job refused the same change, that try's record is returned.

    Raises ``E_PUBLISH`` without a record, or if ``bundle_job``, which ran the agents, also left
    one; ``E_PARSE_ERROR`` for an invalid one.
    """
    if job != bundle_job:
        refuse_foreign_notary(project, pipeline, bundle_job, output_dir)
    jobs = project.pipelines.list_jobs(pipeline, include_retried=True)
    job_ids = sorted((each.id for each in jobs if each.name == job), reverse=True)[:MOST_TRIES]
    downloads = [(job_id, _download_notary(project, job_id, output_dir)) for job_id in job_ids]
    if not downloads or downloads[0][1] is None:
        text = f"not published: the job {job} has left no {NOTARY}"
        raise NightshiftError(Code.PUBLISH, text)
    records = [
        decode_notary(data, f"{NOTARY} of job {job_id}") for job_id, data in downloads if data
    ]
    return next((record for record in records if is_refused(record, records[0])), records[0])


def refuse_foreign_notary(project: Project, pipeline: str, job: str, output_dir: str) -> None:
    """Raise ``E_PUBLISH`` if ``job``, which is not the notary's, does not exist or has left a
    notary's record."""
    job_id = _find_newest_job(project, pipeline, job)
    if _download_notary(project, job_id, output_dir) is not None:
        raise NightshiftError(
            Code.PUBLISH,
            f"not published: the job {job} left a {NOTARY}, and --notary-job does not name it",
        )


def decode_notary(data: bytes, where: str) -> NotaryRecord:
    """Decode a notary's record. Raises ``E_PARSE_ERROR``."""
    try:
        return decode_record(NotaryRecord, data)
    except InvalidRecordError as error:
        text = f"{where} is not a record that can be used: {error}"
        raise NightshiftError(Code.PARSE_ERROR, text) from None


def _download_notary(project: Project, job_id: int, output_dir: str) -> bytes | None:
    try:
        return project.download_artifact(job_id, f"{output_dir}/{NOTARY}", LARGEST_NOTARY)
    except ApiError as error:
        # GitLab's answer is the same whether all artifacts are missing or only this file.
        if error.status == 404:
            return None
        raise


def download_newest_bundle(
    project: Project, pipeline: str, job: str, bundle_dir: str, folder: Path
) -> None:
    """Copy the bundle of a pipeline's newest job with this name from ``bundle_dir`` in its
    artifacts to a new folder. Raises ``E_PUBLISH`` without that job or its bundle."""
    job_id = _find_newest_job(project, pipeline, job)
    _write_files(folder, _download_files(project, job_id, bundle_dir))


def _find_newest_job(project: Project, pipeline: str, name: str) -> int:
    job_id = project.pipelines.find_newest_job(pipeline, name)
    if job_id is None:
        raise NightshiftError(Code.PUBLISH, f"pipeline {pipeline} has no job {name}")
    return job_id


def download_bundle(project: Project, job_id: int, bundle_dir: str, folder: Path) -> None:
    """Copy the bundle of one job into a new folder. Raises FileNotFoundError without a bundle."""
    try:
        files = _download_files(project, job_id, bundle_dir)
    except ApiError as error:
        if error.status == 404:
            raise FileNotFoundError(bundle_dir) from None
        raise
    _write_files(folder, files)


def _download_files(project: Project, job_id: int, bundle_dir: str) -> dict[str, bytes]:
    return {
        name: project.download_artifact(job_id, f"{bundle_dir}/{name}", most)
        for name, most in BUNDLE_FILES.items()
    }


def _write_files(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
