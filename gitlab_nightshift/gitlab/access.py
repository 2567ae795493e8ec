"""Who a token is and whether it may do what a night needs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none
from gitlab_nightshift.text.gitlab_refusals import TOKEN_RIGHTS
from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

DEVELOPER, MAINTAINER, PAGE = 30, 40, 100
WANTED = TOKEN_RIGHTS
GRANULAR = "insufficient_granular_scope"
"""GitLab's code for a permission that a fine-grained token lacks."""
_READ_BY_NIGHTS = ("merge_requests", "labels", "members/all", "repository/branches")
AccessFact = Literal["token", "scopes", "project", "role"]
"""What a token is judged by, in this order."""
_KINDS = {
    compile_lazily(r"project_\d+_bot"): "project access token",
    compile_lazily(r"group_\d+_bot"): "group access token",
    compile_lazily(r"service_account"): "access token of a service account",
}
_ENDED = {"expired": "it has expired", "revoked": "it was revoked"}
"""GitLab's own words for a token that was valid once."""
_OTHER_KINDS = {
    "glcbt-": "a job token",
    "gldt-": "a deploy token",
    "glrt-": "a runner's token",
    "glptt-": "a pipeline trigger token",
    "glft-": "a feed token",
    "glagent-": "a token of the agent for Kubernetes",
}
"""What GitLab puts before tokens that open no merge request."""


@dataclass(frozen=True)
class Access:
    """A token's user and rights.

    ``scopes`` is None where GitLab does not tell (no personal, project or group access token), and
    says nothing of a ``fine_grained`` token, whose permissions GitLab does not list;
    ``level`` is GitLab's number of the role (30 is Developer), None for an administrator;
    ``expires_on`` the day at whose start (UTC) it ends, None for none or one that is not known.
    """

    user_id: int
    login: str
    name: str
    email: str
    level: int | None
    scopes: tuple[str, ...] | None
    expires_on: date | None = None
    fine_grained: bool = False

    @property
    def kind(self) -> str:
        """What the token is, as far as GitLab tells: by the names that it gives to bots."""
        if self.scopes is None:
            return "neither a personal nor a project or group access token (perhaps an OAuth token)"
        if self.fine_grained:
            return "fine-grained token"
        kinds = (kind for names, kind in _KINDS.items() if names.match(self.login))
        return next(kinds, "personal access token")


class AccessRefusal(NightshiftError):
    """``E_CONFIG`` for a token that a night cannot work with: ``fact`` is what is wrong with it,
    ``known`` what GitLab had told before, None for nothing."""

    def __init__(self, message: str, fact: AccessFact, known: Access | None = None) -> None:
        super().__init__(Code.CONFIG, message)
        self.fact, self.known = fact, known


def read_access(
    client: "Client", project: str, read_project: Callable[[], Mapping[str, Any]]
) -> Access:
    """Ask GitLab about the token. Raises :class:`AccessRefusal` for one that a night cannot work
    with.

    ``read_project`` has what GitLab says of the project, the token's permissions among it.
    """
    token = _read_token(client)
    user = _read_user(client, token)
    known = _build_access(token, user)
    if known.fine_grained:
        _try_reading(client, project, known)
    elif known.scopes is not None and "api" not in known.scopes:
        raise _build_scope_error(client, known)
    level = _read_level(client, project, read_project, user, known)
    if level is not None and level < DEVELOPER:
        raise AccessRefusal(
            f"the token's user {user['username']} has a role below Developer on {project}: "
            f"set GITLAB_TOKEN to a token with {WANTED}",
            "role",
            known,
        )
    return replace(known, level=level)


def _build_access(token: Mapping[str, Any] | None, user: Mapping[str, Any]) -> Access:
    """What is known before the role."""
    login = user.get("username") or ""
    return Access(
        user_id=user.get("id") or 0,
        login=login,
        name=user.get("name") or login,
        email=user.get("commit_email") or user.get("email") or "",
        level=0,
        scopes=None if token is None else tuple(token.get("scopes") or ()),
        expires_on=parse_day(token and token.get("expires_at")),
        fine_grained=bool(token and token.get("granular")),
    )


def _try_reading(client: "Client", project: str, known: Access) -> None:
    """Read what each night reads, a row of each kind: nothing else tells what such a token may."""
    for name in _READ_BY_NIGHTS:
        try:
            client.read_rows(f"/projects/{_encode_project(project)}/{name}", per_page=1)
        except ApiError as error:
            if error.kind == GRANULAR:
                raise _explain_refusal(error, client, known) from None
            if error.status not in (403, 404):
                raise


def find_developers(
    client: "Client", project: str, users: Iterable[int], least: int = DEVELOPER
) -> frozenset[int]:
    """Those of the users (ids, 0 for nobody) who have this role or more, by groups too."""
    asked = sorted(set(users) - {0})[:PAGE]
    if not asked:
        return frozenset()
    path = f"/projects/{_encode_project(project)}/members/all"
    found = client.read_rows(path, **{"user_ids[]": asked})
    return frozenset(
        int(each["id"])
        for each in found
        if int(each.get("access_level") or 0) >= least and each.get("state") == "active"
    )


def _read_user(client: "Client", token: Mapping[str, Any] | None) -> Mapping[str, Any]:
    try:
        return client.own_user
    except ApiError as error:
        known = _build_access(token, {})
        if error.kind == "insufficient_scope":
            raise _build_scope_error(client, known) from None
        raise _explain_refusal(error, client, known) from None


def parse_day(text: object) -> date | None:
    """The day of a date or a moment; None for what is neither."""
    try:
        return date.fromisoformat(str(text)[:10])
    except ValueError:
        return None


def _read_token(client: "Client") -> Mapping[str, Any] | None:
    """What the token says of itself; None where GitLab does not tell."""
    try:
        return client.read_object("/personal_access_tokens/self")
    except ApiError as error:
        if error.kind == GRANULAR:
            return {"granular": True}
        if error.status in (400, 403, 404):
            return None
        raise _explain_refusal(error, client) from None


def _read_level(
    client: "Client",
    project: str,
    read_project: Callable[[], Mapping[str, Any]],
    user: Mapping[str, Any],
    known: Access,
) -> int | None:
    try:
        granted = read_project().get("permissions") or {}
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        if error.kind == GRANULAR:
            raise _explain_refusal(error, client, known) from None
        raise AccessRefusal(
            f"the token cannot see project {project} on {client.server}: it does not exist, or the "
            f"token's user is not a member",
            "project",
            known,
        ) from None
    levels = [each["access_level"] for each in granted.values() if each]
    if not levels:
        levels = _read_shared_levels(client, project, user["id"])
    if not levels and user.get("is_admin"):
        return None
    return max(levels, default=0)


def _read_shared_levels(client: "Client", project: str, user_id: int) -> list[int]:
    """Roles through invited groups: the project's own members do not show them."""
    path = f"/projects/{_encode_project(project)}/members/all/{user_id}"
    member = call_or_none(lambda: client.read_object(path), 403, 404)
    return [member["access_level"]] if member is not None else []


def _encode_project(project: str) -> str:
    from urllib.parse import quote

    return quote(project, safe="")


def _explain_refusal(
    error: ApiError, client: "Client", known: Access | None = None
) -> NightshiftError:
    if error.status == 403:
        remedy = error.remedy
        return AccessRefusal(
            f"GitLab at {client.server} refuses GITLAB_TOKEN: {error.reason.rstrip('.')}: "
            f"{remedy.text if remedy else 'have an administrator of this GitLab look at it'}",
            "scopes" if error.kind == GRANULAR else "token",
            known,
        )
    if error.status != 401:
        return error
    return AccessRefusal(
        f"GitLab at {client.server} rejects GITLAB_TOKEN: {_explain_token(error, client)}. "
        f"Make a project access token with {WANTED}",
        "token",
    )


def _explain_token(error: ApiError, client: "Client") -> str:
    """Why GitLab refuses the token: its prefix tells most, and is no secret."""
    for prefix, kind in _OTHER_KINDS.items():
        if client.has_token_prefix(prefix):
            return f"it is {kind}, which cannot open merge requests"
    ended = (why for word, why in _ENDED.items() if word in error.reason.lower())
    return next(ended, "it is mistyped, expired or revoked, or a job token")


def _build_scope_error(client: "Client", known: Access) -> NightshiftError:
    return AccessRefusal(
        f"GITLAB_TOKEN lacks the scope api on {client.server}: make a token with {WANTED}",
        "scopes",
        known,
    )
