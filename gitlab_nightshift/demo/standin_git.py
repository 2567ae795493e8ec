"""Who may clone from and push to the stand-in over HTTP, with GitLab's messages."""

from collections.abc import Mapping
from dataclasses import dataclass

from gitlab_nightshift.demo.standin_api import visible_to
from gitlab_nightshift.demo.standin_state import (
    DEVELOPER,
    REPORTER,
    Credential,
    StandinProject,
    StandinToken,
    State,
)
from gitlab_nightshift.repository.http_backend import BackendRequest
from gitlab_nightshift.text.lazy_patterns import compile_lazily

GIT_PATH = compile_lazily(
    r"/(?P<project>.+?)\.git/(?P<what>info/refs|git-upload-pack|git-receive-pack)"
)
JOB_USER = "gitlab-ci-token"
READ_SCOPES = {"api", "read_api", "read_repository", "write_repository"}
PUSH_SCOPES = {"api", "write_repository"}
PUSH_SERVICE = "git-receive-pack"

# Messages as in lib/gitlab/git_access.rb and GitLab's controllers of Git over HTTP.
ACCESS_DENIED = (
    "HTTP Basic: Access denied. If a password was provided for Git authentication, the password"
    " was incorrect or you're required to use a token instead of a password. If a token was"
    " provided, it was either incorrect, expired, or improperly scoped."
)
NOT_FOUND = (
    "The project you were looking for could not be found or you don't have permission to view it."
)
NO_UPLOAD = "You are not allowed to upload code."
NO_PUSH = "You are not allowed to push code to this project."
NO_DOWNLOAD = "You are not allowed to download code from this project."
SMART_ONLY = "Git access over HTTP is only possible with the smart protocol."


class GitRefusedError(Exception):
    """A status and the text that git shows after ``remote:``."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


@dataclass(frozen=True)
class GitCall:
    """A Git request without its transport."""

    method: str
    path: str
    query: Mapping[str, str]
    query_text: str
    headers: Mapping[str, str]
    credentials: tuple[Credential, ...]

    @property
    def service(self) -> str:
        """``git-upload-pack`` or ``git-receive-pack``."""
        found = GIT_PATH.fullmatch(self.path)
        what = found["what"] if found else ""
        return self.query.get("service", "") if what == "info/refs" else what


def authorize_call(state: State, call: GitCall) -> BackendRequest:
    """The request for the backend. Raises GitRefusedError if GitLab would not serve it."""
    found = GIT_PATH.fullmatch(call.path)
    name = found["project"] if found else ""
    project = next((each for each in state.projects if each.path == name), None)
    token = _authenticate(state, call.credentials)
    pushing = call.service == PUSH_SERVICE
    if project is None or not _may_see(project, token):
        raise GitRefusedError(404, NOT_FOUND) if token else GitRefusedError(401, ACCESS_DENIED)
    if call.service not in (PUSH_SERVICE, "git-upload-pack"):
        raise GitRefusedError(403, SMART_ONLY)
    if pushing:
        _check_push(token)
    else:
        _check_read(project, token)
    return _build_backend_request(call, project, token)


def _authenticate(state: State, credentials: tuple[Credential, ...]) -> StandinToken | None:
    offered = next((each for each in credentials if each.kind == "basic"), None)
    if offered is None:
        return None
    for token in state.tokens:
        if token.value == offered.secret:
            if token.kind == "job" and offered.username != JOB_USER:
                break
            return token
    raise GitRefusedError(401, ACCESS_DENIED)


def _may_see(project: StandinProject, token: StandinToken | None) -> bool:
    return visible_to(project, token) or (token is not None and token.access_level > 0)


def _check_push(token: StandinToken | None) -> None:
    if token is None:
        raise GitRefusedError(401, ACCESS_DENIED)
    if token.kind == "job" or not (token.fine_grained or token.scopes & PUSH_SCOPES):
        raise GitRefusedError(403, NO_UPLOAD)
    if token.access_level < DEVELOPER:
        raise GitRefusedError(403, NO_PUSH)


def _check_read(project: StandinProject, token: StandinToken | None) -> None:
    if visible_to(project, token) or token is None:
        return
    scoped = token.kind == "job" or token.fine_grained or token.scopes & READ_SCOPES
    if not scoped or token.access_level < REPORTER:
        raise GitRefusedError(403, NO_DOWNLOAD)


def _build_backend_request(
    call: GitCall, project: StandinProject, token: StandinToken | None
) -> BackendRequest:
    bare = project.bare_repository
    return BackendRequest(
        root=bare.parent,
        path=f"/{bare.name}/{call.path.rpartition('.git/')[2]}",
        query=call.query_text,
        method=call.method,
        headers=call.headers,
        variables={
            "REMOTE_USER": token.user.username if token else "",
            "STANDIN_ACCESS_LEVEL": str(token.access_level if token else 0),
            "STANDIN_PROTECTED": "\n".join(project.protected_branches),
        },
    )
