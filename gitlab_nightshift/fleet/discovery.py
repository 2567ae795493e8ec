"""Everything that a plan reads from GitLab: the fleet's projects, by the groups and projects of
``fleet.yaml``, and what their nights have cost.
"""

import datetime as dt
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gitlab_nightshift.fleet.fleet_settings import FleetFile, FleetSettings, parse_moment
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.fleet_api import FILES, FleetApi, Node, read_next_cursor
from gitlab_nightshift.gitlab.history import find_cost
from gitlab_nightshift.gitlab.resources import read_global_id
from gitlab_nightshift.onboarding.project_files import PROJECT_NAME, TEMPLATE
from gitlab_nightshift.policy.path_patterns import matches
from gitlab_nightshift.records.fleet_records import (
    Discovery,
    FleetMergeRequest,
    FleetNight,
    FleetProject,
    NightCost,
    NightSettings,
)
from gitlab_nightshift.settings.load import build_mistakes_error
from gitlab_nightshift.settings.notations import WEEKDAYS

LARGEST_FILE = 200_000
"""Characters of a settings file that are read."""
_DEFAULTS = NightSettings()
# What is unknown on an older GitLab, by the GraphQL field that it lacks.
_UNSUPPORTED_FACTS = {
    "isForked": "which projects are forks",
    "markedForDeletionOn": "which will be deleted",
}


def discover(api: FleetApi, settings: FleetSettings) -> Discovery:
    """Find the projects, each once. Raises ApiError.

    Archived, empty, forked and opted-out ones are included, so that the plan can say why."""
    by_id: dict[int, FleetProject] = {}
    missing_groups = []
    for group in settings.groups:
        nodes = api.list_group_projects(group, settings.label)
        if nodes is None:
            missing_groups.append(group)
        projects = (read_project(node) for node in nodes or ())
        by_id |= {each.id: each for each in projects if is_selected(each, settings)}
    listed = [read_project(node) for node in api.list_projects(settings.projects, settings.label)]
    # A project that is itself listed is in the fleet, whatever include and topics say.
    by_id |= {each.id: each for each in listed}
    listed_paths = {each.path.lower() for each in listed}
    return Discovery(
        api.find_username(),
        tuple(each for each in by_id.values() if not matches(each.path, settings.exclude)),
        tuple(missing_groups),
        tuple(each for each in settings.projects if each.lower() not in listed_paths),
        tuple(_UNSUPPORTED_FACTS[each] for each in api.unsupported_fields),
    )


def discover_all(api: FleetApi, file: FleetFile) -> Discovery:
    """Find the projects. Raises ``E_CONFIG`` with a line for each missing group and project."""
    discovery = discover(api, file.settings)
    if mistakes := list(list_missing(file, discovery)):
        raise build_mistakes_error(mistakes)
    return discovery


def list_missing(
    file: FleetFile, discovery: Discovery, gone: Collection[str] = ()
) -> Iterator[str]:
    """A line for each missing group and project, with its line in the file, except for those that
    existed before (``gone``)."""
    settings = file.settings
    for key, paths, missing in (
        ("groups", settings.groups, discovery.missing_groups),
        ("projects", settings.projects, discovery.missing_projects),
    ):
        for path in (each for each in missing if each not in gone):
            place = file.find_place(key, str(paths.index(path)))
            yield f"{place}: {key}: {path}: does not exist, or this token does not see it"


def is_selected(project: FleetProject, settings: FleetSettings) -> bool:
    """True if a group's project is in the fleet, by its path and topics."""
    if settings.include and not matches(project.path, settings.include):
        return False
    return not settings.topics or bool({*project.topics} & {*settings.topics})


def read_project(node: Node) -> FleetProject:
    """The project of a node in GraphQL's answer to the queries of ``gitlab/fleet_api.py``."""
    repository = node.get("repository") or {}
    files = {
        str(blob.get("path")): str(blob.get("rawTextBlob") or "")
        for blob in (repository.get("blobs") or {}).get("nodes") or ()
    }
    # Another pipeline file may include the template, but was not fetched.
    has_default_ci_file = str(node.get("ciConfigPathOrDefault") or FILES[1]) == FILES[1]
    return FleetProject(
        # GraphQL answers null for a field that the token may not read.
        id=read_global_id(node.get("id")),
        path=str(node.get("fullPath")),
        branch=str(repository.get("rootRef") or ""),
        archived=bool(node.get("archived")),
        empty=bool(repository.get("empty", True)),
        forked=node.get("isForked"),
        deleted=bool(node["markedForDeletionOn"]) if "markedForDeletionOn" in node else None,
        topics=tuple(map(str, node.get("topics") or ())),
        last_activity=str(node.get("lastActivityAt") or ""),
        included=includes_template(files.get(FILES[1], "")) if has_default_ci_file else None,
        settings=_read_settings(node, files.get(FILES[0])),
        merge_requests=tuple(map(_read_merge_request, _list_nodes(node, "mergeRequests"))),
        nights=tuple(read_nights(_list_nodes(node, "pipelines"))),
        older=read_next_cursor(node.get("pipelines") or {}),
    )


def _read_settings(node: Node, text: str | None) -> NightSettings:
    settings = read_night_settings(text)
    if problem := node.get("problem"):
        return replace(settings, error=f"GitLab could not show it: {problem}")
    return settings


def includes_template(text: str) -> bool:
    """True if a pipeline file names the template or the component. It is not parsed: some of
    thousands of files are large, and each night reports mistakes in its own file."""
    return TEMPLATE in text or f"/{PROJECT_NAME}/" in text


def read_night_settings(text: str | None) -> NightSettings:
    """The settings that a fleet needs; the night itself checks the whole ``nightshift.yaml``."""
    if text is None:
        return _DEFAULTS
    from gitlab_nightshift.policy.settings_parser import load_documents

    try:
        documents = load_documents(text[:LARGEST_FILE])
    except (ValueError, RecursionError):
        return NightSettings(found=True, error="its nightshift.yaml is not YAML")
    data = _as_dict(documents[0] if documents else None)
    # The keys may be below the key code_agent, too; those at the top have precedence.
    data = {**_as_dict(data.get("code_agent")), **data}
    labels, open_mrs = data.get("labels"), data.get("max_open_mrs")
    days, reviewers = data.get("category_schedule"), data.get("reviewers")
    names = [data.get("reviewer"), *(reviewers if isinstance(reviewers, list) else ())]
    return NightSettings(
        found=True,
        enabled=str(data.get("enabled", True)).lower() not in ("false", "no", "off"),
        limit_usd=_read_amount(data.get("max_budget_usd")) or _DEFAULTS.limit_usd,
        output_dir=str(data.get("output_dir") or _DEFAULTS.output_dir),
        labels=tuple(map(str, labels)) if isinstance(labels, list) else None,
        reviewers=tuple(str(each).lstrip("@") for each in names if each),
        max_open=int(_read_amount(_as_dict(open_mrs).get("total"))) or _DEFAULTS.max_open,
        weekdays=_read_weekdays(days, has_category=bool(data.get("category"))),
        timezone=str(data.get("timezone") or _DEFAULTS.timezone),
    )


def _read_amount(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < 1e6 else 0.0


def _read_weekdays(days: Any, *, has_category: bool) -> tuple[str, ...]:
    if has_category:
        return WEEKDAYS
    return tuple(str(day).strip().lower()[:3] for day in _as_dict(days)) or _DEFAULTS.weekdays


def _as_dict(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def read_nights(nodes: Any) -> Iterator[FleetNight]:
    """The nights among scheduled pipelines: those with one of the template's jobs."""
    for node in nodes:
        # Of a night in three jobs, only nightshift:publish has the result of the whole night.
        job = node.get("publish") or node.get("night")
        if job:
            yield FleetNight(
                read_global_id(node.get("id")),
                str(node.get("status") or "").lower(),
                str(node.get("createdAt") or ""),
                str(node.get("finishedAt") or ""),
                str((node.get("user") or {}).get("username") or ""),
                read_global_id(job.get("id")),
                started=bool(node.get("startedAt")),
            )


def _read_merge_request(node: Mapping[str, Any]) -> FleetMergeRequest:
    state = str(node.get("state") or "")
    ended = node.get("mergedAt") or node.get("updatedAt") if state != "opened" else ""
    return FleetMergeRequest(
        int(node.get("iid") or 0),
        str(node.get("title") or ""),
        state,
        str(node.get("createdAt") or ""),
        str(ended or ""),
        tuple(str(each.get("username")) for each in _list_nodes(node, "reviewers")),
    )


def _list_nodes(node: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [each for each in (node.get(name) or {}).get("nodes") or () if each]


# --- the costs of nights --------------------------------------------------------------------------


@dataclass(frozen=True)
class CostRequest:
    """The costs to read: of nights from ``since`` on, except for those ``known`` to the last plan
    (by ``build_key``). ``settings`` are for the nights' limits."""

    since: dt.datetime
    known: Mapping[str, NightCost]
    settings: FleetSettings


@dataclass(frozen=True)
class FleetCosts:
    """The costs of finished nights, by ``build_key``; ``unknown`` names what could not be read."""

    ended: Mapping[str, NightCost]
    unknown: tuple[str, ...] = ()

    def count(self, project: FleetProject, night: FleetNight, settings: FleetSettings) -> float:
        """The USD that a night counts for budgets: its cost, or its limit until that is known."""
        cost = self.ended.get(build_key(project, night))
        return cost.counted_usd if cost else find_limit(project, settings)


def read_costs(api: FleetApi, projects: Iterable[FleetProject], request: CostRequest) -> FleetCosts:
    """Read the unknown costs: one request for each night that ended since the last plan."""
    # One day more: the days of costs are in UTC, but the month is in the fleet's time zone.
    first_day = request.since.date() - dt.timedelta(days=1)
    costs = {key: cost for key, cost in request.known.items() if cost.day >= f"{first_day}"}
    unread = [
        (project, night)
        for project in projects
        for night in list_nights(api, project, request.since, request.known)
        if not night.running and build_key(project, night) not in costs
    ]
    read = partial(_read_cost, api, request.settings)
    answers = list(api.map_concurrently(read, unread))
    costs |= {answer.night: answer for answer in answers if isinstance(answer, NightCost)}
    errors = [answer for answer in answers if isinstance(answer, ApiError)]
    if not errors:
        return FleetCosts(costs)
    text = f"what {len(errors)} nights have cost, so their limits count: {errors[0]}"
    return FleetCosts(costs, (text,))


def list_nights(
    api: FleetApi, project: FleetProject, since: dt.datetime, known_keys: Container[str]
) -> Iterator[FleetNight]:
    """A project's nights from ``since`` on. Nights beyond GitLab's first page are read only if the
    oldest on that page is not in ``known_keys``: otherwise they were read before."""
    for night in project.nights:
        if parse_moment(night.created) >= since:
            yield night
    oldest = project.nights[-1] if project.nights else None
    if not (oldest and project.older) or build_key(project, oldest) in known_keys:
        return
    if parse_moment(oldest.created) < since:
        return
    for night in read_nights(api.list_older_nights(project.path, project.older)):
        if parse_moment(night.created) < since:
            return
        yield night


def _read_cost(
    api: FleetApi, settings: FleetSettings, project_night: tuple[FleetProject, FleetNight]
) -> NightCost | ApiError:
    """The night's cost; the error if its result may exist, so that the next plan asks again."""
    project, night = project_night
    limit, day = find_limit(project, settings), night.created[:10]
    if not night.started:  # cancelled before a runner took it
        return NightCost(build_key(project, night), day, 0.0, limit)
    path = f"{project.settings.output_dir}/result.json"
    try:
        data = api.read_json_artifact(project.id, night.job, path)
    except ApiError as error:
        return error
    return NightCost(build_key(project, night), day, find_cost(data), limit)


def find_limit(project: FleetProject, settings: FleetSettings) -> float:
    """The limit of a project's night, in USD."""
    return settings.night_limit_usd or project.settings.limit_usd


def build_key(project: FleetProject, night: FleetNight) -> str:
    """A night's key in the plan: ``<project's id>/<pipeline's id>``."""
    return f"{project.id}/{night.pipeline}"
