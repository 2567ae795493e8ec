"""Chooses the projects that get an onboarding merge request, from what GitLab shows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from gitlab_nightshift.fleet.choice import find_exclusion
from gitlab_nightshift.fleet.fleet_settings import FleetSettings
from gitlab_nightshift.gitlab.fleet_api import FleetApi, Node
from gitlab_nightshift.gitlab.resources import read_global_id
from gitlab_nightshift.onboarding.onboarding_request import BRANCH
from gitlab_nightshift.records.fleet_records import FleetProject

State = Literal["ask", "complete", "set up", "waits", "answered", "later", "left out"]
_REQUESTS = """
query($paths: [String!], $branches: [String!], $first: Int, $after: String) {
  projects(fullPaths: $paths, first: $first, after: $after) {
    pageInfo { hasNextPage endCursor }
    nodes { id fullPath mergeRequests(sourceBranches: $branches, sort: CREATED_DESC, first: 5) {
      nodes { iid state webUrl sourceProjectId } } }
  }
}
"""


@dataclass(frozen=True)
class OnboardingRequest:
    """A project's newest onboarding merge request; ``state`` is opened, closed, merged or
    locked."""

    state: str
    url: str


@dataclass(frozen=True)
class OnboardingRow:
    """A project and what to do: ``ask`` by a merge request, or ``complete`` the setup in GitLab
    after its merge. In any other state nothing is done, for the reason ``why``."""

    project: FleetProject
    state: State
    why: str


def read_requests(api: FleetApi, projects: Iterable[FleetProject]) -> dict[int, OnboardingRequest]:
    """The newest onboarding merge request of each project that has one, by the project's id.
    Raises ApiError."""
    paths = [project.path for project in projects]
    nodes = api.list_by_paths(_REQUESTS, paths, {"branches": [BRANCH]})
    by_id = ((read_global_id(node.get("id")), node) for node in nodes)
    requests = {project_id: _read_request(project_id, node) for project_id, node in by_id}
    return {project_id: request for project_id, request in requests.items() if request}


def _read_request(project: int, node: Node) -> OnboardingRequest | None:
    """The newest merge request from the project's own branch, not from a fork; None without
    one."""
    for each in (node.get("mergeRequests") or {}).get("nodes") or ():
        # GraphQL answers null for a merge request that the token may not read.
        if each and each.get("sourceProjectId") == project:
            return OnboardingRequest(str(each.get("state")), str(each.get("webUrl") or ""))
    return None


def choose_projects(
    projects: Iterable[FleetProject],
    requests: Mapping[int, OnboardingRequest],
    settings: FleetSettings,
) -> tuple[OnboardingRow, ...]:
    """A row for each project, the most recently active first. Projects are asked until
    ``max_open_onboarding`` merge requests are open; the other ones come later."""
    ranked = sorted(projects, key=lambda project: project.last_activity, reverse=True)
    rows = [_judge(project, requests.get(project.id), settings) for project in ranked]
    open_count = [row.state for row in rows].count("waits")
    return tuple(_limit(rows, settings.max_open_onboarding - open_count))


def _limit(rows: Iterable[OnboardingRow], asks_left: int) -> Iterator[OnboardingRow]:
    for row in rows:
        if row.state == "ask" and asks_left <= 0:
            yield OnboardingRow(row.project, "later", "enough onboarding requests are open")
            continue
        if row.state == "ask":
            asks_left -= 1
        yield row


def _judge(
    project: FleetProject, request: OnboardingRequest | None, settings: FleetSettings
) -> OnboardingRow:
    if exclusion := find_exclusion(settings, project):
        return OnboardingRow(project, "left out", exclusion)
    if project.included is None:
        text = "its pipeline file is not .gitlab-ci.yml: set it up there"
        return OnboardingRow(project, "left out", text)
    if project.set_up and not project.nights:
        text = "has had no night: its setup in GitLab is completed"
        return OnboardingRow(project, "complete", text)
    if project.set_up or request is None:
        return OnboardingRow(project, "set up" if project.set_up else "ask", "")
    if request.state in ("opened", "locked"):
        return OnboardingRow(project, "waits", request.url)
    answer = "closed" if request.state == "closed" else "merged, but its files are gone again"
    return OnboardingRow(project, "answered", f"{answer}: {request.url}")
