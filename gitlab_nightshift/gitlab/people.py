"""Possible reviewers: users, members of groups and of the project, approvers; who is busy."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from gitlab_nightshift.gitlab.access import MAINTAINER, find_developers
from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none
from gitlab_nightshift.gitlab.history import is_bot_name
from gitlab_nightshift.gitlab.resources import build_project_path

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

OWNER_FILES = ("CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
"""In GitLab's order: it reads only the first that exists (gitlab-org/gitlab#219916)."""
LARGEST_OWNERS = 1_000_000
"""Bytes."""
MOST_PAGES = 10
"""Pages that are read of a list: 1,000 people, rules or merge requests."""


@dataclass(frozen=True)
class GitlabUser:
    """An account. ``active``: neither blocked nor a bot; ``level`` is a member's access level (30
    is Developer), 0 for others."""

    id: int
    username: str
    active: bool = True
    level: int = 0


@dataclass(frozen=True)
class ApprovalRule:
    """A rule of the project: ``required`` of these people have to approve."""

    name: str
    required: int
    people: tuple[GitlabUser, ...]


class People:
    """The people around a project. Of each list at most ``MOST_PAGES`` pages are read. Every method
    but ``has_user`` may raise :class:`ApiError`."""

    def __init__(self, client: "Client", project: str) -> None:
        self._client, self._project = client, project
        self._path = build_project_path(project)

    def find_user(self, name: str) -> GitlabUser | None:
        """The account with this user name, given with or without ``@``."""
        found = self._client.users.list(username=name.lstrip("@"), get_all=False)
        return next((_read_person(user.attributes) for user in found), None)

    def has_user(self, name: str) -> bool | None:
        """Whether GitLab has a user of this name; None if that cannot be found out."""
        try:
            return self.find_user(name) is not None
        except ApiError:
            return None

    def list_group(self, path: str) -> tuple[GitlabUser, ...] | None:
        """The members of a group, inherited ones too; None if the token sees no such group."""
        return self._list_people(f"/groups/{quote(path, safe='')}/members/all")

    def list_members(self) -> tuple[GitlabUser, ...]:
        """The members of the project, inherited ones too."""
        return self._list_people(f"{self._path}/members/all") or ()

    def find_developers(self, users: Iterable[int]) -> frozenset[int]:
        """The users (ids) who are Developers or above."""
        return find_developers(self._client, self._project, users)

    def find_maintainers(self, users: Iterable[int]) -> frozenset[int]:
        """The users (ids) who are Maintainers or Owners."""
        return find_developers(self._client, self._project, users, MAINTAINER)

    def list_rules(self, branch: str) -> tuple[ApprovalRule, ...] | None:
        """The project's approval rules for a target branch; None if GitLab's tier has none, or the
        token may not see them."""
        found = self._read_list(f"{self._path}/approval_rules")
        if found is None:
            return None
        return tuple(
            ApprovalRule(
                str(row.get("name") or "a rule"),
                int(row.get("approvals_required") or 0),
                tuple(map(_read_person, row.get("eligible_approvers") or ())),
            )
            for row in found
            if _applies(row, branch)
        )

    def read_owners_file(self, branch: str) -> str | None:
        """The text of CODEOWNERS on a branch; None if it has none."""
        query = urlencode({"ref": branch})
        for name in OWNER_FILES:
            path = f"{self._path}/repository/files/{quote(name, safe='')}/raw?{query}"
            found = call_or_none(partial(self._client.download, path, LARGEST_OWNERS), 404)
            if found is not None:
                return str(found.decode("utf-8", "replace"))
        return None

    def count_reviews(self) -> Mapping[int, int]:
        """User id → the number of the project's open merge requests with this reviewer."""
        rows = self._read_list(f"{self._path}/merge_requests", state="opened") or []
        return Counter(int(each["id"]) for row in rows for each in row.get("reviewers") or ())

    def is_busy(self, person: GitlabUser) -> bool:
        """True if the person has set the status to busy."""
        status = call_or_none(lambda: self._client.read_object(f"/users/{person.id}/status")) or {}
        return status.get("availability") == "busy"

    def _list_people(self, path: str) -> tuple[GitlabUser, ...] | None:
        found = self._read_list(path)
        return None if found is None else tuple(map(_read_person, found))

    def _read_list(self, path: str, **query: str) -> list[dict[str, Any]] | None:
        return call_or_none(lambda: self._client.read_pages(path, MOST_PAGES, **query))


def _read_person(data: Mapping[str, Any]) -> GitlabUser:
    name = str(data.get("username") or "")
    return GitlabUser(
        int(data["id"]),
        name,
        data.get("state", "active") == "active"
        and not (data.get("bot") is True or is_bot_name(name)),
        int(data.get("access_level") or 0),
    )


def _applies(row: Mapping[str, Any], branch: str) -> bool:
    """True for a regular rule of this branch; one without branches is for all."""
    # Code owners are a rule_type too, but are read from their file.
    names = [str(each.get("name")) for each in row.get("protected_branches") or ()]
    return row.get("rule_type", "regular") == "regular" and (not names or branch in names)
