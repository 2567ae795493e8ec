"""The choice of projects that get an onboarding merge request: reading, then a pure function."""

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
    after its merge. Other states need nothing, for the reason ``why``."""

    project: FleetProject
    state: State
    why: str


def read_requests(api: FleetApi, projects: Iterable[FleetProject]) -> dict[int, OnboardingRequest]:
    """The newest onboarding merge request of each project that has one, by the project's id.
    Raises ApiError."""
    paths = [each.path for each in projects]
    values = {"branches": [BRANCH]}
    found = api.list_by_paths(_REQUESTS, paths, values)
    pairs = ((read_global_id(node.get("id")), node) for node in found)
    return {number: made for number, node in pairs if (made := _read_request(number, node))}


def _read_request(project: int, node: Node) -> OnboardingRequest | None:
    """The newest merge request from the project's own branch, not from a fork's; None without
    one."""
    for each in (node.get("mergeRequests") or {}).get("nodes") or ():
        # GraphQL gives null for what the token may not read.
        if each and each.get("sourceProjectId") == project:
            return OnboardingRequest(str(each.get("state")), str(each.get("webUrl") or ""))
    return None


def choose_projects(
    projects: Iterable[FleetProject],
    requests: Mapping[int, OnboardingRequest],
    settings: FleetSettings,
) -> tuple[OnboardingRow, ...]:
    """A row for each project, the most recently active first. The others wait once as many are
    asked as may have an open merge request."""
    ranked = sorted(projects, key=lambda each: each.last_activity, reverse=True)
    rows = [_judge(each, requests.get(each.id), settings) for each in ranked]
    free = settings.max_open_onboarding - sum(row.state == "waits" for row in rows)
    return tuple(_limit(rows, free))


def _limit(rows: Iterable[OnboardingRow], free: int) -> Iterator[OnboardingRow]:
    for row in rows:
        if row.state == "ask" and free <= 0:
            yield OnboardingRow(row.project, "later", "enough onboarding requests are open")
            continue
        free -= row.state == "ask"
        yield row


def _judge(
    project: FleetProject, request: OnboardingRequest | None, settings: FleetSettings
) -> OnboardingRow:
    elsewhere = "its pipeline file is not .gitlab-ci.yml: set it up there"
    exclusion = find_exclusion(settings, project)
    if why := exclusion or (elsewhere if project.included is None else ""):
        return OnboardingRow(project, "left out", why)
    if project.set_up:
        done = bool(project.nights)
        text = "" if done else "has had no night: its setup in GitLab is completed"
        return OnboardingRow(project, "set up" if done else "complete", text)
    if request is None:
        return OnboardingRow(project, "ask", "")
    if request.state in ("opened", "locked"):
        return OnboardingRow(project, "waits", request.url)
    answer = "closed" if request.state == "closed" else "merged, but its files are gone again"
    return OnboardingRow(project, "answered", f"{answer}: {request.url}")
