"""The costs of nights, by their results.

A night's ``result.json`` is in its job's artifacts, which last 30 days. It is read once: its cost
is kept in ``fleet-plan.json``, in the artifacts of the control project, for the next plan. Without
that file, all results of the month are read again; a night without a result counts at its limit.
"""

import datetime as dt
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gitlab_nightshift.fleet.discovery import read_nights
from gitlab_nightshift.fleet.fleet_settings import FleetSettings, parse_moment
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.fleet_api import FleetApi
from gitlab_nightshift.gitlab.history import find_cost
from gitlab_nightshift.records.fleet_records import FleetNight, FleetProject, NightCost


@dataclass(frozen=True)
class CostRequest:
    """The costs to read: of nights from ``since`` on, except for those ``known`` to the last plan,
    by ``build_key``. The settings have the limits."""

    since: dt.datetime
    known: Mapping[str, NightCost]
    settings: FleetSettings


@dataclass(frozen=True)
class FleetCosts:
    """The costs of finished nights, by ``build_key``; ``unknown`` names what could not be read."""

    ended: Mapping[str, NightCost]
    unknown: tuple[str, ...] = ()

    def count(self, project: FleetProject, night: FleetNight, settings: FleetSettings) -> float:
        """What a night counts for budgets: its cost, or its limit until that is known."""
        found = self.ended.get(build_key(project, night))
        return found.counted_usd if found else find_limit(project, settings)


def read_costs(api: FleetApi, projects: Iterable[FleetProject], wanted: CostRequest) -> FleetCosts:
    """Read the unknown costs: one request for each night that ended since the last plan."""
    # A day more, as the days of costs are in UTC, and the month is in the fleet's time zone.
    since = wanted.since.date() - dt.timedelta(days=1)
    kept = {key: each for key, each in wanted.known.items() if each.day >= f"{since}"}
    todo = [
        (project, night)
        for project in projects
        for night in list_nights(api, project, wanted.since, wanted.known)
        if not night.running and build_key(project, night) not in kept
    ]
    read = list(api.map_concurrently(lambda pair: _read_cost(api, *pair, wanted.settings), todo))
    found = {each.night: each for each in read if isinstance(each, NightCost)}
    lost = [each for each in read if isinstance(each, ApiError)]
    unknown = f"what {len(lost)} nights have cost, so their limits count: {lost[0]}" if lost else ""
    return FleetCosts({**kept, **found}, (unknown,) if lost else ())


def list_nights(
    api: FleetApi, project: FleetProject, since: dt.datetime, known: Container[str]
) -> Iterator[FleetNight]:
    """A project's nights from ``since`` on. Nights beyond GitLab's first page are read only if the
    oldest on that page is not in ``known``: otherwise the last reader has seen the others."""
    for night in project.nights:
        if parse_moment(night.created) >= since:
            yield night
    oldest = project.nights[-1] if project.nights else None
    if not (oldest and project.older) or build_key(project, oldest) in known:
        return
    if parse_moment(oldest.created) < since:
        return
    for night in read_nights(api.list_older_nights(project.path, project.older)):
        if parse_moment(night.created) < since:
            return
        yield night


def _read_cost(
    api: FleetApi, project: FleetProject, night: FleetNight, settings: FleetSettings
) -> NightCost | ApiError:
    """The night's cost; an error if its result may exist, so that the next plan asks again."""
    limit, day = find_limit(project, settings), night.created[:10]
    if not night.started:  # cancelled before a runner took it
        return NightCost(build_key(project, night), day, 0.0, limit)
    place = f"{project.settings.output_dir}/result.json"
    try:
        data = api.read_json_artifact(project.id, night.job, place)
    except ApiError as error:
        return error
    return NightCost(build_key(project, night), day, find_cost(data), limit)


def find_limit(project: FleetProject, settings: FleetSettings) -> float:
    """The limit of a project's night, in USD."""
    return settings.night_limit_usd or project.settings.limit_usd


def build_key(project: FleetProject, night: FleetNight) -> str:
    """A night's key in the plan: ``<project's id>/<pipeline's id>``."""
    return f"{project.id}/{night.pipeline}"
