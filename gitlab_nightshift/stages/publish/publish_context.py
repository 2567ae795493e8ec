"""The input of the publish stage: what it reads from the checkout, the author and the date of the
commit, and the server to push to.
"""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.notary_records import NotaryRecord
from gitlab_nightshift.records.request import TaskRequest
from gitlab_nightshift.repository.git import CommitIdentity, read_commit_messages
from gitlab_nightshift.repository.known_checkout import KnownCheckout
from gitlab_nightshift.repository.private_repository import RepositoryParts, read_parts
from gitlab_nightshift.repository.remote import GitServer
from gitlab_nightshift.session import Session
from gitlab_nightshift.system.retry import Clock
from gitlab_nightshift.text.printable_text import make_printable

STYLE_MESSAGES = 20
"""Last commit messages that are read for the repository's style."""


def describe_resume(session: Session) -> str:
    """Tell how to resume after a failed publish: a retried job reuses the verified change."""
    retry = "Retry of this job, which pays nothing again, or " if session.job.in_ci else ""
    return f"{retry}nightshift publish {session.settings.output_dir}/bundle"


@dataclass(frozen=True)
class SourceCheckout:
    """What publish reads from the checkout at first; afterwards it needs only git's objects.

    ``identity`` is the machine's author, ``messages`` are those of the last commits.
    """

    parts: RepositoryParts
    head: str
    config: Mapping[str, str]
    identity: CommitIdentity | None
    messages: tuple[str, ...]


def read_source(checkout: KnownCheckout) -> SourceCheckout:
    """Read a checkout. Raises ``E_CONFIG`` if it is not a checkout, or has no commit."""
    paths, head = checkout.paths_and_head
    return SourceCheckout(
        parts=read_parts(paths),
        head=head,
        config=checkout.config,
        identity=checkout.identity,
        messages=read_commit_messages(checkout.machine_git, checkout.top, STYLE_MESSAGES),
    )


@dataclass(frozen=True)
class PublishContext:
    """The input of the publish stage.

    ``session.git`` is isolated from all configuration; ``project`` is opened for this stage, so its
    timeout begins with it. ``recent_files`` (display names) may not be changed. ``approved_by`` is
    the approver's login, "" if there is none; ``request`` comes from the comment that asked for the
    change, if one did; ``date`` is the commit's. ``notary`` is the notary's record, None if only
    the job that ran the agents vouches for the change.
    """

    session: Session
    project: Project
    source: SourceCheckout
    recent_files: frozenset[str] = frozenset()
    clock: Clock = field(default_factory=Clock)
    approved_by: str = ""
    request: TaskRequest | None = None
    date: datetime = field(default_factory=lambda: datetime.now(UTC))
    notary: NotaryRecord | None = None

    @property
    def base(self) -> str:
        """The commit that a bundle must be based on: the job's, or else the checked-out one."""
        return self.session.job.commit_sha or self.source.head

    @property
    def target(self) -> str:
        """The branch to merge into."""
        return (
            self.session.settings.target_branch
            or self.session.job.default_branch
            or self.project.facts.default_branch
        )

    @property
    def resume_hint(self) -> str:
        """What to tell after a failure: how to resume."""
        return describe_resume(self.session)

    @property
    def notary_command(self) -> str:
        """The command that has the notary run the plan's commands on the change."""
        return f"nightshift notary {self.session.settings.output_dir}/bundle"


def build_git_server(session: Session) -> GitServer:
    """The project's repository, with the token. Raises ``E_CONFIG`` if the project is unknown."""
    job = session.job
    if not job.project_path or not job.server_url:
        raise build_config_error("the project is unknown: set repo_url to its web address")
    url = f"{job.server_url.rstrip('/')}/{job.project_path}.git"
    return GitServer(url, session.secrets.gitlab_token, env=session.network)


def find_commit_date(job: JobFacts, bundle: Path) -> datetime:
    """When the pipeline was created, by GitLab's clock; outside a pipeline, when the file
    ``bundle`` was written. It is never in the future, and never what the bundle claims. A retry
    gets the same date, and so the same commit id."""
    now = datetime.now(UTC)
    with contextlib.suppress(ValueError, OverflowError):
        created = datetime.fromisoformat(job.pipeline_created_at)
        return min(created if created.tzinfo else created.replace(tzinfo=UTC), now)
    return datetime.fromtimestamp(min(bundle.stat().st_mtime, now.timestamp()), UTC)


def choose_author(
    session: Session, project: Project, identity: CommitIdentity | None
) -> CommitIdentity:
    """The commit's author, by ``commit_author``; ``identity`` is the machine's. Raises ``E_CONFIG``
    without one."""
    if session.settings.commit_author == "token":
        access = project.check_access()
        name, email = access.name, access.email
        missing = "GitLab shows no e-mail address of the token's user: set commit_author: host"
    else:
        host = identity or CommitIdentity(session.job.user_name, session.job.user_email)
        name, email = host.name, host.email
        missing = (
            "no name and e-mail for the commit: set git's user.name and user.email on this "
            "machine, or commit_author: token"
        )
    author = CommitIdentity(_clean_text(name), _clean_text(email))
    if not author.name or not author.email:
        raise build_config_error(missing)
    return author


def _clean_text(text: str) -> str:
    """A name or address as git stores it: without characters that end the line or the name."""
    # git removes these characters from a name itself (strbuf_addstr_without_crud in ident.c).
    return re.sub("[<>]", "", make_printable(text, "")).strip(" .,:;\"'\\")
