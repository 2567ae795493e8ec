"""A run with its token, as ``run/session_opening.py`` opens it."""

from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.gitlab.project import PATIENCE_S, Project, open_project
from gitlab_nightshift.job.job_secrets import Secrets
from gitlab_nightshift.repository.git import Git
from gitlab_nightshift.repository.known_checkout import KnownCheckout
from gitlab_nightshift.run_context import RunContext
from gitlab_nightshift.system.network_settings import build_network_env
from gitlab_nightshift.system.raw_logs import Logs, build_logs


@dataclass(frozen=True, kw_only=True)
class Session(RunContext):
    """A run with its token. plan and publish use it; work cannot import this module.

    ``folder`` is the current folder of the command. ``results`` is a private folder, whose content
    is moved to the output folder at the end. ``known_checkout`` caches what git says about it.
    """

    folder: Path
    secrets: Secrets
    known_checkout: KnownCheckout
    results: Path

    @property
    def git(self) -> Git:
        """A git that reads only this program's configuration."""
        return self.known_checkout.git

    @property
    def machine_git(self) -> Git:
        """A git that also reads this machine's configuration, for its identity and filters."""
        return self.known_checkout.machine_git

    @property
    def output(self) -> Path:
        """The output folder in the checkout."""
        return self.checkout / self.settings.output_dir

    @property
    def network(self) -> dict[str, str]:
        """The proxy and certificate variables for this program's own connections."""
        return build_network_env(self.env, self.checkout, self.private)

    def open_project(self, patience_s: float = PATIENCE_S) -> Project:
        """The job's project, opened with the token. Failing requests are retried for
        ``patience_s`` seconds from now."""
        job, token = self.job, self.secrets.gitlab_token
        return open_project(
            job.server_url, job.project_id, token, patience_s=patience_s, tell=self.tell
        )

    @property
    def logs(self) -> Logs:
        """The raw logs of the run."""
        return build_logs(self.private, self.redact)
