"""The switch for all nights below a group: a group variable, and the variables that override it.

GitLab takes a variable's value from the first of these that sets it (doc/ci/variables): the
pipeline and its schedule, the project, the nearest group, each parent group, ``.gitlab-ci.yml``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none, transient
from gitlab_nightshift.gitlab.fleet_api import FleetApi, Node
from gitlab_nightshift.gitlab.pipelines import NightJob

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

ENABLED_VARIABLE = "NIGHTSHIFT_ENABLED"
ALL_ENVIRONMENTS = "*"
DESCRIPTION = "false stops all nights below this group (nightshift fleet stop)"
Level = Literal["subgroup", "project", "schedule", "pipeline"]
_VARIABLES = "ciVariables(first: 100) { nodes { key value environmentScope } }"
_PROJECTS = f"""
query($group: ID!, $first: Int, $after: String) {{ group(fullPath: $group) {{
  projects(includeSubgroups: true, first: $first, after: $after) {{
    pageInfo {{ hasNextPage endCursor }}
    nodes {{ fullPath archived {_VARIABLES}
      scheduled: pipelines(source: "schedule", first: 1) {{ nodes {{ id }} }}
      running: pipelines(scope: RUNNING, first: 1) {{ nodes {{ id }} }}
      pending: pipelines(scope: PENDING, first: 1) {{ nodes {{ id }} }}
    }} }} }} }}
"""
_SUBGROUPS = f"""
query($group: ID!, $first: Int, $after: String) {{ group(fullPath: $group) {{
  descendantGroups(first: $first, after: $after) {{
    pageInfo {{ hasNextPage endCursor }} nodes {{ fullPath {_VARIABLES} }}
  }} }} }}
"""
# GitLab answers Project.pipelineSchedules for one project in a query only (doc/api/graphql).
_SCHEDULES = """
query($project: ID!) { project(fullPath: $project) { pipelineSchedules(first: 50) { nodes {
  description variables(first: 100) { nodes { key value } } } } } }
"""


@dataclass(frozen=True)
class SwitchSetting:
    """A value of the switch's variable. ``place`` names what sets it: the subgroup, project,
    schedule or pipeline, as ``level`` says. ``value`` is None if it is hidden."""

    level: Level
    place: str
    value: str | None


@dataclass(frozen=True)
class SwitchedProject:
    """A project below the group. ``has_nights`` is true if any schedule has run in it, ``busy`` if
    any pipeline waits or runs, ``hidden`` if this token does not see the project's variables."""

    path: str
    settings: tuple[SwitchSetting, ...]
    has_nights: bool
    busy: bool
    hidden: bool


class GroupSwitch:
    """The switch's variable in one group. Every method may raise ApiError; only Owners may read or
    change it (``admin_cicd_variables`` in ``lib/api/group_variables.rb``)."""

    def __init__(self, client: "Client", group: str) -> None:
        self._client, self._path = client, f"/groups/{quote(group, safe='')}/variables"

    def read(self) -> str | None:
        """The variable's value; None if it is not set for all environments."""
        rows = self._client.read_all_pages(self._path)
        for row in rows:
            if row.get("key") == ENABLED_VARIABLE and _has_all_environments(row):
                return str(row.get("value"))
        return None

    def write(self, value: str, *, new: bool) -> None:
        """Set the variable, for protected and other branches. It is safe to repeat."""
        attributes = {"protected": False, "masked": False, "description": DESCRIPTION}
        if new:
            try:
                data = {"key": ENABLED_VARIABLE, "value": value, "raw": True, **attributes}
                self._client.http_post(self._path, post_data=data)
                return
            except ApiError as error:  # the answer was lost, or somebody else created it
                if not transient(error) and "taken" not in error.reason:
                    raise
                if self.read() is None:
                    raise
        # Without the filter, GitLab would change a variable of this key with any scope
        # (lib/api/group_variables.rb).
        data = {"value": value, "filter": {"environment_scope": ALL_ENVIRONMENTS}, **attributes}
        path = f"{self._path}/{ENABLED_VARIABLE}"
        self._client.send_idempotent(self._client.http_put, path, post_data=data)

    def delete(self) -> None:
        """Delete the variable, unless an earlier request did so whose answer was lost."""
        query = {"filter[environment_scope]": ALL_ENVIRONMENTS}
        path, client = f"{self._path}/{ENABLED_VARIABLE}", self._client
        delete = partial(client.send_idempotent, client.http_delete, path, query_data=query)
        call_or_none(delete, 404)


def list_switched_projects(api: FleetApi, group: str) -> Iterator[SwitchedProject] | None:
    """The projects below a group, without archived ones; None if the token sees no such group."""
    nodes = api.list_nodes(_PROJECTS, {"group": group}, ("group", "projects"))
    if nodes is None:
        return None
    return (_read_project(node) for node in nodes if not node.get("archived"))


def list_subgroup_settings(api: FleetApi, group: str) -> Iterator[SwitchSetting]:
    """The settings of the subgroups."""
    nodes = api.list_nodes(_SUBGROUPS, {"group": group}, ("group", "descendantGroups"))
    for node in nodes or ():
        yield from _read_settings("subgroup", str(node.get("fullPath")), node)


def read_schedule_settings(api: FleetApi, project: str) -> tuple[SwitchSetting, ...]:
    """The settings of a project's schedules."""
    answer = api.client.send_query(_SCHEDULES, {"project": project})
    schedules = (answer.get("project") or {}).get("pipelineSchedules") or {}
    return tuple(
        SwitchSetting(
            "schedule", f"{project}, schedule {schedule.get('description')}", variable.get("value")
        )
        for schedule in schedules.get("nodes") or ()
        for variable in _list_switch_variables(schedule, "variables")
    )


def list_pipeline_settings(project: str, job: NightJob) -> Iterator[SwitchSetting]:
    """The settings with which a job's pipeline was started."""
    for key, value in job.variables:
        if key == ENABLED_VARIABLE:
            yield SwitchSetting("pipeline", f"{project}, pipeline {job.pipeline}", value)


def _read_project(node: Node) -> SwitchedProject:
    path, names = str(node.get("fullPath")), ("scheduled", "running", "pending")
    pipelines = {name: (node.get(name) or {}).get("nodes") for name in names}
    return SwitchedProject(
        path,
        tuple(_read_settings("project", path, node)),
        has_nights=bool(pipelines["scheduled"]),
        busy=bool(pipelines["running"] or pipelines["pending"]),
        hidden=node.get("ciVariables") is None,
    )


def _read_settings(level: Level, place: str, node: Node) -> Iterator[SwitchSetting]:
    for variable in _list_switch_variables(node, "ciVariables"):
        scope = variable.get("environmentScope")
        suffix = "" if _has_all_environments(variable) else f", environment {scope}"
        yield SwitchSetting(level, f"{place}{suffix}", variable.get("value"))


def _list_switch_variables(node: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    for variable in (node.get(name) or {}).get("nodes") or ():
        if isinstance(variable, Mapping) and variable.get("key") == ENABLED_VARIABLE:
            yield variable


def _has_all_environments(variable: Mapping[str, Any]) -> bool:
    scope = variable.get("environment_scope", variable.get("environmentScope"))
    return scope in (None, ALL_ENVIRONMENTS)
