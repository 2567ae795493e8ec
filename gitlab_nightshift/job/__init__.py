"""The GitLab job that a run is started in: its facts and its secrets. Standard library only."""

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
