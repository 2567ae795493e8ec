"""The GitLab stand-in's state: users, tokens, projects, merge requests, received requests."""

import itertools
import re
import secrets
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from gitlab_nightshift.demo.standin_repository import create_bare_repository
from gitlab_nightshift.repository.git import Git
from gitlab_nightshift.repository.http_backend import build_server_git


@dataclass(frozen=True)
class Credential:
    """A credential as it was sent, valid or not."""

    kind: Literal["basic", "private-token", "bearer", "job-token"]
    username: str
    secret: str


@dataclass(frozen=True)
class RecordedRequest:
    """A request without its credentials, and the status of its answer."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    status: int


@dataclass(frozen=True)
class StandinAnswer:
    """An answer of the stand-in. A body that is a string or bytes is sent as it is, everything else
    as JSON."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


GUEST, REPORTER, DEVELOPER, MAINTAINER = 10, 20, 30, 40
NOBODY = 60
"""Above every role: a ``variables_role`` that nobody has."""
DEFAULT_SCOPES = ("api", "write_repository")
FIRST_IDS = {
    "user": 101,
    "token": 501,
    "project": 4001,
    "label": 20001,
    "merge_request": 70001,
}

Visibility = Literal["private", "internal", "public"]
MergeRequestState = Literal["opened", "closed", "merged"]


@dataclass(frozen=True)
class User:
    """An account; ``bot`` for the account behind a project access token."""

    id: int
    username: str
    name: str
    bot: bool = False


@dataclass(frozen=True)
class StandinToken:
    """A client's token: ``personal`` is sent as PRIVATE-TOKEN or Bearer, ``job`` as JOB-TOKEN.

    ``access_level`` is the role in every project: 0 none, 10 Guest, 20 Reporter, 30 Developer,
    40 Maintainer, 50 Owner. ``expires_at`` is a date, None for never; ``ended`` is why the token is
    invalid, "" for a valid one. A fine-grained token has only the scope ``granular``, and all
    permissions except ``lacking``, such as ``"POST projects/{id}/labels"``.
    """

    id: int
    value: str = field(repr=False)
    user: User
    scopes: frozenset[str]
    access_level: int
    kind: Literal["personal", "job"] = "personal"
    expires_at: str | None = None
    ended: Literal["", "expired", "revoked"] = ""
    lacking: frozenset[str] = frozenset()

    @property
    def fine_grained(self) -> bool:
        """True if the token has permissions instead of scopes."""
        return self.scopes == {"granular"}


@dataclass(frozen=True)
class StandinLabel:
    """A project's label."""

    id: int
    name: str
    color: str
    description: str | None = None


@dataclass(frozen=True)
class StandinNote:
    """A comment. ``thread`` is its thread's id; ``resolvable``: the thread can be resolved;
    ``position`` is its place in the diff."""

    id: int
    body: str
    author: User
    created_at: str
    system: bool = False
    internal: bool = False
    thread: str = field(default_factory=lambda: secrets.token_hex(20))
    resolvable: bool = False
    resolved: bool = False
    position: Mapping[str, Any] | None = None


@dataclass
class StandinMergeRequest:
    """A merge request, of a fork if ``source_project_id`` is set; ``sha`` is the source branch's
    last known commit."""

    id: int
    iid: int
    web_url: str
    author: User
    source_branch: str
    target_branch: str
    title: str
    description: str | None = None
    sha: str = ""
    state: MergeRequestState = "opened"
    labels: list[str] = field(default_factory=list)
    reviewers: list[User] = field(default_factory=list)
    assignees: list[User] = field(default_factory=list)
    remove_source_branch: bool | None = None
    squash: bool = False
    notes: list[StandinNote] = field(default_factory=list)
    thumbs_down: list[User] = field(default_factory=list)
    source_project_id: int = 0
    approved_by: list[User] = field(default_factory=list)
    auto_merge: bool = False
    merge_error: str | None = None
    created_at: str = ""
    updated_at: str = ""
    closed_at: str | None = None
    merged_at: str | None = None

    def change_state(self, state: MergeRequestState) -> None:
        """Close, merge (only this record, without a commit) or reopen it."""
        now = build_timestamp()
        self.state, self.updated_at = state, now
        self.closed_at = now if state == "closed" else None
        self.merged_at = now if state == "merged" else None


@dataclass
class StandinProject:
    """A project with its bare repository. ``protected_branches`` are names and wildcards,
    ``variables_role`` is the lowest role that may set a pipeline's variables."""

    id: int
    path: str
    web_url: str
    default_branch: str
    visibility: Visibility
    protected_branches: list[str]
    bare_repository: Path
    git: Git
    labels: list[StandinLabel] = field(default_factory=list)
    merge_requests: list[StandinMergeRequest] = field(default_factory=list)
    archived: bool = False
    merge_requests_enabled: bool = True
    variables_role: int = DEVELOPER

    @property
    def http_url(self) -> str:
        """The URL that git clones from, without credentials."""
        return f"{self.web_url}.git"

    def is_protected(self, branch: str) -> bool:
        """True if a protected name or wildcard matches; ``*`` also matches ``/``, as in GitLab."""
        return any(
            re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), branch)
            for pattern in self.protected_branches
        )


class State:
    """The state of the instance; ``lock`` is held while an API request is answered."""

    def __init__(self, root: Path, url: str) -> None:
        self.root, self.url, self.paid_tier = root, url, True
        self.git = build_server_git(root / "home")
        self.lock = threading.RLock()
        self.users: list[User] = []
        self.blocked: set[int] = set()
        self.busy: set[int] = set()
        self.tokens: list[StandinToken] = []
        self.projects: list[StandinProject] = []
        self.requests: list[RecordedRequest] = []
        self.credentials_seen: list[Credential] = []
        self.errors: list[BaseException] = []
        self._ids = {kind: itertools.count(first) for kind, first in FIRST_IDS.items()}

    def allocate_id(self, kind: str) -> int:
        """A new id; each kind has its own range, so that no id is valid for another kind."""
        return next(self._ids[kind])

    def add_user(self, username: str, name: str, *, bot: bool = False) -> User:
        """A new account."""
        user = User(self.allocate_id("user"), username, name, bot)
        self.users.append(user)
        return user

    def add_token(
        self,
        token: str,
        user: User,
        scopes: Iterable[str] = DEFAULT_SCOPES,
        access_level: int = DEVELOPER,
        *,
        kind: Literal["personal", "job"] = "personal",
        expires_at: str | None = None,
        ended: Literal["", "expired", "revoked"] = "",
    ) -> StandinToken:
        """A token of a user, with its scopes and its role on every project."""
        token_id, unique = self.allocate_id("token"), frozenset(scopes)
        new = StandinToken(token_id, token, user, unique, access_level, kind, expires_at, ended)
        self.tokens.append(new)
        return new

    def add_project(
        self,
        path: str,
        default_branch: str = "main",
        visibility: Visibility = "private",
        protected_branches: Iterable[str] = ("main",),
    ) -> StandinProject:
        """A new project, ``group/name``, with an empty repository to push to."""
        bare = self.root / "repositories" / f"{path}.git"
        create_bare_repository(bare, default_branch)
        project = StandinProject(
            id=self.allocate_id("project"),
            path=path,
            web_url=f"{self.url}/{path}",
            default_branch=default_branch,
            visibility=visibility,
            protected_branches=list(protected_branches),
            bare_repository=bare,
            git=self.git,
        )
        self.projects.append(project)
        return project


def build_timestamp() -> str:
    """Now, as GitLab writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
