"""Comments of issues and merge requests: read them with author and position, and reply."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from gitlab_nightshift.gitlab.accounts import is_bot_name, read_member_level
from gitlab_nightshift.gitlab.api_error import call_or_none
from gitlab_nightshift.gitlab.resources import PAGE_SIZE, build_project_path
from gitlab_nightshift.records.request import CommentAddress, NoteableKind
from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

MOST_THREADS = 2000

ReplyStatus = Literal["started", "declined", "failed", "done"]
_REPLY = compile_lazily(
    r"<!-- nightshift-reply: (started|declined|failed|done) note (\d{1,19}) run ([\w.-]{1,100}) -->"
)

_UPKEEP = compile_lazily(
    r"<!-- nightshift-upkeep: (repair|review|conflict) run ([\w.-]{1,100}) -->"
)


@dataclass(frozen=True)
class DiffLine:
    """A line of a file in the diff, at the commit ``head``."""

    path: str
    line: int
    head: str


@dataclass(frozen=True)
class Comment:
    """A comment. Only members of the project can see ``internal`` ones.

    ``resolvable``: it is in a thread that people can resolve. ``position`` is its place in the diff
    (``src/a.py:3-5``), ``last_line`` the last line of that, None if the change deletes this line.
    ``created_at`` is ISO 8601.
    """

    id: int
    body: str
    author_id: int
    author_name: str
    system: bool
    internal: bool
    resolvable: bool = False
    resolved: bool = False
    position: str = ""
    last_line: DiffLine | None = None
    created_at: str = ""


@dataclass(frozen=True)
class Noteable:
    """An issue or a merge request."""

    title: str
    description: str
    web_url: str
    confidential: bool
    author_id: int = 0
    source_branch: str = ""


@dataclass(frozen=True)
class Thread:
    """A thread and its comments, in order."""

    id: str
    comments: tuple[Comment, ...]

    @property
    def open(self) -> bool:
        """True until somebody resolves it."""
        return any(each.resolvable and not each.resolved for each in self.comments)


@dataclass(frozen=True)
class UpkeepMarker:
    """The hidden marker in this program's comment about upkeep of a merge request."""

    kind: Literal["repair", "review", "conflict"]
    run_id: str


@dataclass(frozen=True)
class ReplyMarker:
    """The hidden marker in this program's reply to the comment ``note_id``."""

    status: ReplyStatus
    note_id: int
    run_id: str


def write_reply_marker(marker: ReplyMarker) -> str:
    """The hidden comment at the end of a reply."""
    return f"<!-- nightshift-reply: {marker.status} note {marker.note_id} run {marker.run_id} -->"


def read_reply_marker(body: str) -> ReplyMarker | None:
    """The last marker of a reply; None without one."""
    markers = _REPLY.findall(body)
    if not markers:
        return None
    status, note_id, run_id = markers[-1]
    return ReplyMarker(status, int(note_id), run_id)


def write_upkeep_marker(marker: UpkeepMarker) -> str:
    """The hidden comment by which later nights count upkeep."""
    return f"<!-- nightshift-upkeep: {marker.kind} run {marker.run_id} -->"


def read_upkeep_marker(body: str) -> UpkeepMarker | None:
    """The last upkeep marker of a comment; None without one."""
    markers = _UPKEEP.findall(body)
    return UpkeepMarker(*markers[-1]) if markers else None


class Threads:
    """The comments of one project. Every method may raise :class:`ApiError`."""

    def __init__(self, client: "Client", project: str) -> None:
        self._client, self._project = client, project
        self._path = build_project_path(project)

    def find_comment(self, address: CommentAddress) -> Comment | None:
        """The comment at an address; None if it does not exist or the token may not see it."""
        note = self._read(f"{self._build_noteable_path(address)}/notes/{address.note}")
        return _read_comment(note) if note else None

    def find_noteable(self, address: CommentAddress) -> Noteable | None:
        """The issue or merge request that was commented on."""
        noteable = self._read(self._build_noteable_path(address))
        if not noteable:
            return None
        return Noteable(
            title=str(noteable.get("title") or ""),
            description=str(noteable.get("description") or ""),
            web_url=str(noteable.get("web_url") or ""),
            confidential=noteable.get("confidential") is True,
            author_id=int((noteable.get("author") or {}).get("id") or 0),
            source_branch=str(noteable.get("source_branch") or ""),
        )

    def find_thread(self, address: CommentAddress) -> Thread | None:
        """The thread that contains the comment. The thread in the address is tried first, but may
        be another one."""
        path = f"{self._build_noteable_path(address)}/discussions"
        if address.thread:
            thread = _read_thread(self._read(f"{path}/{quote(address.thread, safe='')}"))
            if thread and _contains(thread, address.note):
                return thread
        rows = self._client.http_list(path, iterator=True, per_page=PAGE_SIZE)
        threads = map(_read_thread, itertools.islice(rows, MOST_THREADS))
        return next((each for each in threads if each and _contains(each, address.note)), None)

    def list_threads(self, where: NoteableKind, iid: int) -> tuple[Thread, ...] | None:
        """All threads, oldest first; None if there are more than ``MOST_THREADS``."""
        path = f"{self._path}/{where}/{iid}/discussions"
        rows = self._client.http_list(path, iterator=True, per_page=PAGE_SIZE)
        # One more, to see whether the limit is exceeded.
        threads = [_read_thread(row) for row in itertools.islice(rows, MOST_THREADS + 1)]
        return tuple(filter(None, threads)) if len(threads) <= MOST_THREADS else None

    def list_newest_comments(self, address: CommentAddress) -> tuple[Comment, ...]:
        """The newest 100 comments on an issue or merge request."""
        notes = self._list_newest_notes(self._build_noteable_path(address))
        return tuple(map(_read_comment, notes))

    def edit_comment(self, address: CommentAddress, note: int, body: str) -> None:
        """Replace the text of a comment by this token's user."""
        path = f"{self._build_noteable_path(address)}/notes/{note}"
        self._client.http_put(path, post_data={"body": body})

    def read_level(self, user: int) -> int:
        """A user's access level in the project, inherited or not; 0 for none."""
        return read_member_level(self._client, self._project, user)

    def read_own_id(self) -> int:
        """The id of the token's own user."""
        user = call_or_none(lambda: self._client.own_user, 404) or {}
        return int(user.get("id") or 0)

    def is_bot(self, user: int) -> bool:
        """True for a bot: the user of an access token, or a service account."""
        account = self._read(f"/users/{user}")
        return account.get("bot") is True or is_bot_name(str(account.get("username") or ""))

    def reply(self, address: CommentAddress, thread: str, body: str) -> None:
        """Add a comment to a thread, or to a single comment, which thereby becomes a thread."""
        path = f"{self._build_noteable_path(address)}/discussions/{quote(thread, safe='')}/notes"
        self._client.http_post(path, post_data={"body": body})

    def add_comment(self, where: NoteableKind, iid: int, body: str) -> None:
        """Add a single comment to an issue or a merge request."""
        self._client.http_post(f"{self._path}/{where}/{iid}/notes", post_data={"body": body})

    def add_comment_once(self, where: NoteableKind, iid: int, body: str, marker: str) -> None:
        """Add a comment with ``marker``, unless one of the last 100 has it."""
        notes = self._list_newest_notes(f"{self._path}/{where}/{iid}")
        if not any(marker in str(note.get("body")) for note in notes):
            self.add_comment(where, iid, f"{body}\n\n{marker}")

    def _build_noteable_path(self, address: CommentAddress) -> str:
        return f"{self._path}/{address.where}/{address.iid}"

    def _read(self, path: str) -> Mapping[str, Any]:
        return call_or_none(lambda: self._client.read_object(path), 404) or {}

    def _list_newest_notes(self, path: str) -> list[dict[str, Any]]:
        return self._client.read_page(f"{path}/notes", order_by="created_at", sort="desc")


def _read_thread(data: Mapping[str, Any]) -> Thread | None:
    if not data.get("id"):
        return None
    return Thread(str(data["id"]), tuple(_read_comment(note) for note in data.get("notes") or ()))


def _contains(thread: Thread, note: int) -> bool:
    return any(comment.id == note for comment in thread.comments)


def _read_comment(data: Mapping[str, Any]) -> Comment:
    author = data.get("author") or {}
    return Comment(
        id=int(data["id"]),
        body=str(data.get("body") or ""),
        author_id=int(author.get("id") or 0),
        author_name=str(author.get("name") or ""),
        system=data.get("system") is True,
        # "confidential" is the name of "internal" in older versions.
        internal=data.get("internal") is True or data.get("confidential") is True,
        resolvable=data.get("resolvable") is True,
        resolved=data.get("resolved") is True,
        position=format_position(data.get("position")),
        last_line=_read_diff_line(data.get("position")),
        created_at=str(data.get("created_at") or ""),
    )


def _read_diff_line(position: Any) -> DiffLine | None:
    data = position if isinstance(position, dict) else {}
    path, line, head = (data.get(name) for name in ("new_path", "new_line", "head_sha"))
    # Not isinstance: in Python, True is an int.
    if not (isinstance(path, str) and type(line) is int and isinstance(head, str)):
        return None
    return DiffLine(path, line, head)


def format_position(position: Any) -> str:
    """GitLab's position of a comment on a diff as text (``src/a.py:3-5``), "" for other comments.
    Deleted lines are marked ``(old)``."""
    if not isinstance(position, dict):
        return ""
    path = position.get("new_path") or position.get("old_path")
    line_range = position.get("line_range") or {}
    ends = [_format_line(line_range.get(end)) for end in ("start", "end")] if line_range else []
    lines = list(dict.fromkeys(filter(None, ends))) or [_format_line(position)]
    return f"{path}:{'-'.join(lines)}".rstrip(":") if path else ""


def _format_line(position: Any) -> str:
    data = position if isinstance(position, dict) else {}
    if data.get("new_line"):
        return str(data["new_line"])
    return f"{data['old_line']} (old)" if data.get("old_line") else ""
