"""Many nights of a project, by GitLab: merge requests, and results until artifacts expire."""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.marker import find_category, read_marker
from gitlab_nightshift.gitlab.memory import is_night_request, read_memory
from gitlab_nightshift.gitlab.resources import PAGE, ProjectFacts
from gitlab_nightshift.records.history_records import NightHistory, PastMergeRequest, PastNight
from gitlab_nightshift.records.products import Outcome

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

MOST_MERGE_REQUESTS = 1000
LONGEST_REASON = 300
LARGEST_RESULT = 4 * 1024 * 1024
JOBS = ("nightshift", "nightshift:publish")
"""The template's jobs that write a night's result."""


@dataclass(frozen=True)
class HistoryRequest:
    """What to read: from ``since`` on at most ``most_nights`` nights (two requests each);
    ``prefix`` of nights' branches, their ``label`` ("" for none), and the path of the result in the
    artifacts."""

    since: date
    most_nights: int
    prefix: str
    label: str
    result_path: str


def read_history(client: "Client", project: ProjectFacts, wanted: HistoryRequest) -> NightHistory:
    """Read the history. Raises ApiError if the merge requests cannot be read."""
    known = read_memory(client, project, wanted.prefix, wanted.label)
    reasons = {each.iid: each.reasons for each in known.rejected}
    merge_requests = tuple(
        _build_merge_request(row, project, reasons)
        for row in _list_merge_requests(client, project, wanted)
    )
    try:
        pipelines = _list_pipelines(client, project, wanted)
        nights = tuple(filter(None, (_read_night(client, project, p, wanted) for p in pipelines)))
    except ApiError as error:
        text = f"the nights of {project.path}: {error}"
        return NightHistory(merge_requests, (), (*known.unknown, text))
    unknown = known.unknown
    if len(pipelines) == wanted.most_nights:
        unknown += (f"nights of {project.path} before the last {wanted.most_nights} pipelines",)
    return NightHistory(merge_requests, nights, unknown)


def _list_merge_requests(
    client: "Client", project: ProjectFacts, wanted: HistoryRequest
) -> Iterator[Mapping[str, Any]]:
    own = {"labels": wanted.label} if wanted.label else {}
    found = client.projects.get(project.id, lazy=True).mergerequests.list(
        iterator=True,
        state="all",
        order_by="created_at",
        per_page=PAGE,
        created_after=f"{wanted.since}T00:00:00Z",
        **own,
    )
    for each in itertools.islice(found, MOST_MERGE_REQUESTS):
        if is_night_request(each.attributes, project, wanted.prefix, wanted.label):
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
    client: "Client", project: ProjectFacts, wanted: HistoryRequest
) -> list[Mapping[str, Any]]:
    """The newest scheduled pipelines of the default branch, whatever ran in them."""
    found = client.projects.get(project.id, lazy=True).pipelines.list(
        source="schedule",
        ref=project.default_branch,
        order_by="id",
        sort="desc",
        per_page=min(PAGE, wanted.most_nights),
        get_all=False,
    )
    # "9" comes after every date: a pipeline without one counts.
    since = str(wanted.since)
    return [
        each.attributes for each in found if str(each.attributes.get("created_at") or "9") >= since
    ]


def _read_night(
    client: "Client", project: ProjectFacts, pipeline: Mapping[str, Any], wanted: HistoryRequest
) -> PastNight | None:
    path = f"/projects/{project.id}"
    jobs = client.read_rows(f"{path}/pipelines/{pipeline['id']}/jobs")
    ended = ("success", "failed")
    own = [job["id"] for job in jobs if job["name"] in JOBS and job["status"] in ended]
    if not own:
        return None
    # Of a retried job, the last try has the result that counts.
    url, started = str(pipeline["web_url"]), str(pipeline.get("created_at") or "")
    lost = PastNight(project.path, str(pipeline["id"]), url, started)
    try:
        data = client.download(
            f"{path}/jobs/{max(own)}/artifacts/{wanted.result_path}", LARGEST_RESULT
        )
        return read_result(json.loads(data), lost)
    except (ApiError, ValueError, RecursionError):
        return lost


def read_result(result: Any, night: PastNight) -> PastNight:
    """The night with what its ``result.json``, of any version, says. A job may have written
    anything there, so each field is checked."""
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
    """The cost of a night in USD, by its result; None if that has no plausible one."""
    cost = result.get("total_cost_usd") if isinstance(result, dict) else None
    # In Python, True is an int.
    known = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e6
    return float(cost) if known and cost is not None else None
