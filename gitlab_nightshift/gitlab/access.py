"""Whose a token is, and whether it has the rights that a night needs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none
from gitlab_nightshift.gitlab.resources import PAGE, build_project_path
from gitlab_nightshift.text.gitlab_refusals import TOKEN_RIGHTS
from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

DEVELOPER, MAINTAINER = 30, 40
GRANULAR = "insufficient_granular_scope"
"""GitLab's error code if a fine-grained token lacks a permission."""
_READ_BY_NIGHTS = ("merge_requests", "labels", "members/all", "repository/branches")
AccessFact = Literal["token", "scopes", "project", "role"]
"""What is checked of a token, in this order."""
_KINDS = {
    compile_lazily(r"project_\d+_bot"): "project access token",
    compile_lazily(r"group_\d+_bot"): "group access token",
    compile_lazily(r"service_account"): "access token of a service account",
}
_ENDED = {"expired": "it has expired", "revoked": "it was revoked"}
"""By a word of GitLab's message ("Token is expired.", lib/api/api_guard.rb)."""
_OTHER_KINDS = {
    "glcbt-": "a job token",
    "gldt-": "a deploy token",
    "glrt-": "a runner's token",
    "glptt-": "a pipeline trigger token",
    "glft-": "a feed token",
    "glagent-": "a token of the agent for Kubernetes",
}
"""Prefixes of tokens that cannot open merge requests."""


@dataclass(frozen=True)
class Access:
    """A token's user and rights.

    ``scopes`` is None for anything but a personal, project or group access token, and meaningless
    for a ``fine_grained`` one: GitLab does not list its permissions. ``level`` is the user's access
    level (30 is Developer), None for an administrator; ``expires_on`` the day at whose start (UTC)
    the token expires, None for none or an unknown one.
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
        """The kind of token, judged by its user: GitLab makes a bot for each access token."""
        if self.scopes is None:
            return "neither a personal nor a project or group access token (perhaps an OAuth token)"
        if self.fine_grained:
            return "fine-grained token"
        kinds = (kind for names, kind in _KINDS.items() if names.match(self.login))
        return next(kinds, "personal access token")


class AccessRefusal(NightshiftError):
    """``E_CONFIG`` for a token that a night cannot use: ``fact`` is what failed, ``known`` what was
    read before that, None for nothing."""

    def __init__(self, message: str, fact: AccessFact, known: Access | None = None) -> None:
        super().__init__(Code.CONFIG, message)
        self.fact, self.known = fact, known


def read_access(
    client: "Client", project: str, read_project: Callable[[], Mapping[str, Any]]
) -> Access:
    """Ask GitLab about the token. Raises :class:`AccessRefusal` for one that a night cannot use.

    ``read_project`` returns the project's attributes, with the token's ``permissions``.
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
            f"set GITLAB_TOKEN to a token with {TOKEN_RIGHTS}",
            "role",
            known,
        )
    return replace(known, level=level)


def _build_access(token: Mapping[str, Any] | None, user: Mapping[str, Any]) -> Access:
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
    """Read one row of each list that nights read: GitLab does not list such a token's permissions,
    so only a try shows them."""
    for name in _READ_BY_NIGHTS:
        try:
            client.read_rows(f"{build_project_path(project)}/{name}", per_page=1)
        except ApiError as error:
            if error.kind == GRANULAR:
                raise _explain_refusal(error, client, known) from None
            if error.status not in (403, 404):
                raise


def find_developers(
    client: "Client", project: str, users: Iterable[int], least: int = DEVELOPER
) -> frozenset[int]:
    """The active users (ids, 0 for nobody) with at least this access level, inherited or not."""
    asked = sorted(set(users) - {0})[:PAGE]
    if not asked:  # without ids, GitLab would list every member
        return frozenset()
    path = f"{build_project_path(project)}/members/all"
    found = client.read_rows(path, **{"user_ids[]": asked})
    return frozenset(
        int(each["id"])
        for each in found
        if int(each.get("access_level") or 0) >= least and each.get("state") == "active"
    )


def read_member_level(client: "Client", project: str, user: int) -> int:
    """A user's access level in the project, inherited or not; 0 for no member, and if blocked."""
    path = f"{build_project_path(project)}/members/all/{user}"
    found = call_or_none(lambda: client.read_object(path), 404) or {}
    active = found.get("state", "active") == "active"
    return int(found.get("access_level") or 0) if active else 0


def _read_user(client: "Client", token: Mapping[str, Any] | None) -> Mapping[str, Any]:
    try:
        return client.own_user
    except ApiError as error:
        known = _build_access(token, {})
        if error.kind == "insufficient_scope":
            raise _build_scope_error(client, known) from None
        raise _explain_refusal(error, client, known) from None


def parse_day(text: object) -> date | None:
    """The day of an ISO 8601 date or time; None for anything else."""
    try:
        return date.fromisoformat(str(text)[:10])
    except ValueError:
        return None


def _read_token(client: "Client") -> Mapping[str, Any] | None:
    """The token's own attributes; None if it is no personal, project or group access token."""
    # Any scope may read this; other kinds of tokens get 400
    # (lib/api/personal_access_tokens/self_information.rb).
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
    """Levels through invited groups, which ``permissions`` does not contain."""
    path = f"{build_project_path(project)}/members/all/{user_id}"
    member = call_or_none(lambda: client.read_object(path), 403, 404)
    return [member["access_level"]] if member is not None else []


def _explain_refusal(
    error: ApiError, client: "Client", known: Access | None = None
) -> NightshiftError:
    if error.status == 403:
        remedy = error.remedy
        return AccessRefusal(
            f"GitLab at {client.server} refuses GITLAB_TOKEN: {error.reason.rstrip('.')}: "
            f"{remedy.text if remedy else 'ask an administrator of this GitLab'}",
            "scopes" if error.kind == GRANULAR else "token",
            known,
        )
    if error.status != 401:
        return error
    return AccessRefusal(
        f"GitLab at {client.server} rejects GITLAB_TOKEN: {_explain_token(error, client)}. "
        f"Make a project access token with {TOKEN_RIGHTS}",
        "token",
    )


def _explain_token(error: ApiError, client: "Client") -> str:
    """Why GitLab rejects the token. Its prefix, which is no secret, tells its kind."""
    for prefix, kind in _OTHER_KINDS.items():
        if client.has_token_prefix(prefix):
            return f"it is {kind}, which cannot open merge requests"
    ended = (why for word, why in _ENDED.items() if word in error.reason.lower())
    return next(ended, "it is mistyped, expired or revoked, or a job token")


def _build_scope_error(client: "Client", known: Access) -> NightshiftError:
    return AccessRefusal(
        f"GITLAB_TOKEN lacks the scope api on {client.server}: make a token with {TOKEN_RIGHTS}",
        "scopes",
        known,
    )
