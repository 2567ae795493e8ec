"""The fleet's stand-in refuses and forgets what GitLab refuses and forgets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.gitlab import fleet_api
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.client import Client
from gitlab_nightshift.system.retry import Clock, RetryPolicy
from tests.support.fleet_standin import PLAN_TOKEN, RUN_TOKEN, FleetStandin
from tests.support.graphql_complexity import MOST, measure_complexity
from tests.support.standin_records import FullProject, as_full


@pytest.fixture
def gitlab(tmp_path: Path) -> Iterator[FleetStandin]:
    with FleetStandin(tmp_path / "gitlab") as standin:
        standin.add_fleet("acme", 1)
        yield standin
        assert standin.errors == []


def connect(gitlab: FleetStandin, token: str = RUN_TOKEN) -> Client:
    never = RetryPolicy(deadline_s=0.0, clock=Clock(lambda: 1.0))
    return Client(gitlab.url, token, timeout_s=60.0, retry_policy=never)


def get(gitlab: FleetStandin) -> FullProject:
    return as_full(gitlab.projects[0])


def play(gitlab: FleetStandin, token: str = RUN_TOKEN) -> Any:
    project = get(gitlab)
    at = f"/projects/{project.id}/pipeline_schedules/{project.schedules[0].id}/play"
    return connect(gitlab, token).http_post(at)


def refuse(gitlab: FleetStandin, token: str = RUN_TOKEN) -> int | None:
    with pytest.raises(ApiError) as caught:
        play(gitlab, token)
    return caught.value.status


def test_a_play_answers_without_a_pipeline_which_comes_later(gitlab: FleetStandin) -> None:
    gitlab.worker_delay_s = 3600.0
    assert play(gitlab) == {"message": "201 Created"}
    assert get(gitlab).pipelines == []
    gitlab.worker_delay_s = 0.0
    connect(gitlab).http_get(f"/projects/{get(gitlab).id}")
    assert [each.source for each in get(gitlab).pipelines] == ["schedule"]


def test_a_users_waiting_play_of_a_schedule_is_one(gitlab: FleetStandin) -> None:
    gitlab.worker_delay_s = 3600.0
    play(gitlab)
    play(gitlab)
    gitlab.worker_delay_s = 0.0
    play(gitlab)  # the one before has begun by now
    connect(gitlab).http_get(f"/projects/{get(gitlab).id}")
    assert len(get(gitlab).pipelines) == 2


def test_who_may_not_update_the_branch_may_not_play(gitlab: FleetStandin) -> None:
    gitlab.add_token("glpat-DeveloperOfTheFleet1", gitlab.people[0], ("api",), 30)
    assert refuse(gitlab, "glpat-DeveloperOfTheFleet1") == 403
    get(gitlab).protected_branches.clear()
    play(gitlab, "glpat-DeveloperOfTheFleet1")


def test_a_token_that_only_reads_plays_nothing(gitlab: FleetStandin) -> None:
    assert refuse(gitlab, PLAN_TOKEN) == 403


def test_an_archived_project_is_not_played(gitlab: FleetStandin) -> None:
    get(gitlab).archived = True
    assert refuse(gitlab) == 403


def test_more_requests_than_the_limit_are_refused(gitlab: FleetStandin) -> None:
    gitlab.most_per_minute = 3
    answers = []
    for _ in range(6):
        try:
            answers.append(bool(connect(gitlab).http_get("/user")))
        except ApiError as error:
            assert (error.status, error.retry_after_s) == (429, 1.0)
            answers.append(False)
    assert answers.count(False) >= 2, "a minute may end in between"


def test_a_pages_complexity_is_below_gitlabs_limit() -> None:
    """What the page about a fleet says of it."""
    text = fleet_api.GROUP_QUERY.replace("OPTIONAL", " ".join(fleet_api.OPTIONAL_FIELDS))
    found = measure_complexity(text, {"first": 100, "nights": 6, "labels": ["x"]})
    assert found <= MOST
    page = (Path(__file__).parents[2] / "docs/fleet.md").read_text(encoding="utf-8")
    assert f"its complexity is {found} of" in page


def test_more_than_fifty_paths_are_refused(gitlab: FleetStandin) -> None:
    query = "query($p: [String!]) { projects(fullPaths: $p) { nodes { id } } }"
    with pytest.raises(ApiError, match="more than 50 full paths"):
        connect(gitlab).send_query(query, {"p": [f"a/{n}" for n in range(51)]})
