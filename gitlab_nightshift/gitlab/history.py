"""Earlier nights as GitLab shows them: open, merged and rejected merge requests, and why they were
rejected; and the history of many nights, with their results until artifacts expire.

Reading what a night remembers (``Memory``) takes as few API requests in a big project as in a small
one: of each list one page is read, newest first, and one GraphQL query returns details of many.
"""

import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.gitlab.accounts import DEVELOPER, find_members, is_bot_name
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.marker import find_category, read_marker
from gitlab_nightshift.gitlab.resources import PAGE_SIZE, ProjectFacts, read_global_id
from gitlab_nightshift.records.history_records import NightHistory, PastMergeRequest, PastNight
from gitlab_nightshift.records.products import KnownMergeRequest, Outcome

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

BATCH = 30
"""Merge requests per query (its ``first: 30``)."""
MOST_REJECTED, MOST_OPENED, MOST_OTHERS = 40, 20, 30
"""Merge requests whose files and comments are read."""
MOST_BY_REST = 2
"""Merge requests that are read if GraphQL fails: each then takes two API requests."""
MOST_COMMENTS, LONGEST_COMMENT = 3, 300
"""The newest comments that count as reasons, and characters of each."""
MOST_FILES = 100
REJECTED_LABELS = frozenset(
    ("wont do", "wontdo", "wont fix", "wontfix", "rejected", "declined", "not planned")
)
"""Labels that mean a rejection, in lower case without apostrophes; of a scoped label, its value."""

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
    """Merge requests of earlier nights by state, and open ones of people (``others``), each newest
    first. ``unknown`` says what could not be read.
    """

    open: tuple[KnownMergeRequest, ...] = ()
    rejected: tuple[KnownMergeRequest, ...] = ()
    merged: tuple[KnownMergeRequest, ...] = ()
    others: tuple[KnownMergeRequest, ...] = ()
    unknown: tuple[str, ...] = ()

    def drop_rejections(self, iids: Collection[int]) -> "Memory":
        """The memory without these rejections, which somebody has withdrawn."""
        return replace(self, rejected=tuple(r for r in self.rejected if r.iid not in iids))


@dataclass(frozen=True)
class _Details:
    """What GitLab's lists of merge requests lack: files, comments (author's id, text), and the ids
    of the users who gave a thumbs-down, or who acted (pushed, approved, changed a label)."""

    files: tuple[str, ...] = ()
    comments: tuple[tuple[int, str], ...] = ()
    thumbs_down: tuple[int, ...] = ()
    actors: tuple[int, ...] = ()

    @property
    def unread(self) -> bool:
        """True if nobody has commented, voted it down or acted."""
        return not (self.comments or self.thumbs_down or self.actors)

    def drop_author(self, author: int | None) -> "_Details":
        """The details without comments and actions of the merge request's author: this program."""
        comments = tuple((user, text) for user, text in self.comments if user != author)
        actors = tuple(user for user in self.actors if user != author)
        return replace(self, comments=comments, actors=actors)


def read_memory(client: "Client", project: ProjectFacts, prefix: str, label: str) -> Memory:
    """Read the memory with at most eight API requests. Raises ApiError if the lists cannot be read.

    A night's merge request has the marker or ``label``, and a source branch of this project (not of
    a fork, where anybody can write a marker) that begins with ``prefix``. The author does not
    count, as it changes with the token.
    """
    # Searching descriptions is slow, so it is done only if labels are off.
    night_filters = {"labels": label} if label else {"search": "nightshift", "in": "description"}
    all_open = _list_page(client, project, state="opened")
    rows = _list_page(client, project, state="all", **night_filters)
    # If the page is full, both lists may lack open ones of nights.
    if len(all_open) == PAGE_SIZE:
        rows += _list_page(client, project, state="opened", **night_filters)
    rows = list({row["iid"]: row for row in (*all_open, *rows)}.values())
    nightly = [row for row in rows if is_night_merge_request(row, project, prefix, label)]
    others = [row for row in all_open if row not in nightly][:MOST_OTHERS]
    nightly_closed = [row for row in nightly if row["state"] == "closed"]
    nightly_open = [row for row in nightly if row["state"] == "opened"]
    detailed = (*nightly_closed[:MOST_REJECTED], *nightly_open[:MOST_OPENED])
    details, unknown = _read_details(client, project, detailed, others)
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


def _is_bot(account: Mapping[str, Any]) -> bool:
    return account.get("bot") is True or is_bot_name(str(account.get("username") or ""))


def _list_page(client: "Client", project: ProjectFacts, **filters: str) -> list[Mapping[str, Any]]:
    path = f"/projects/{project.id}/merge_requests"
    rows = client.read_page(path, order_by="updated_at", **filters)
    return [row for row in rows if "iid" in row]


def is_night_merge_request(
    row: Mapping[str, Any], project: ProjectFacts, prefix: str, label: str
) -> bool:
    """True for a night's merge request; see ``read_memory``."""
    if row.get("source_project_id") != project.id:
        return False
    has_label = label and label in (row.get("labels") or ())
    is_marked = bool(has_label or read_marker(row.get("description")))
    return is_marked and str(row["source_branch"]).startswith(prefix)


def _build_known(
    row: Mapping[str, Any], details: Mapping[int, _Details], developers: frozenset[int]
) -> KnownMergeRequest:
    marker, author = read_marker(row.get("description")), (row.get("author") or {}).get("id")
    row_details = details.get(row["iid"], _Details()).drop_author(author)
    return KnownMergeRequest(
        iid=row["iid"],
        title=row["title"],
        web_url=row["web_url"],
        category=find_category(row["title"], marker),
        source_branch=row["source_branch"],
        files=row_details.files,
        symbols=marker.symbols if marker else (),
        digest=marker.digest if marker else "",
        reasons=tuple(_list_reasons(row, row_details, developers)),
        day=str(row.get("closed_at") or row.get("merged_at") or "")[:10],
        opened=str(row.get("created_at") or "")[:10],
        unread=row["iid"] in details and row_details.unread,
    )


def _list_reasons(
    row: Mapping[str, Any], details: _Details, developers: frozenset[int]
) -> Iterable[str]:
    """Why people rejected a merge request. Only Developers and above count: they may close it."""
    comments = [text for author, text in details.comments if author in developers]
    yield from comments[-MOST_COMMENTS:]
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
    iids = [row["iid"] for row in (*nightly, *others)]
    details: dict[int, _Details] = {}
    try:
        for start in range(0, len(iids), BATCH):
            details |= _ask_graphql(client, project, iids[start : start + BATCH])
    except ApiError as error:
        # REST takes two API requests each, so only for the last rejections: they matter most.
        closed = [row["iid"] for row in nightly if row["state"] == "closed"][:MOST_BY_REST]
        details |= {iid: _ask_rest(client, project, iid) for iid in closed if iid not in details}
        missing = len(iids) - len(details)
        text = f"files and comments of {missing} merge requests: {error}"
        return details, (text,) if missing else ()
    return details, ()


def _ask_graphql(
    client: "Client", project: ProjectFacts, iids: Sequence[int]
) -> dict[int, _Details]:
    variables = {"project": project.path, "iids": list(map(str, iids))}
    answer = client.send_query(_QUERY, variables)
    try:
        nodes = answer["project"]["mergeRequests"]["nodes"]
        return {int(node["iid"]): _read_node(node) for node in nodes}
    except (TypeError, KeyError, ValueError):
        raise ApiError("GraphQL's answer does not have the expected form", lasting=True) from None


def _read_node(node: Mapping[str, Any]) -> _Details:
    thumbs_down = (
        award["user"]
        for award in node["awardEmoji"]["nodes"]
        if award["name"] == "thumbsdown" and not _is_bot(award["user"])
    )
    notes = [
        (note, read_global_id((note.get("author") or {}).get("id")))
        for note in node["notes"]["nodes"]
    ]
    return _Details(
        files=tuple(file["path"] for file in (node["diffStats"] or ())[:MOST_FILES]),
        comments=tuple(_read_comments(notes)),
        thumbs_down=tuple(read_global_id(user.get("id")) for user in thumbs_down),
        actors=tuple(_list_actors(notes)),
    )


def _ask_rest(client: "Client", project: ProjectFacts, iid: int) -> _Details:
    path = f"/projects/{project.id}/merge_requests/{iid}"
    notes = client.read_page(f"{path}/notes", per_page=30, sort="desc")
    diffs = client.read_page(f"{path}/diffs", per_page=MOST_FILES)
    # Oldest first, as GraphQL lists them.
    pairs = ((note, int((note.get("author") or {}).get("id") or 0)) for note in reversed(notes))
    return _Details(tuple(diff["new_path"] for diff in diffs), tuple(_read_comments(pairs)))


def _read_comments(notes: Iterable[tuple[Mapping[str, Any], int]]) -> Iterable[tuple[int, str]]:
    """People's comments (author's id, text), one line each, without commands for this program."""
    for note, author in notes:
        text = " ".join(str(note.get("body") or "")[: 10 * LONGEST_COMMENT].split())
        bot = _is_bot(note.get("author") or {})
        if text and not (note.get("system") or bot or text.startswith("/")):
            yield author, text[:LONGEST_COMMENT]


def _list_actors(notes: Iterable[tuple[Mapping[str, Any], int]]) -> Iterable[int]:
    """The ids of the people whose actions GitLab's system notes record."""
    for note, author in notes:
        if note.get("system") and author and not _is_bot(note.get("author") or {}):
            yield author


def _find_developers(
    client: "Client", project: ProjectFacts, details: Iterable[_Details]
) -> frozenset[int]:
    user_ids = itertools.chain.from_iterable(
        (*each.thumbs_down, *(author for author, _ in each.comments)) for each in details
    )
    return find_members(client, str(project.id), user_ids, DEVELOPER)


# --- many nights, with their results --------------------------------------------------------------

MOST_MERGE_REQUESTS = 1000
LONGEST_REASON, LARGEST_RESULT = 300, 4 * 1024 * 1024
"""Characters of a night's failure, bytes of its result."""
RESULT_JOBS = ("nightshift", "nightshift:publish")
"""The template's jobs that write a night's result."""


@dataclass(frozen=True)
class HistoryRequest:
    """Which history to read: from ``since`` on, at most ``most_nights`` nights (two API
    requests each).
    Nights' branches begin with ``prefix``, their merge requests have ``label`` ("" for none), and
    ``result_path`` is the path of their results in the artifacts."""

    since: date
    most_nights: int
    prefix: str
    label: str
    result_path: str


def read_history(client: "Client", project: ProjectFacts, request: HistoryRequest) -> NightHistory:
    """Read the history. Raises ApiError if the merge requests cannot be read."""
    memory = read_memory(client, project, request.prefix, request.label)
    reasons = {each.iid: each.reasons for each in memory.rejected}
    merge_requests = tuple(
        _build_merge_request(row, project, reasons)
        for row in _list_merge_requests(client, project, request)
    )
    try:
        pipelines = _list_pipelines(client, project, request)
        nights = tuple(filter(None, (_read_night(client, project, p, request) for p in pipelines)))
    except ApiError as error:
        text = f"the nights of {project.path}: {error}"
        return NightHistory(merge_requests, (), (*memory.unknown, text))
    unknown = memory.unknown
    if len(pipelines) == request.most_nights:
        unknown += (f"nights of {project.path} before the last {request.most_nights} pipelines",)
    return NightHistory(merge_requests, nights, unknown)


def _list_merge_requests(
    client: "Client", project: ProjectFacts, request: HistoryRequest
) -> Iterator[Mapping[str, Any]]:
    filters = {"labels": request.label} if request.label else {}
    merge_requests = client.projects.get(project.id, lazy=True).mergerequests.list(
        iterator=True,
        state="all",
        order_by="created_at",
        per_page=PAGE_SIZE,
        created_after=f"{request.since}T00:00:00Z",
        **filters,
    )
    for each in itertools.islice(merge_requests, MOST_MERGE_REQUESTS):
        if is_night_merge_request(each.attributes, project, request.prefix, request.label):
            yield each.attributes


def _build_merge_request(
    row: Mapping[str, Any], project: ProjectFacts, reasons: Mapping[int, tuple[str, ...]]
) -> PastMergeRequest:
    marker = read_marker(row.get("description"))
    return PastMergeRequest(
        project=project.path,
        iid=row["iid"],
        title=row["title"],
        web_url=row["web_url"],
        category=find_category(row["title"], marker),
        state=row["state"],
        opened=str(row.get("created_at") or ""),
        ended=str(row.get("merged_at") or row.get("closed_at") or ""),
        run_id=marker.run_id if marker else "",
        reasons=reasons.get(row["iid"], ()),
        reviewers=tuple(str(each.get("username")) for each in row.get("reviewers") or ()),
    )


def _list_pipelines(
    client: "Client", project: ProjectFacts, request: HistoryRequest
) -> list[Mapping[str, Any]]:
    """The newest scheduled pipelines of the default branch, nights or not."""
    pipelines = client.projects.get(project.id, lazy=True).pipelines.list(
        source="schedule",
        ref=project.default_branch,
        order_by="id",
        sort="desc",
        per_page=min(PAGE_SIZE, request.most_nights),
        get_all=False,
    )
    # "9" comes after every date: a pipeline without one counts.
    since = str(request.since)
    return [
        each.attributes
        for each in pipelines
        if str(each.attributes.get("created_at") or "9") >= since
    ]


def _read_night(
    client: "Client", project: ProjectFacts, pipeline: Mapping[str, Any], request: HistoryRequest
) -> PastNight | None:
    path = f"/projects/{project.id}"
    jobs = client.read_page(f"{path}/pipelines/{pipeline['id']}/jobs")
    ended = ("success", "failed")
    job_ids = [job["id"] for job in jobs if job["name"] in RESULT_JOBS and job["status"] in ended]
    if not job_ids:
        return None
    url, started = str(pipeline["web_url"]), str(pipeline.get("created_at") or "")
    without_result = PastNight(project.path, str(pipeline["id"]), url, started)
    # The result of the last job counts, if a job was retried.
    artifact = f"{path}/jobs/{max(job_ids)}/artifacts/{request.result_path}"
    try:
        data = client.download(artifact, LARGEST_RESULT)
        return read_result(json.loads(data), without_result)
    except (ApiError, ValueError, RecursionError):
        return without_result


def read_result(result: Any, night: PastNight) -> PastNight:
    """Add the data of ``result.json`` (of any version) to a night. Each field is checked: a job may
    have written anything."""
    if not isinstance(result, dict):
        return night
    outcome, code = str(result.get("outcome") or "")[:40], str(result.get("error_code") or "")[:40]
    failed = bool(code) or outcome == Outcome.FAILED
    reason = str(result.get("reason") or "no reason given")[:LONGEST_REASON]
    return PastNight(
        night.project,
        night.run_id,
        night.web_url,
        night.started or str(result.get("started_at") or "")[:40],
        outcome,
        str(result.get("category_used") or "")[:100],
        find_cost(result),
        ": ".join(filter(None, (code, reason))) if failed else "",
    )


def find_cost(result: object) -> float | None:
    """The cost in USD in a night's ``result.json``; None if it has no plausible figure."""
    cost = result.get("total_cost_usd") if isinstance(result, dict) else None
    # In Python, True is an int.
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        return None
    return float(cost) if 0 <= cost < 1e6 else None
