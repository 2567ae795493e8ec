"""Accounts on GitLab and their rights: the token's own, and whether a night can use it; members of
projects and groups, approvers, bots, and who is busy.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none
from gitlab_nightshift.gitlab.resources import PAGE_SIZE, build_project_path
from gitlab_nightshift.text.gitlab_refusals import TOKEN_RIGHTS
from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

DEVELOPER, MAINTAINER = 30, 40
MISSING_PERMISSION = "insufficient_granular_scope"
"""GitLab's error code if a fine-grained token lacks a permission."""
_READ_BY_NIGHTS = ("merge_requests", "labels", "members/all", "repository/branches")
"""The lists of a project that nights read, by their API paths."""
_KINDS_BY_USER_NAME = {
    compile_lazily(r"project_\d+_bot"): "project access token",
    compile_lazily(r"group_\d+_bot"): "group access token",
    compile_lazily(r"service_account"): "access token of a service account",
}
_INVALID_REASONS = {"expired": "it has expired", "revoked": "it was revoked"}
"""Why a token is no longer valid, by a word of GitLab's message ("Token is expired.",
lib/api/api_guard.rb)."""
_UNUSABLE_KINDS = {
    "glcbt-": "a job token",
    "gldt-": "a deploy token",
    "glrt-": "a runner's token",
    "glptt-": "a pipeline trigger token",
    "glft-": "a feed token",
    "glagent-": "a token of the agent for Kubernetes",
}
"""Prefixes of tokens that cannot open merge requests."""
_BOT_NAME = compile_lazily(
    r"(?:project|group)_\d+_bot(?:_|\d|$)|service_account_|gitlabduo$|gitlab-[\w-]*bot$"
    r"|(?:alert|support|security|migration|automation)-bot\d*$",
    re.IGNORECASE,
)
"""User names that GitLab gives to access tokens, service accounts and its own bots."""


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
        """The kind of token, by its user's name: project and group access tokens have a bot."""
        if self.scopes is None:
            return "neither a personal nor a project or group access token (perhaps an OAuth token)"
        if self.fine_grained:
            return "fine-grained token"
        kinds = (kind for pattern, kind in _KINDS_BY_USER_NAME.items() if pattern.match(self.login))
        return next(kinds, "personal access token")


def read_access(
    client: "Client", project: str, read_project: Callable[[], Mapping[str, Any]]
) -> Access:
    """Ask GitLab about the token. Raises ``E_CONFIG`` for one that a night cannot use.

    ``read_project`` returns the project's attributes, with the token's ``permissions``.
    """
    token = _read_token(client)
    user = _read_user(client)
    access = _build_access(token, user)
    if access.fine_grained:
        _try_reading(client, project)
    elif access.scopes is not None and "api" not in access.scopes:
        raise _build_scope_error(client)
    level = _read_level(client, project, read_project, user)
    if level is not None and level < DEVELOPER:
        raise build_config_error(
            f"the token's user {user['username']} has a role below Developer on {project}: "
            f"set GITLAB_TOKEN to a token with {TOKEN_RIGHTS}"
        )
    return replace(access, level=level)


def _build_access(token: Mapping[str, Any] | None, user: Mapping[str, Any]) -> Access:
    login = user.get("username") or ""
    attributes = token or {}
    return Access(
        user_id=user.get("id") or 0,
        login=login,
        name=user.get("name") or login,
        email=user.get("commit_email") or user.get("email") or "",
        level=0,
        scopes=None if token is None else tuple(token.get("scopes") or ()),
        expires_on=parse_day(attributes.get("expires_at")),
        fine_grained=bool(attributes.get("granular")),
    )


def _try_reading(client: "Client", project: str) -> None:
    """Read one row of each list that nights read: GitLab does not list the permissions of a
    fine-grained token, so only a try shows them."""
    for path in _READ_BY_NIGHTS:
        try:
            client.read_page(f"{build_project_path(project)}/{path}", per_page=1)
        except ApiError as error:
            if error.kind == MISSING_PERMISSION:
                raise _explain_refusal(error, client) from None
            if error.status not in (403, 404):
                raise


def is_bot_name(username: str) -> bool:
    """True for a name that GitLab gives to bots. Other names may be bots too, for which only
    GraphQL and the user's own resource have a field."""
    return _BOT_NAME.match(username) is not None


def find_members(
    client: "Client", project: str, users: Iterable[int], least_level: int
) -> frozenset[int]:
    """The active ones of these users (ids) with at least this access level, inherited or not."""
    # Only one page of members is read, so more ids would be of no use.
    ids = sorted(set(users) - {0})[:PAGE_SIZE]  # 0 is nobody
    if not ids:  # without ids, GitLab would list every member
        return frozenset()
    path = f"{build_project_path(project)}/members/all"
    members = client.read_page(path, **{"user_ids[]": ids})
    return frozenset(
        int(each["id"])
        for each in members
        if int(each.get("access_level") or 0) >= least_level and each.get("state") == "active"
    )


def read_member_level(client: "Client", project: str, user: int) -> int:
    """A user's access level in the project, inherited or not; 0 for no member, and if blocked."""
    path = f"{build_project_path(project)}/members/all/{user}"
    member = call_or_none(lambda: client.read_object(path), 404) or {}
    active = member.get("state", "active") == "active"
    return int(member.get("access_level") or 0) if active else 0


def _read_user(client: "Client") -> Mapping[str, Any]:
    try:
        return client.own_user
    except ApiError as error:
        if error.kind == "insufficient_scope":
            raise _build_scope_error(client) from None
        raise _explain_refusal(error, client) from None


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
        if error.kind == MISSING_PERMISSION:
            return {"granular": True}
        if error.status in (400, 403, 404):
            return None
        raise _explain_refusal(error, client) from None


def _read_level(
    client: "Client",
    project: str,
    read_project: Callable[[], Mapping[str, Any]],
    user: Mapping[str, Any],
) -> int | None:
    """The access level of the token's user, 0 for no member, None for an administrator."""
    try:
        permissions = read_project().get("permissions") or {}
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        if error.kind == MISSING_PERMISSION:
            raise _explain_refusal(error, client) from None
        raise build_config_error(
            f"the token cannot see project {project} on {client.server}: it does not exist, or the "
            f"token's user is not a member"
        ) from None
    levels = [each["access_level"] for each in permissions.values() if each]
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


def _explain_refusal(error: ApiError, client: "Client") -> NightshiftError:
    if error.status == 403:
        remedy = error.remedy
        return build_config_error(
            f"GitLab at {client.server} refuses GITLAB_TOKEN: {error.reason.rstrip('.')}: "
            f"{remedy.text if remedy else 'ask an administrator of this GitLab'}"
        )
    if error.status != 401:
        return error
    return build_config_error(
        f"GitLab at {client.server} rejects GITLAB_TOKEN: {_explain_rejection(error, client)}. "
        f"Make a project access token with {TOKEN_RIGHTS}"
    )


def _explain_rejection(error: ApiError, client: "Client") -> str:
    """Why GitLab rejects the token. Its prefix, which is no secret, tells its kind."""
    for prefix, kind in _UNUSABLE_KINDS.items():
        if client.has_token_prefix(prefix):
            return f"it is {kind}, which cannot open merge requests"
    reasons = (why for word, why in _INVALID_REASONS.items() if word in error.reason.lower())
    return next(reasons, "it is mistyped, expired or revoked, or a job token")


def _build_scope_error(client: "Client") -> NightshiftError:
    return build_config_error(
        f"GITLAB_TOKEN lacks the scope api on {client.server}: make a token with {TOKEN_RIGHTS}"
    )


# --- users, members and approvers -----------------------------------------------------------------

OWNER_FILES = ("CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
"""Paths of CODEOWNERS, in GitLab's order: it reads only the first that exists
(gitlab-org/gitlab#219916)."""
LARGEST_OWNERS_FILE = 1_000_000
"""Bytes."""
MOST_PAGES = 10
"""Pages read of a list: 1,000 users, rules or merge requests."""


@dataclass(frozen=True)
class GitlabUser:
    """An account. ``active``: neither blocked nor a bot; ``level`` is the access level of a member
    (30 is Developer), 0 for other accounts."""

    id: int
    username: str
    active: bool = True
    level: int = 0


@dataclass(frozen=True)
class ApprovalRule:
    """A rule of the project: ``required`` of these approvers have to approve."""

    name: str
    required: int
    approvers: tuple[GitlabUser, ...]


class People:
    """The people of a project, groups and other users. Of each list at most ``MOST_PAGES`` pages
    are read. Every method but ``has_user`` may raise :class:`ApiError`."""

    def __init__(self, client: "Client", project: str) -> None:
        self._client, self._project = client, project
        self._path = build_project_path(project)

    def find_user(self, name: str) -> GitlabUser | None:
        """The account with this user name, with or without a leading ``@``."""
        users = self._client.users.list(username=name.lstrip("@"), get_all=False)
        return next((_build_user(user.attributes) for user in users), None)

    def has_user(self, name: str) -> bool | None:
        """Whether GitLab has a user of this name; None if that cannot be found out."""
        try:
            return self.find_user(name) is not None
        except ApiError:
            return None

    def list_group_members(self, path: str) -> tuple[GitlabUser, ...] | None:
        """The members of a group, inherited ones too; None if the token sees no such group."""
        return self._list_users(f"/groups/{quote(path, safe='')}/members/all")

    def list_members(self) -> tuple[GitlabUser, ...]:
        """The members of the project, inherited ones too."""
        return self._list_users(f"{self._path}/members/all") or ()

    def find_developers(self, users: Iterable[int]) -> frozenset[int]:
        """The users (ids) who are Developers or above."""
        return find_members(self._client, self._project, users, DEVELOPER)

    def find_maintainers(self, users: Iterable[int]) -> frozenset[int]:
        """The users (ids) who are Maintainers or Owners."""
        return find_members(self._client, self._project, users, MAINTAINER)

    def list_approval_rules(self, branch: str) -> tuple[ApprovalRule, ...] | None:
        """The project's approval rules for a target branch; None if GitLab's tier has none, or the
        token may not see them."""
        rows = self._read_list(f"{self._path}/approval_rules")
        if rows is None:
            return None
        return tuple(
            ApprovalRule(
                str(row.get("name") or "a rule"),
                int(row.get("approvals_required") or 0),
                tuple(map(_build_user, row.get("eligible_approvers") or ())),
            )
            for row in rows
            if _is_rule_for(row, branch)
        )

    def read_owners_file(self, branch: str) -> str | None:
        """The text of CODEOWNERS on a branch; None if it has none."""
        query = urlencode({"ref": branch})
        for name in OWNER_FILES:
            path = f"{self._path}/repository/files/{quote(name, safe='')}/raw?{query}"
            content = call_or_none(partial(self._client.download, path, LARGEST_OWNERS_FILE), 404)
            if content is not None:
                return str(content.decode("utf-8", "replace"))
        return None

    def count_open_reviews(self) -> Mapping[int, int]:
        """User id → the number of the project's open merge requests with this reviewer."""
        rows = self._read_list(f"{self._path}/merge_requests", state="opened") or []
        return Counter(int(each["id"]) for row in rows for each in row.get("reviewers") or ())

    def is_busy(self, user: GitlabUser) -> bool:
        """True if the user has set the status to busy."""
        status = call_or_none(lambda: self._client.read_object(f"/users/{user.id}/status")) or {}
        return status.get("availability") == "busy"

    def _list_users(self, path: str) -> tuple[GitlabUser, ...] | None:
        rows = self._read_list(path)
        return None if rows is None else tuple(map(_build_user, rows))

    def _read_list(self, path: str, **query: str) -> list[dict[str, Any]] | None:
        return call_or_none(lambda: self._client.read_pages(path, MOST_PAGES, **query))


def _build_user(data: Mapping[str, Any]) -> GitlabUser:
    name = str(data.get("username") or "")
    return GitlabUser(
        int(data["id"]),
        name,
        data.get("state", "active") == "active"
        and not (data.get("bot") is True or is_bot_name(name)),
        int(data.get("access_level") or 0),
    )


def _is_rule_for(row: Mapping[str, Any], branch: str) -> bool:
    """True for a regular approval rule that is for this branch, or for all."""
    # Code owners are a rule_type too, but are read from CODEOWNERS.
    names = [str(each.get("name")) for each in row.get("protected_branches") or ()]
    return row.get("rule_type", "regular") == "regular" and (not names or branch in names)
