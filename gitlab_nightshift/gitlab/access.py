"""Who a token is and whether it may do what a night needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.errors import NightshiftError, config_error
from gitlab_nightshift.gitlab.errors import ApiError

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

DEVELOPER = 30
WANTED = "role Developer, scopes api and write_repository"


@dataclass(frozen=True)
class Access:
    """A token's user and rights.

    ``scopes`` is None where GitLab does not tell (no personal, project or group access token);
    ``level`` is GitLab's number of the role (30 is Developer), None for an administrator.
    """

    user_id: int
    login: str
    name: str
    email: str
    level: int | None
    scopes: tuple[str, ...] | None


def read_access(client: "Client", project: str) -> Access:
    """Ask GitLab about the token. Raises ``E_CONFIG`` for one that a night cannot work with."""
    scopes = _scopes(client)
    user = _user(client)
    if scopes is not None and "api" not in scopes:
        raise _no_api_scope(client)
    level = _level(client, project, user)
    if level is not None and level < DEVELOPER:
        raise config_error(
            f"the token's user {user['username']} has less than the role Developer on {project}: "
            f"give GITLAB_TOKEN a token with {WANTED}"
        )
    return Access(
        user_id=user["id"],
        login=user["username"],
        name=user.get("name") or user["username"],
        email=user.get("commit_email") or user.get("email") or "",
        level=level,
        scopes=scopes,
    )


def _user(client: "Client") -> Mapping[str, Any]:
    try:
        return _get(client, "/user")
    except ApiError as error:
        if error.status == 403:
            raise _no_api_scope(client) from None
        raise _refused(error, client) from None


def _scopes(client: "Client") -> tuple[str, ...] | None:
    try:
        return tuple(_get(client, "/personal_access_tokens/self").get("scopes") or ())
    except ApiError as error:
        if error.status in (400, 403, 404):
            return None
        raise _refused(error, client) from None


def _level(client: "Client", project: str, user: Mapping[str, Any]) -> int | None:
    try:
        granted = _get(client, f"/projects/{_encoded(project)}").get("permissions") or {}
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        raise config_error(
            f"the token cannot see project {project} on {client.server}: it does not exist, or the "
            f"token's user is no member of it"
        ) from None
    levels = [each["access_level"] for each in granted.values() if each]
    if not levels:
        levels = _shared_level(client, project, user["id"])
    if not levels and user.get("is_admin"):
        return None
    return max(levels, default=0)


def _shared_level(client: "Client", project: str, user_id: int) -> list[int]:
    """The role that comes by an invited group: the project itself does not show that one."""
    try:
        member = _get(client, f"/projects/{_encoded(project)}/members/all/{user_id}")
    except ApiError as error:
        if error.status in (403, 404):
            return []
        raise
    return [member["access_level"]]


def _get(client: "Client", path: str) -> dict[str, Any]:
    found = client.http_get(path)
    return found if isinstance(found, dict) else {}


def _encoded(project: str) -> str:
    from urllib.parse import quote

    return quote(project, safe="")


def _refused(error: ApiError, client: "Client") -> NightshiftError:
    if error.status != 401:
        return error
    return config_error(
        f"GitLab at {client.server} refuses GITLAB_TOKEN: it is mistyped, expired or revoked, or a "
        f"job token. Make a project access token with {WANTED}"
    )


def _no_api_scope(client: "Client") -> NightshiftError:
    return config_error(
        f"GITLAB_TOKEN lacks the scope api on {client.server}: make a token with {WANTED}"
    )
