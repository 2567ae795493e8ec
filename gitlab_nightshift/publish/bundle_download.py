"""Downloads the bundle of another job by GitLab's API: its two files, and nothing else of that job.

Artifacts that the runner unpacks bring whatever the job has put there, and a `dotenv` report sets
variables such as PATH in the jobs after it. GitLab takes both from whoever holds the job's token,
so a job with the token for publishing must not get them from one that ran agents.
"""

from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.records.storage import LARGEST_BUNDLE, LARGEST_PATCH

FILES = {"bundle.json": LARGEST_BUNDLE, "change.patch": LARGEST_PATCH}


def fetch_bundle(project: Project, pipeline: str, job: str, place: str, folder: Path) -> None:
    """Copy the bundle at ``place`` in the artifacts of a pipeline's job into a new folder.

    Raises ``E_PUBLISH`` where there is none.
    """
    number = project.pipelines.find_newest_job(pipeline, job)
    if number is None:
        raise NightshiftError(Code.PUBLISH, f"pipeline {pipeline} has no job {job}")
    files = {
        name: project.download_artifact(number, f"{place}/{name}", most)
        for name, most in FILES.items()
    }
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
