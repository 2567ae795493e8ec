"""What nights have cost, by their results.

A night's ``result.json`` is in its job's artifacts, which GitLab keeps for 30 days. It is read
once: what it says is kept in ``fleet-plan.json``, in the artifacts of the control project, and the
next plan takes it from there. Without that file, all results of the month are read again. A night
whose result is gone by then counts at its limit.
"""

import datetime as dt
import json
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.fleet.discovery import read_nights
from gitlab_nightshift.fleet.fleet_settings import FleetSettings
from gitlab_nightshift.fleet.night_window import parse_moment
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.fleet_api import FleetApi
from gitlab_nightshift.gitlab.history import find_cost
from gitlab_nightshift.records.fleet_records import FleetNight, FleetProject
from gitlab_nightshift.records.planned_fleet import NightCost


@dataclass(frozen=True)
class CostRequest:
    """Costs of nights from ``since`` on; those that the last plan knew; limits by the settings."""

    since: dt.datetime
    known: Mapping[str, NightCost]
    settings: FleetSettings


@dataclass(frozen=True)
class FleetCosts:
    """The nights that have ended, by their keys; ``unknown`` says what could not be read."""

    ended: Mapping[str, NightCost]
    unknown: tuple[str, ...] = ()

    def count(self, project: FleetProject, night: FleetNight, settings: FleetSettings) -> float:
        """What a budget counts for a night: its cost, or its limit until it has reported."""
        found = self.ended.get(build_key(project, night))
        return found.counted_usd if found else find_limit(project, settings)


def read_costs(api: FleetApi, projects: Iterable[FleetProject], wanted: CostRequest) -> FleetCosts:
    """Read what is not known yet: a request for each night that has ended since the last plan."""
    since = wanted.since.date() - dt.timedelta(days=1)
    kept = {key: each for key, each in wanted.known.items() if each.day >= f"{since}"}
    todo = [
        (project, night)
        for project in projects
        for night in list_nights(api, project, wanted.since, wanted.known)
        if not night.running and build_key(project, night) not in kept
    ]
    read = list(api.map_at_once(lambda pair: _read_cost(api, *pair, wanted.settings), todo))
    found = {each.night: each for each in read if isinstance(each, NightCost)}
    lost = [each for each in read if isinstance(each, ApiError)]
    unknown = f"what {len(lost)} nights have cost, so their limits count: {lost[0]}" if lost else ""
    return FleetCosts({**kept, **found}, (unknown,) if lost else ())


def list_nights(
    api: FleetApi, project: FleetProject, since: dt.datetime, known: Container[str]
) -> Iterator[FleetNight]:
    """A project's nights from ``since`` on. Older ones than the page has are asked for only if
    whoever knew the ``known`` ones cannot have seen them."""
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
    """An error where the result may be there: the next plan asks again. Artifacts are for
    Developers, unless a project says otherwise."""
    limit, day = find_limit(project, settings), night.created[:10]
    if not night.began:  # cancelled while it waited
        return NightCost(build_key(project, night), day, 0.0, limit)
    place = f"{project.settings.output_dir}/result.json"
    try:
        data: object = json.loads(api.download_artifact(project.id, night.job, place))
    except ApiError as error:
        if error.status != 404:
            return error
        data = None
    except (NightshiftError, ValueError, RecursionError):
        data = None
    return NightCost(build_key(project, night), day, find_cost(data), limit)


def find_limit(project: FleetProject, settings: FleetSettings) -> float:
    """What a project's night may cost, in USD."""
    return settings.night_limit_usd or project.settings.limit_usd


def build_key(project: FleetProject, night: FleetNight) -> str:
    """What a night is called in the plan."""
    return f"{project.id}/{night.pipeline}"
