"""A session to publish with, as the tests of that stage need it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.job.job_secrets import Secrets
from gitlab_nightshift.records.events import Event
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.git import Git
from gitlab_nightshift.repository.known_checkout import KnownCheckout
from gitlab_nightshift.session import Session
from gitlab_nightshift.settings.load import build_settings
from tests.support.world import BOT_TOKEN, JOB_TOKEN


def build_session(
    checkout: Path,
    private: Path,
    job: JobFacts,
    git: Git,
    emit: Callable[[Event], None],
    settings: dict[str, Any] | None = None,
    token: str = BOT_TOKEN,
) -> Session:
    """A session whose environment is empty: publish reads none of it."""
    return Session(
        settings=build_settings(settings or {}),
        job=job,
        env={},
        checkout=checkout,
        config_folder=checkout,
        private=private,
        redact=Redactor((BOT_TOKEN, JOB_TOKEN)),
        emit=emit,
        folder=checkout,
        secrets=Secrets(token),
        known_checkout=KnownCheckout(git, git, checkout),
        results=private / "results",
    )
