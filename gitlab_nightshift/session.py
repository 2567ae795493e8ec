"""An opened run that has the token; ``run/session_opening.py`` opens it."""

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
    """An opened run that has the token. plan and publish use it; work cannot import this module.

    ``folder`` is where the command was called. ``results`` is a private folder, whose content is
    moved to the output folder at the end. ``known`` is what git says of the checkout.
    """

    folder: Path
    secrets: Secrets
    known: KnownCheckout
    results: Path

    @property
    def git(self) -> Git:
        """A git that reads no configuration but this program's own."""
        return self.known.git

    @property
    def machine_git(self) -> Git:
        """A git that knows this machine's identity and filters."""
        return self.known.machine_git

    @property
    def output(self) -> Path:
        """The output folder in the checkout."""
        return self.checkout / self.settings.output_dir

    @property
    def network(self) -> dict[str, str]:
        """The proxy and certificate variables for this program's own connections."""
        return build_network_env(self.env, self.checkout, self.private)

    def open_project(self, patience_s: float = PATIENCE_S) -> Project:
        """The job's project, with the token. A failing request is repeated until
        ``patience_s`` seconds from now."""
        job, token = self.job, self.secrets.gitlab_token
        return open_project(
            job.server_url, job.project_id, token, patience_s=patience_s, tell=self.tell
        )

    @property
    def logs(self) -> Logs:
        """Raw logs while the run goes on."""
        return build_logs(self.private, self.redact)
