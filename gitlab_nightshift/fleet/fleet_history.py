"""A fleet's past nights and merge requests, read from GitLab, and the report of them.

Merge requests are read by group, 100 per page. A night's result is read once, before its artifacts
expire, and kept for the next report in ``fleet-nights.json``, in the report job's artifacts.
Without that file, results whose artifacts still exist are read again; the others are unknown.
"""

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.fleet.choice import find_exclusion
from gitlab_nightshift.fleet.discovery import build_key, discover, list_nights
from gitlab_nightshift.fleet.fleet_settings import FleetSettings
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.fleet_api import ControlJob, FleetApi, Node
from gitlab_nightshift.gitlab.history import read_result
from gitlab_nightshift.gitlab.marker import find_category
from gitlab_nightshift.gitlab.resources import read_global_id
from gitlab_nightshift.records.fleet_records import Discovery, FleetNight, FleetProject
from gitlab_nightshift.records.history_records import NightHistory, PastMergeRequest, PastNight
from gitlab_nightshift.records.storage import to_json
from gitlab_nightshift.records.usage import format_usd
from gitlab_nightshift.stages.report.history_report import (
    HistoryFigures,
    compute_figures,
    render_history,
    render_metrics,
)
from gitlab_nightshift.stages.report.result_texts import Notification, disable_markup
from gitlab_nightshift.text.printable_text import count_words

NIGHTS_FILE, REPORT_JOB = "fleet-nights.json", "fleet:report"
NIGHTS_VERSION = 1
KEPT_FOR = dt.timedelta(days=400)
"""The file keeps a night this long."""
# GraphQL's fields of merge requests, for both queries.
_MR_FIELDS = """
  pageInfo { hasNextPage endCursor }
  nodes { iid title state createdAt mergedAt updatedAt webUrl sourceProjectId
    project { id fullPath } reviewers { nodes { username } } }
"""
_GROUP_QUERY = f"""
query($group: ID!, $labels: [String!], $since: Time, $first: Int, $after: String) {{
  group(fullPath: $group) {{ mergeRequests(includeSubgroups: true, labels: $labels,
    createdAfter: $since, sort: CREATED_DESC, first: $first, after: $after) {{ {_MR_FIELDS} }} }}
}}
"""
_PROJECT_QUERY = f"""
query($project: ID!, $labels: [String!], $since: Time, $first: Int, $after: String) {{
  project(fullPath: $project) {{ mergeRequests(labels: $labels, createdAfter: $since,
    sort: CREATED_DESC, first: $first, after: $after) {{ {_MR_FIELDS} }} }}
}}
"""
Nights = Mapping[str, PastNight]
"""``<project's id>/<pipeline's id>`` → night."""


@dataclass(frozen=True)
class FleetHistory:
    """A fleet's history. ``silent`` are the projects that are set up but had no night; ``nights``
    need not be read again for the next report."""

    history: NightHistory
    silent: tuple[str, ...]
    nights: Nights
    discovery: Discovery


def read_fleet_history(
    api: FleetApi, settings: FleetSettings, since: dt.date, known_nights: Nights
) -> FleetHistory:
    """Read the history from ``since`` on (UTC); ``known_nights`` are those of the last report.
    Raises ApiError if the projects or merge requests cannot be listed."""
    discovery = discover(api, settings)
    start = dt.datetime.combine(since, dt.time(), dt.UTC)
    projects = {each.id: each for each in discovery.projects}
    requests = tuple(_list_requests(api, settings, start, projects))
    nights, unknown = _read_nights(api, discovery.projects, start, known_nights)
    # A report over a longer time must not lose nights that are older than KEPT_FOR.
    first_day = min(since, dt.datetime.now(dt.UTC).date() - KEPT_FOR)
    kept = {key: night for key, night in known_nights.items() if night.started >= str(first_day)}
    newest_first = sorted(nights.values(), key=lambda night: night.started, reverse=True)
    history = NightHistory(requests, tuple(newest_first), (*discovery.unknown, *unknown))
    with_result = {key: night for key, night in nights.items() if night.outcome or night.failure}
    silent = _list_silent(settings, discovery, nights)
    return FleetHistory(history, silent, {**kept, **with_result}, discovery)


def _list_silent(settings: FleetSettings, discovery: Discovery, nights: Nights) -> tuple[str, ...]:
    with_nights = {key.partition("/")[0] for key in nights}
    return tuple(
        each.path
        for each in discovery.projects
        if each.set_up and str(each.id) not in with_nights and not find_exclusion(settings, each)
    )


# --- merge requests -------------------------------------------------------------------------------


def _list_requests(
    api: FleetApi,
    settings: FleetSettings,
    since: dt.datetime,
    projects: Mapping[int, FleetProject],
) -> Iterator[PastMergeRequest]:
    """The merge requests from the projects' own branches, each once."""
    variables = {"labels": [settings.label], "since": since.isoformat()}
    # Two entries of fleet.yaml may list a merge request: a group or project may have moved.
    seen: set[tuple[int, int]] = set()
    for node in _list_nodes(api, settings, variables):
        project = read_global_id((node.get("project") or {}).get("id"))
        iid = int(node.get("iid") or 0)
        # Not from a fork: anybody may give a fork's merge request the label.
        is_own = project in projects and node.get("sourceProjectId") == project
        if is_own and (project, iid) not in seen:
            seen.add((project, iid))
            yield _read_request(projects[project].path, iid, node)


def _list_nodes(
    api: FleetApi, settings: FleetSettings, variables: Mapping[str, Any]
) -> Iterator[Node]:
    for query, name, paths in (
        (_GROUP_QUERY, "group", settings.groups),
        (_PROJECT_QUERY, "project", settings.projects),
    ):
        for path in paths:
            nodes = api.list_nodes(query, {name: path, **variables}, (name, "mergeRequests"))
            yield from nodes or ()


def _read_request(project: str, iid: int, node: Node) -> PastMergeRequest:
    state, title = str(node.get("state") or ""), str(node.get("title") or "")
    reviewers = (node.get("reviewers") or {}).get("nodes") or ()
    ended = node.get("mergedAt") or (node.get("updatedAt") if state == "closed" else "")
    return PastMergeRequest(
        project=project,
        iid=iid,
        title=title,
        web_url=str(node.get("webUrl") or ""),
        category=find_category(title, None),
        state=state,
        opened=str(node.get("createdAt") or ""),
        ended=str(ended or ""),
        run_id="",
        reviewers=tuple(str(each.get("username")) for each in reviewers if each),
    )


# --- nights ---------------------------------------------------------------------------------------


def _read_nights(
    api: FleetApi, projects: Iterable[FleetProject], since: dt.datetime, known_nights: Nights
) -> tuple[Nights, tuple[str, ...]]:
    """The nights, and what could not be read."""
    nights: dict[str, PastNight] = {}
    unread: list[tuple[FleetProject, FleetNight]] = []
    for project in projects:
        for night in list_nights(api, project, since, known_nights):
            key = build_key(project, night)
            if key in known_nights:
                nights[key] = known_nights[key]
            elif not night.running:
                unread.append((project, night))
    first_day = since.date().isoformat()
    # GitLab no longer lists some nights of the last report.
    project_ids = {str(project.id) for project in projects}
    nights |= {
        key: night
        for key, night in known_nights.items()
        if night.started >= first_day and key.partition("/")[0] in project_ids
    }
    results = dict(api.map_concurrently(lambda pair: _read_night(api, *pair), unread))
    nights |= results
    missing = [night for night in results.values() if not (night.outcome or night.failure)]
    if not missing:
        return nights, ()
    text = "which this token may not read, or GitLab did not send"
    return nights, (f"the results of {len(missing)} nights, {text}",)


def _read_night(api: FleetApi, project: FleetProject, night: FleetNight) -> tuple[str, PastNight]:
    """The night's key, and the night with its result. Without a result it has failed, unless the
    pipeline succeeded: then its artifacts have expired."""
    path = f"{project.settings.output_dir}/result.json"
    url = f"{api.server_url}/{project.path}/-/pipelines/{night.pipeline}"
    key = build_key(project, night)
    without_result = PastNight(project.path, str(night.pipeline), url, night.created)
    try:
        data = api.read_json_artifact(project.id, night.job, path)
    except ApiError:
        return key, without_result
    if data is not None:
        return key, read_result(data, without_result)
    failure = "" if night.status == "success" else f"no result: the pipeline {night.status}"
    return key, replace(without_result, failure=failure)


def encode_nights(nights: Nights) -> str:
    """The file's text: an array for each night keeps it small."""
    get_fields = attrgetter("project", "started", "outcome", "category", "cost_usd", "failure")
    rows = [[key, *get_fields(night)] for key, night in sorted(nights.items())]
    return json.dumps({"version": NIGHTS_VERSION, "nights": rows}, separators=(",", ":"))


def decode_nights(data: bytes, server_url: str) -> Nights:
    """The nights of a file. Raises ValueError, TypeError or KeyError for an invalid file."""
    content = json.loads(data)
    if not isinstance(content, dict) or content.get("version") != NIGHTS_VERSION:
        raise ValueError("another version")
    return dict(_decode_row(row, server_url) for row in content["nights"])


def _decode_row(row: list[Any], server_url: str) -> tuple[str, PastNight]:
    key, project, started, outcome, category, cost_usd, failure = row
    pipeline = str(key).partition("/")[2]
    url = f"{server_url}/{project}/-/pipelines/{pipeline}"
    cost = None if cost_usd is None else float(cost_usd)
    texts = (str(started), str(outcome), str(category))
    return str(key), PastNight(str(project), pipeline, url, *texts, cost, str(failure))


# --- the report -----------------------------------------------------------------------------------

PAGE, DATA, METRICS = "fleet-report.html", "fleet-report.json", "fleet-metrics.txt"
NAME = "the fleet"
MOST_PIPELINES = 90
"""Pipelines of the control project that are searched for the last report. There is one for each
hour's plan."""
MOST_FAILURES = 3
"""Reasons of failures in the notification."""


def make_report(
    api: FleetApi,
    settings: FleetSettings,
    since: dt.date,
    folder: Path,
    control: ControlJob | None,
) -> HistoryFigures:
    """Read the history, write the report's files into ``folder``, and return the figures. Nights of
    the last report, from ``folder`` or its artifacts, are not read again. Raises ApiError, and
    ``E_CONFIG`` if the folder cannot be written."""
    known_nights = _read_known_nights(api, folder, control)
    fleet_history = read_fleet_history(api, settings, since, known_nights)
    today = str(dt.datetime.now(dt.UTC).date())
    figures = compute_figures(NAME, str(since), today, fleet_history.history, fleet_history.silent)
    files = {
        PAGE: render_history(figures),
        # Without individual merge requests and nights: thousands of projects have many.
        DATA: to_json(replace(figures, history=NightHistory(unknown=figures.history.unknown))),
        METRICS: render_metrics(figures),
        NIGHTS_FILE: encode_nights(fleet_history.nights),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise build_config_error(f"--output {folder}: {error.strerror}") from None
    return figures


def _read_known_nights(api: FleetApi, folder: Path, control: ControlJob | None) -> Nights:
    """The nights in the file in ``folder``, else in the control project's last report; none without
    a usable file."""
    try:
        data: bytes | None = (folder / NIGHTS_FILE).read_bytes()
    except OSError:
        if control is None:
            return {}
        path = (folder / NIGHTS_FILE).as_posix()
        data = api.find_last_artifact(control, REPORT_JOB, path, MOST_PIPELINES)
    try:
        return decode_nights(data or b"{}", api.server_url)
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def build_message(figures: HistoryFigures, link: str) -> Notification:
    """The notification; ``link`` is the report's URL, "" if it has none."""
    total = figures.total
    cost = f"cost {format_usd(figures.cost_usd, figures.bound)}"
    if (per_merged := figures.cost_per_merged_usd) is not None:
        cost += f", {format_usd(per_merged, figures.bound)} per merged request"
    lines = [
        f"{count_words(total.opened, 'merge request')}: {total.merged} merged, {total.closed}"
        f" closed, {total.waiting} open, of which {total.ignored} ignored",
        f"{count_words(figures.nights, 'night')}, {cost}",
    ]
    for failure in figures.failures[:MOST_FAILURES]:
        nights = count_words(failure.nights, "night")
        projects = count_words(failure.projects, "project")
        lines.append(f"{nights} in {projects} failed: {failure.reason}")
    if figures.silent:
        lines.append(f"{count_words(len(figures.silent), 'project')} had no night")
    body = "\n".join(filter(None, (*map(disable_markup, lines), link)))
    title = f"Night shift, {figures.since} to {figures.until}"
    return Notification(title, body, "warning" if figures.failures else "info")
