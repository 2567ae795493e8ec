"""What the publish stage works with, and what it reads of the checkout."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.errors import config_error
from gitlab_nightshift.events import Emit
from gitlab_nightshift.gitlab import Clock, Project
from gitlab_nightshift.host import git as host_git
from gitlab_nightshift.host.git import Git, Identity, Place
from gitlab_nightshift.host.remote import Server
from gitlab_nightshift.records import Request
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.settings import Job, Settings

STYLE_MESSAGES = 20
"""How many of the last commit messages show the repository's style."""


@dataclass(frozen=True)
class Source:
    """The checkout, read: where its objects are, its commit, its configuration and style."""

    place: Place
    head: str
    config: Mapping[str, str]
    identity: Identity | None
    messages: tuple[str, ...]


def read_source(git: Git, checkout: Path) -> Source:
    """Read a checkout. ``git`` is ``with_machine_config``: the identity is this machine's.

    Raises ``E_CONFIG`` where it is no checkout or has no commit.
    """
    place, head = host_git.place_and_head(git, checkout)
    return Source(
        place=place,
        head=head,
        config=host_git.conversion_config(git, checkout),
        identity=host_git.identity(git, checkout),
        messages=host_git.commit_messages(git, checkout, STYLE_MESSAGES),
    )


@dataclass(frozen=True)
class Desk:
    """The tools of the publish stage.

    ``project`` is opened for this stage: its patience runs from then on. ``git`` is a pristine
    one; ``private`` a folder that no agent can reach; ``network`` the proxy and certificate
    variables for git. ``recent_files`` (display names) are refused. ``approved_by`` is the login of
    who has approved this publication, "" where nobody has; ``request`` is the comment that asked
    for it, where one did.
    """

    settings: Settings
    job: Job
    project: Project
    token: str = field(repr=False)
    git: Git
    source: Source
    private: Path
    redact: Redactor
    emit: Emit
    recent_files: frozenset[str] = frozenset()
    network: Mapping[str, str] = field(default_factory=dict, repr=False)
    clock: Clock = field(default_factory=Clock)
    approved_by: str = ""
    request: Request | None = None

    @property
    def base(self) -> str:
        """The commit that a bundle must be made for: the job's, else the checked-out one."""
        return self.job.commit_sha or self.source.head

    @property
    def target(self) -> str:
        """The branch to merge into."""
        return (
            self.settings.target_branch or self.job.default_branch or self.project.default_branch()
        )

    @property
    def resume(self) -> str:
        """The command that goes on after a failure."""
        return f"nightshift publish {self.settings.output_dir}/bundle"

    def server(self) -> Server:
        """Where to push, and with what. Raises ``E_CONFIG`` where the project is not known."""
        if not self.job.project_path or not self.job.server_url:
            raise config_error("the project is not known: set repo_url to its web address")
        url = f"{self.job.server_url.rstrip('/')}/{self.job.project_path}.git"
        return Server(url, self.token, env=self.network)


def author(desk: Desk) -> Identity:
    """Who is named in the commit, by ``commit_author``. Raises ``E_CONFIG`` where nobody is."""
    if desk.settings.commit_author == "token":
        access = desk.project.access()
        name, email = access.name, access.email
        missing = "GitLab tells no e-mail address of the token's user: set commit_author: host"
    else:
        known = desk.source.identity or Identity(desk.job.user_name, desk.job.user_email)
        name, email = known.name, known.email
        missing = (
            "no name and e-mail for the commit: set git's user.name and user.email on this "
            "machine, or commit_author: token"
        )
    person = Identity(_plain(name), _plain(email))
    if not person.name or not person.email:
        raise config_error(missing)
    return person


def _plain(text: str) -> str:
    """As git would store it: nothing that ends the line or the name."""
    return "".join(c for c in text if c.isprintable() and c not in "<>").strip(" .,:;\"'\\")
