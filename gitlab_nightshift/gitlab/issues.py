"""Issues that this program maintains: find, open and edit them, and see who changed them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client


@dataclass(frozen=True)
class Issue:
    """An issue in GitLab."""

    iid: int
    web_url: str
    description: str


@dataclass(frozen=True)
class SystemNote:
    """GitLab's own note about a change, and who made it."""

    id: int
    body: str
    author_id: int
    author: str


class Issues:
    """The issues of the project with this id. Every method may raise ApiError."""

    def __init__(self, client: "Client", project: int) -> None:
        self._client, self._path = client, f"/projects/{project}/issues"

    def find_own(self, author: int, marker: str) -> Issue | None:
        """The oldest open issue of this author with the marker in its description, else the oldest
        closed one. Others can copy the marker, but not the author."""
        # By default, GitLab orders by creation (doc/api/issues.md).
        rows = self._client.read_page(self._path, author_id=author, sort="asc")
        issues = [
            row
            for row in rows
            if (row.get("author") or {}).get("id") == author
            and marker in str(row.get("description") or "")
        ]
        issue = min(issues, key=lambda row: (row["state"] != "opened", row["iid"]), default=None)
        return _read_issue(issue) if issue else None

    def find(self, iid: int) -> Issue | None:
        """The issue with this number; None if there is none."""
        issue = call_or_none(lambda: self._client.http_get(f"{self._path}/{iid}"), 404)
        return None if issue is None else _read_issue(issue)

    def open_issue(self, title: str, description: str, *, confidential: bool) -> Issue:
        """Open an issue."""
        data = {"title": title, "description": description, "confidential": confidential}
        return _read_issue(self._client.http_post(self._path, post_data=data))

    def edit_description(self, iid: int, description: str) -> None:
        """Replace the description. It is safe to repeat."""
        path, data = f"{self._path}/{iid}", {"description": description}
        self._client.send_idempotent(self._client.http_put, path, post_data=data)

    def list_system_notes(self, iid: int, pages: int = 1) -> tuple[SystemNote, ...]:
        """The newest system notes, from at most ``pages`` pages of all notes."""
        # GitLab has no filter for system notes: comments fill the pages too.
        notes = self._client.read_pages(
            f"{self._path}/{iid}/notes", pages, sort="desc", order_by="created_at"
        )
        return tuple(_read_note(note) for note in notes if note.get("system"))


def _read_issue(data: Any) -> Issue:
    if not isinstance(data, dict) or not isinstance(data.get("iid"), int):
        raise ApiError("GitLab's answer is not an issue", lasting=True)
    return Issue(data["iid"], data.get("web_url") or "", data.get("description") or "")


def _read_note(data: Mapping[str, Any]) -> SystemNote:
    author = data.get("author") or {}
    name = str(author.get("username") or "a deleted account")
    return SystemNote(data["id"], str(data.get("body") or ""), int(author.get("id") or 0), name)
