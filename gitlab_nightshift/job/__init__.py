"""The GitLab job that a run is started in: its facts and its secrets. Standard library only."""

from typing import TYPE_CHECKING

from gitlab_nightshift.lazy_names import load_lazily

if TYPE_CHECKING:
    from gitlab_nightshift.job.job_facts import JobFacts, read_job, read_trigger
    from gitlab_nightshift.job.job_secrets import (
        MODEL_KEYS,
        Secrets,
        is_gitlab_credential,
        read_secrets,
    )

__all__ = [
    "MODEL_KEYS",
    "JobFacts",
    "Secrets",
    "is_gitlab_credential",
    "read_job",
    "read_secrets",
    "read_trigger",
]
__getattr__ = load_lazily(
    __name__,
    {
        "job_facts": "JobFacts read_job read_trigger",
        "job_secrets": "MODEL_KEYS Secrets is_gitlab_credential read_secrets",
    },
)
