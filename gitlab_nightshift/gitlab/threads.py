"""Comments: read one again, who wrote it and where, and answer in its thread."""

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from gitlab_nightshift.gitlab.errors import ApiError
from gitlab_nightshift.records import Place, Where

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

MOST_THREADS = 2000
PAGE = 100

Said = Literal["started", "declined", "failed", "done"]
_REPLY = re.compile(
    r"<!-- nightshift-reply: (started|declined|failed|done) note (\d{1,19}) run ([\w.-]{1,100}) -->"
)


@dataclass(frozen=True)
class Comment:
    """A comment as GitLab has it. ``internal`` ones are seen by members of the project only."""

    id: int
    body: str
    author_id: int
    author_name: str
    system: bool
    internal: bool


@dataclass(frozen=True)
class Noteable:
    """An issue or a merge request."""

    title: str
    description: str
    web_url: str
    confidential: bool


@dataclass(frozen=True)
class Thread:
    """A thread and its comments, in order."""

    id: str
    comments: tuple[Comment, ...]


@dataclass(frozen=True)
class Reply:
    """What a hidden marker says of a reply of this program: to which comment, by which run."""

    said: Said
    note: int
    run_id: str


def write_reply_marker(reply: Reply) -> str:
    """The hidden comment at the end of a reply."""
    return f"<!-- nightshift-reply: {reply.said} note {reply.note} run {reply.run_id} -->"


def read_reply_marker(body: str) -> Reply | None:
    """The last marker of a reply, None where there is none."""
    found = _REPLY.findall(body)
    if not found:
        return None
    said, note, run_id = found[-1]
    return Reply(said, int(note), run_id)


class Threads:
    """The comments of one project behind one token. Every method may raise :class:`ApiError`."""

    def __init__(self, client: "Client", project: str) -> None:
        self._client = client
        self._project = f"/projects/{quote(project, safe='')}"

    def comment(self, place: Place) -> Comment | None:
        """The comment at a place; None where there is none, or it may not be seen."""
        found = self._read(f"{self._noteable(place)}/notes/{place.note}")
        return _comment(found) if found else None

    def noteable(self, place: Place) -> Noteable | None:
        """The issue or merge request that was commented on."""
        found = self._read(self._noteable(place))
        if not found:
            return None
        return Noteable(
            title=str(found.get("title") or ""),
            description=str(found.get("description") or ""),
            web_url=str(found.get("web_url") or ""),
            confidential=found.get("confidential") is True,
        )

    def thread(self, place: Place) -> Thread | None:
        """The thread that holds the comment; the place's own word for it is only tried first."""
        at = f"{self._noteable(place)}/discussions"
        if place.thread:
            thread = _thread(self._read(f"{at}/{quote(place.thread, safe='')}"))
            if thread and _holds(thread, place.note):
                return thread
        listed = self._client.http_list(at, iterator=True, per_page=PAGE)
        every = (_thread(each) for each in itertools.islice(listed, MOST_THREADS))
        return next((each for each in every if each and _holds(each, place.note)), None)

    def level(self, user: int) -> int:
        """GitLab's number of a user's role on the project, by groups too; 0 for none."""
        found = self._read(f"{self._project}/members/all/{user}")
        if found.get("state", "active") != "active":
            return 0
        return int(found.get("access_level") or 0)

    def own_id(self) -> int:
        """The id of the token's own user."""
        return int(self._read("/user").get("id") or 0)

    def is_bot(self, user: int) -> bool:
        """Whether an account is one of GitLab's bots: of an access token or a service."""
        return self._read(f"/users/{user}").get("bot") is True

    def reply(self, place: Place, thread: str, body: str) -> None:
        """Add a comment to a thread; a single comment becomes one by it."""
        at = f"{self._noteable(place)}/discussions/{quote(thread, safe='')}/notes"
        self._client.http_post(at, post_data={"body": body})

    def remark(self, where: Where, iid: int, body: str) -> None:
        """Add a comment of its own to an issue or a merge request."""
        self._client.http_post(f"{self._project}/{where}/{iid}/notes", post_data={"body": body})

    def _noteable(self, place: Place) -> str:
        return f"{self._project}/{place.where}/{place.iid}"

    def _read(self, path: str) -> Mapping[str, Any]:
        return _unless_missing(lambda: self._client.http_get(path))


def _unless_missing(ask: Callable[[], Any]) -> Mapping[str, Any]:
    """What was found as an object, an empty one for a 404."""
    try:
        found = ask()
    except ApiError as error:
        if error.status == 404:
            return {}
        raise
    return found if isinstance(found, dict) else {}


def _thread(data: Mapping[str, Any]) -> Thread | None:
    if not data.get("id"):
        return None
    return Thread(str(data["id"]), tuple(_comment(note) for note in data.get("notes") or ()))


def _holds(thread: Thread, note: int) -> bool:
    return any(comment.id == note for comment in thread.comments)


def _comment(data: Mapping[str, Any]) -> Comment:
    author = data.get("author") or {}
    return Comment(
        id=int(data["id"]),
        body=str(data.get("body") or ""),
        author_id=int(author.get("id") or 0),
        author_name=str(author.get("name") or ""),
        system=data.get("system") is True,
        internal=data.get("internal") is True or data.get("confidential") is True,
    )
