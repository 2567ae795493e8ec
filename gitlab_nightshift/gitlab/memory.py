"""What GitLab knows of earlier nights: open, merged and rejected merge requests, and why.

One plan may ask for a project of any size: lists are one page each, newest first, and what a merge
request's own resource would have to be asked for comes for many at once by GraphQL.
"""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.gitlab.access import find_developers
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.marker import find_category, read_marker
from gitlab_nightshift.gitlab.resources import ProjectFacts, read_global_id
from gitlab_nightshift.records.products import KnownMergeRequest
from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

PAGE = 100
"""Merge requests of each list; older ones are forgotten."""
BATCH = 30
MOST_REJECTED, MOST_OPENED, MOST_OTHERS = 40, 20, 30
"""Merge requests whose files and comments are read."""
MOST_BY_REST = 2
"""The same where GraphQL does not answer: each costs two requests."""
MOST_COMMENTS, LONGEST_COMMENT = 3, 300
MOST_FILES = 100
REJECTED_LABELS = frozenset(
    ("wont do", "wontdo", "wont fix", "wontfix", "rejected", "declined", "not planned")
)
"""Labels that say no, scoped ones by their value; without marks and capitals."""

_BOT = compile_lazily(
    r"(?:project|group)_\d+_bot(?:_|\d|$)|service_account_|gitlabduo$|gitlab-[\w-]*bot$"
    r"|(?:alert|support|security|migration|automation)-bot\d*$",
    re.IGNORECASE,
)
"""GitLab's names for the users of access tokens, for service accounts and for its own helpers."""
_QUERY = """
query($project: ID!, $iids: [String!]) {
  project(fullPath: $project) {
    mergeRequests(iids: $iids, first: 30) {
      nodes {
        iid
        diffStats { path }
        awardEmoji { nodes { name user { id username bot } } }
        notes(last: 30) { nodes { body system author { id username bot } } }
      }
    }
  }
}
"""


@dataclass(frozen=True)
class Memory:
    """Merge requests of earlier nights by state, and ``others`` that are open now, newest first.

    ``unknown`` says what could not be read.
    """

    opened: tuple[KnownMergeRequest, ...] = ()
    rejected: tuple[KnownMergeRequest, ...] = ()
    merged: tuple[KnownMergeRequest, ...] = ()
    others: tuple[KnownMergeRequest, ...] = ()
    unknown: tuple[str, ...] = ()

    def restore(self, iids: Collection[int]) -> "Memory":
        """Without these rejections: a person has taken them back."""
        return replace(self, rejected=tuple(r for r in self.rejected if r.iid not in iids))


@dataclass(frozen=True)
class _Details:
    """What a list does not say: files, comments (author's id, text), who put a thumb down, and who
    has done something: pushed, approved, changed a label."""

    files: tuple[str, ...] = ()
    comments: tuple[tuple[int, str], ...] = ()
    thumbs_down: tuple[int, ...] = ()
    acted: tuple[int, ...] = ()

    @property
    def unread(self) -> bool:
        """Whether nobody has said or done anything."""
        return not (self.comments or self.thumbs_down or self.acted)

    def leave_out(self, author: int | None) -> "_Details":
        """Without what the merge request's own author says and does: this program, by its token."""
        said = tuple(each for each in self.comments if each[0] != author)
        return replace(self, comments=said, acted=tuple(a for a in self.acted if a != author))


def read_memory(client: "Client", project: ProjectFacts, prefix: str, label: str) -> Memory:
    """Read it by at most eight requests. A night's merge request has a source branch in this very
    project that begins with ``prefix``, and the marker or ``label``: an author changes with the
    token, a fork's texts are anybody's. Raises ApiError where the lists cannot be read."""
    # Where labels are off, the marker's own word is searched for: slower, so only then.
    own = {"labels": label} if label else {"search": "nightshift", "in": "description"}
    opened = _list_page(client, project, state="opened")
    known = _list_page(client, project, state="all", **own)
    if len(opened) == PAGE:
        known += _list_page(client, project, state="opened", **own)
    known = list({row["iid"]: row for row in (*opened, *known)}.values())
    nightly = [row for row in known if is_of_night(row, project, prefix, label)]
    others = [row for row in opened if row not in nightly][:MOST_OTHERS]
    wanted = [
        row
        for state, most in (("closed", MOST_REJECTED), ("opened", MOST_OPENED))
        for row in [each for each in nightly if each["state"] == state][:most]
    ]
    details, unknown = _read_details(client, project, wanted, others)
    developers = _find_developers(client, project, details.values())
    by_state: dict[str, list[KnownMergeRequest]] = {"opened": [], "closed": [], "merged": []}
    for row in nightly:
        by_state.get(row["state"], []).append(_build_known(row, details, developers))
    return Memory(
        tuple(by_state["opened"]),
        tuple(by_state["closed"]),
        tuple(by_state["merged"]),
        tuple(_build_known(row, details, frozenset()) for row in others),
        unknown,
    )


def is_bot_name(username: str) -> bool:
    """True for the user of an access token, and other accounts that GitLab names so. Whoever has
    another name may be one, too: GraphQL and an account's own resource tell."""
    return _BOT.match(username) is not None


def _is_bot(account: Mapping[str, Any]) -> bool:
    return account.get("bot") is True or is_bot_name(str(account.get("username") or ""))


def _list_page(client: "Client", project: ProjectFacts, **filters: str) -> list[Mapping[str, Any]]:
    path = f"/projects/{project.id}/merge_requests"
    found = client.read_rows(path, order_by="updated_at", **filters)
    return [row for row in found if "iid" in row]


def is_of_night(row: Mapping[str, Any], project: ProjectFacts, prefix: str, label: str) -> bool:
    """True for a night's merge request, from this very project; see ``read_memory``."""
    if row.get("source_project_id") != project.id:
        return False
    marked = read_marker(row.get("description")) or (label and label in (row.get("labels") or ()))
    return bool(marked) and str(row["source_branch"]).startswith(prefix)


def _build_known(
    row: Mapping[str, Any], details: Mapping[int, _Details], developers: frozenset[int]
) -> KnownMergeRequest:
    marker, author = read_marker(row.get("description")), (row.get("author") or {}).get("id")
    more = details.get(row["iid"], _Details()).leave_out(author)
    return KnownMergeRequest(
        iid=row["iid"],
        title=row["title"],
        web_url=row["web_url"],
        category=find_category(row["title"], marker),
        source_branch=row["source_branch"],
        files=more.files,
        symbols=marker.symbols if marker else (),
        digest=marker.digest if marker else "",
        reasons=tuple(_list_reasons(row, more, developers)),
        day=str(row.get("closed_at") or row.get("merged_at") or "")[:10],
        opened=str(row.get("created_at") or "")[:10],
        unread=row["iid"] in details and more.unread,
    )


def _list_reasons(
    row: Mapping[str, Any], details: _Details, developers: frozenset[int]
) -> Iterable[str]:
    """Why people refuse it, in their words: those who may close it, so Developers and up."""
    said = [text for author, text in details.comments if author in developers]
    yield from said[-MOST_COMMENTS:]
    if thumbs := len(developers.intersection(details.thumbs_down)):
        yield f"thumbs down by {thumbs}"
    for name in row.get("labels") or ():
        plain = re.sub(r"['’]", "", name.rpartition("::")[2]).strip().lower()
        if plain in REJECTED_LABELS:
            yield f"label {name}"


# --- files and comments ---------------------------------------------------------------------------


def _read_details(
    client: "Client",
    project: ProjectFacts,
    nightly: Sequence[Mapping[str, Any]],
    others: Sequence[Mapping[str, Any]],
) -> tuple[dict[int, _Details], tuple[str, ...]]:
    """By number; and what stays unknown."""
    iids = [row["iid"] for row in (*nightly, *others)]
    found: dict[int, _Details] = {}
    try:
        for batch in _split(iids, BATCH):
            found |= _ask_graphql(client, project, batch)
    except ApiError as error:
        closed = [row["iid"] for row in nightly if row["state"] == "closed"][:MOST_BY_REST]
        found |= {iid: _ask_rest(client, project, iid) for iid in closed if iid not in found}
        missing = len(iids) - len(found)
        text = f"files and comments of {missing} merge requests: {error}"
        return found, (text,) if missing else ()
    return found, ()


def _split(iids: Sequence[int], size: int) -> Iterable[Sequence[int]]:
    return (iids[at : at + size] for at in range(0, len(iids), size))


def _ask_graphql(
    client: "Client", project: ProjectFacts, iids: Sequence[int]
) -> dict[int, _Details]:
    values = {"project": project.path, "iids": list(map(str, iids))}
    answer = client.send_query(_QUERY, values)
    try:
        nodes = answer["project"]["mergeRequests"]["nodes"]
        return {int(node["iid"]): _read_node(node) for node in nodes}
    except (TypeError, KeyError, ValueError):
        raise ApiError("GraphQL's answer does not have the expected form", lasting=True) from None


def _read_node(node: Mapping[str, Any]) -> _Details:
    thumbs = (
        each["user"]
        for each in node["awardEmoji"]["nodes"]
        if each["name"] == "thumbsdown" and not _is_bot(each["user"])
    )
    notes = [
        (note, read_global_id((note.get("author") or {}).get("id")))
        for note in node["notes"]["nodes"]
    ]
    return _Details(
        tuple(each["path"] for each in (node["diffStats"] or ())[:MOST_FILES]),
        tuple(_read_comments(notes)),
        tuple(read_global_id(each.get("id")) for each in thumbs),
        tuple(_list_acting(notes)),
    )


def _ask_rest(client: "Client", project: ProjectFacts, iid: int) -> _Details:
    at = f"/projects/{project.id}/merge_requests/{iid}"
    notes = client.read_rows(f"{at}/notes", per_page=30, sort="desc")
    diffs = client.read_rows(f"{at}/diffs", per_page=MOST_FILES)
    pairs = ((note, int((note.get("author") or {}).get("id") or 0)) for note in reversed(notes))
    return _Details(tuple(each["new_path"] for each in diffs), tuple(_read_comments(pairs)))


def _read_comments(notes: Iterable[tuple[Mapping[str, Any], int]]) -> Iterable[tuple[int, str]]:
    """Comments by people, as one line each; orders for this program are no reasons."""
    for note, author in notes:
        text = " ".join(str(note.get("body") or "")[: 10 * LONGEST_COMMENT].split())
        bot = _is_bot(note.get("author") or {})
        if text and not (note.get("system") or bot or text.startswith("/")):
            yield author, text[:LONGEST_COMMENT]


def _list_acting(notes: Iterable[tuple[Mapping[str, Any], int]]) -> Iterable[int]:
    """Who stands in GitLab's own notes, but for its bots."""
    for note, author in notes:
        if note.get("system") and author and not _is_bot(note.get("author") or {}):
            yield author


def _find_developers(
    client: "Client", project: ProjectFacts, details: Iterable[_Details]
) -> frozenset[int]:
    spoke = itertools.chain.from_iterable(
        (*each.thumbs_down, *(author for author, _ in each.comments)) for each in details
    )
    return find_developers(client, str(project.id), spoke)
