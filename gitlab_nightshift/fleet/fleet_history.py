"""A fleet's past nights and merge requests, from GitLab in pages, and the report of them.

Merge requests come by group, 100 a page. A night's result is read once, before its artifacts
expire, and kept for the next report in ``fleet-nights.json``, in the report job's artifacts.
Without that file, results whose artifacts still exist are read again, and the others are unknown.
"""

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
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
KEPT = dt.timedelta(days=400)
"""The file keeps a night this long."""
# GraphQL's fields of a merge request; the two queries differ only in where they look.
_REQUEST = """
  pageInfo { hasNextPage endCursor }
  nodes { iid title state createdAt mergedAt updatedAt webUrl sourceProjectId
    project { id fullPath } reviewers { nodes { username } } }
"""
_OF_GROUP = f"""
query($group: ID!, $labels: [String!], $since: Time, $first: Int, $after: String) {{
  group(fullPath: $group) {{ mergeRequests(includeSubgroups: true, labels: $labels,
    createdAfter: $since, sort: CREATED_DESC, first: $first, after: $after) {{ {_REQUEST} }} }}
}}
"""
_OF_PROJECT = f"""
query($project: ID!, $labels: [String!], $since: Time, $first: Int, $after: String) {{
  project(fullPath: $project) {{ mergeRequests(labels: $labels, createdAfter: $since,
    sort: CREATED_DESC, first: $first, after: $after) {{ {_REQUEST} }} }}
}}
"""
Nights = Mapping[str, PastNight]
"""By ``<project's id>/<pipeline's id>``."""


@dataclass(frozen=True)
class FleetHistory:
    """A fleet's history. ``silent`` are the projects that are set up but had no night, ``nights``
    those that the next report need not read again, ``found`` the projects."""

    history: NightHistory
    silent: tuple[str, ...]
    nights: Nights
    found: Discovery


def read_fleet_history(
    api: FleetApi, settings: FleetSettings, since: dt.date, known_nights: Nights
) -> FleetHistory:
    """Read the history from this day on (UTC); ``known_nights`` are the nights of the last report.
    Raises ApiError if the projects or merge requests cannot be listed."""
    discovery = discover(api, settings)
    start = dt.datetime.combine(since, dt.time(), dt.UTC)
    projects = {each.id: each for each in discovery.projects}
    requests = tuple(_list_requests(api, settings, start, projects))
    nights, unknown = _read_nights(api, discovery.projects, start, known_nights)
    # A longer report must not lose nights to the file's own limit.
    first = min(since, dt.datetime.now(dt.UTC).date() - KEPT)
    kept = {key: each for key, each in known_nights.items() if each.started >= str(first)}
    shown = sorted(nights.values(), key=lambda each: each.started, reverse=True)
    history = NightHistory(requests, tuple(shown), (*discovery.unknown, *unknown))
    ended = {key: each for key, each in nights.items() if each.outcome or each.failure}
    return FleetHistory(
        history, _list_silent(settings, discovery, nights), {**kept, **ended}, discovery
    )


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
    values = {"labels": [settings.label], "since": since.isoformat()}
    # A listed group may be moved into another one, and a project into a listed group.
    seen: set[tuple[int, int]] = set()
    for node in _list_nodes(api, settings, values):
        project = read_global_id((node.get("project") or {}).get("id"))
        iid = int(node.get("iid") or 0)
        # From its own branch: anybody may give a fork's merge request the label.
        own = project in projects and node.get("sourceProjectId") == project
        if own and (project, iid) not in seen:
            seen.add((project, iid))
            yield _read_request(projects[project].path, iid, node)


def _list_nodes(
    api: FleetApi, settings: FleetSettings, values: Mapping[str, Any]
) -> Iterator[Node]:
    for query, name, paths in (
        (_OF_GROUP, "group", settings.groups),
        (_OF_PROJECT, "project", settings.projects),
    ):
        for path in paths:
            yield from api.list_nodes(query, {name: path, **values}, (name, "mergeRequests")) or ()


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
    nights: dict[str, PastNight] = {}
    todo: list[tuple[FleetProject, FleetNight]] = []
    for project in projects:
        for night in list_nights(api, project, since, known_nights):
            key = build_key(project, night)
            if key in known_nights:
                nights[key] = known_nights[key]
            elif not night.running:
                todo.append((project, night))
    first = since.date().isoformat()
    # GitLab no longer lists some nights that the last report knew.
    own_ids = {str(each.id) for each in projects}
    nights |= {
        key: each
        for key, each in known_nights.items()
        if each.started >= first and key.partition("/")[0] in own_ids
    }
    lost = 0
    for key, past in api.map_concurrently(lambda pair: _read_night(api, *pair), todo):
        nights[key] = past
        lost += not (past.outcome or past.failure)
    text = f"the results of {lost} nights, which this token may not read, or GitLab did not send"
    return nights, (text,) if lost else ()


def _read_night(api: FleetApi, project: FleetProject, night: FleetNight) -> tuple[str, PastNight]:
    """The night with its result. Without one it has failed, unless the pipeline succeeded: then its
    artifacts have expired."""
    path = f"{project.settings.output_dir}/result.json"
    url = f"{api.server_url}/{project.path}/-/pipelines/{night.pipeline}"
    key = build_key(project, night)
    lost = PastNight(project.path, str(night.pipeline), url, night.created)
    try:
        data = api.read_json_artifact(project.id, night.job, path)
    except ApiError:
        return key, lost
    if data is not None:
        return key, read_result(data, lost)
    failure = "" if night.status == "success" else f"no result: the pipeline {night.status}"
    return key, replace(lost, failure=failure)


def encode_nights(nights: Nights) -> str:
    """The file's text: an array for each night keeps it small."""
    rows = [
        [key, n.project, n.started, n.outcome, n.category, n.cost_usd, n.failure]
        for key, n in sorted(nights.items())
    ]
    return json.dumps({"version": NIGHTS_VERSION, "nights": rows}, separators=(",", ":"))


def decode_nights(data: bytes, server_url: str) -> Nights:
    """The nights of a file. Raises ValueError, TypeError or KeyError for an invalid one."""
    found = json.loads(data)
    if not isinstance(found, dict) or found.get("version") != NIGHTS_VERSION:
        raise ValueError("another version")
    return dict(_decode_row(row, server_url) for row in found["nights"])


def _decode_row(row: list[Any], server_url: str) -> tuple[str, PastNight]:
    key, project, started, outcome, category, usd, failure = row
    pipeline = str(key).partition("/")[2]
    url = f"{server_url}/{project}/-/pipelines/{pipeline}"
    cost = None if usd is None else float(usd)
    place = (str(project), pipeline, url, str(started))
    return str(key), PastNight(*place, str(outcome), str(category), cost, str(failure))


# --- the report -----------------------------------------------------------------------------------

PAGE, DATA, METRICS = "fleet-report.html", "fleet-report.json", "fleet-metrics.txt"
NAME = "the fleet"
MOST_PIPELINES = 90
"""Pipelines of the control project that are searched for the last report: each hour's plan adds
one."""
MOST_FAILURES = 3
"""Kinds of failures in the notification."""


def make_report(
    api: FleetApi,
    settings: FleetSettings,
    since: dt.date,
    folder: Path,
    control: ControlJob | None,
) -> HistoryFigures:
    """Read all, write the files into ``folder``, and return the figures. Nights that the last
    report has read, here or in its artifacts, are not read again. Raises ApiError, and ``E_CONFIG``
    for a folder that cannot be written."""
    fleet_history = read_fleet_history(
        api, settings, since, _read_known_nights(api, folder, control)
    )
    today = str(dt.datetime.now(dt.UTC).date())
    figures = compute_figures(NAME, str(since), today, fleet_history.history, fleet_history.silent)
    files = {
        PAGE: render_history(figures),
        # Without the single merge requests and nights: thousands of projects have many.
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
    """The nights in the file here, else in the control project's last report. Without a usable file
    there are none, and remaining results are read again."""
    try:
        data: bytes | None = (folder / NIGHTS_FILE).read_bytes()
    except OSError:
        if control is None:
            return {}
        place = (folder / NIGHTS_FILE).as_posix()
        data = api.find_last_artifact(control, REPORT_JOB, place, MOST_PIPELINES)
    try:
        return decode_nights(data or b"{}", api.server_url)
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def build_message(figures: HistoryFigures, link: str) -> Notification:
    """The notification; ``link`` is the report's address, "" for none."""
    total = figures.total
    each, nights = figures.cost_per_merged_usd, count_words(figures.nights, "night")
    cost = format_usd(figures.cost_usd, figures.bound)
    per_merged = "" if each is None else f", {format_usd(each, figures.bound)} per merged request"
    lines = [
        f"{count_words(total.opened, 'merge request')}: {total.merged} merged, {total.closed}"
        f" closed, {total.waiting} open, of which {total.ignored} ignored",
        f"{nights}, cost {cost}{per_merged}",
    ]
    lines += [
        f"{count_words(alike.nights, 'night')} in {count_words(alike.projects, 'project')} failed:"
        f" {alike.reason}"
        for alike in figures.failures[:MOST_FAILURES]
    ]
    if figures.silent:
        lines.append(f"{count_words(len(figures.silent), 'project')} had no night")
    body = "\n".join((*map(disable_markup, lines), *([link] if link else ())))
    title = f"Night shift, {figures.since} to {figures.until}"
    return Notification(title, body, "warning" if figures.failures else "info")
