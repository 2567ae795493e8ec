"""The stand-ins refuse what GitLab refuses: the table of facts holds for both, and for all."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.demo.standin import Standin
from gitlab_nightshift.demo.standin_endpoints import ENDPOINTS
from gitlab_nightshift.demo.standin_state import NOBODY
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.client import Client
from gitlab_nightshift.system.retry import Clock, RetryPolicy
from tests.support.gitlab_facts import BY_ENDPOINT, FACTS
from tests.support.graphql_api import GRAPHQL
from tests.support.group_endpoints import add_groups
from tests.support.lint_endpoints import LINT_ENDPOINTS
from tests.support.setup_endpoints import add_setup
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject, StandinSchedule

TOKEN = "glpat-TokenOfThisTest0001"


@pytest.fixture
def gitlab(tmp_path: Path) -> Iterator[FullStandin]:
    with FullStandin(tmp_path / "gitlab") as standin:
        add_setup(standin)
        add_groups(standin)
        standin.more_endpoints += (*LINT_ENDPOINTS, GRAPHQL)
        standin.add_token(TOKEN, standin.add_user("rita", "Rita"), access_level=40)
        yield standin
        assert standin.errors == []


@pytest.fixture
def project(gitlab: FullStandin) -> FullProject:
    return gitlab.add_project("team/app")


def connect(gitlab: Standin) -> Client:
    never = RetryPolicy(deadline_s=0.0, clock=Clock(lambda: 1.0))
    return Client(gitlab.url, TOKEN, timeout_s=60.0, retry_policy=never)


def send(gitlab: Standin, method: str, path: str, values: dict[str, Any]) -> str:
    """Why a request is refused, with the status; "" for one that is answered."""
    kind = "query_data" if method == "get" else "post_data"
    try:
        connect(gitlab).http_request(method, path, **{kind: values})
    except ApiError as error:
        return f"{error.status} {error.reason}"
    return ""


def test_the_table_knows_each_endpoint_of_both_stand_ins_and_no_other(
    gitlab: FullStandin,
) -> None:
    endpoints = {(each.method, each.path): each for each in (*gitlab.more_endpoints, *ENDPOINTS)}
    assert set(BY_ENDPOINT) == set(endpoints)
    assert len(BY_ENDPOINT) == len(FACTS), "each once"
    roles = {key: each.access for key, each in endpoints.items() if key[1] != GRAPHQL.path}
    assert {key: BY_ENDPOINT[key].role for key in roles} == roles


SCHEDULE = {"description": "d", "ref": "main", "cron": "0 2 * * *"}


@pytest.mark.parametrize(
    ("method", "path", "values", "why"),
    [
        ("post", "labels", {"name": "x"}, "400 color is missing"),
        ("post", "labels", {"name": ["x"], "color": "#000000"}, "400 name is invalid"),
        (
            "post",
            "labels",
            {"name": "x" * 256, "color": "#000000"},
            '400 {"name": ["is too long (maximum is 255 characters)"]}',
        ),
        ("post", "labels", {"name": "x", "color": "#0", "colour": 1}, "400 colour is not declared"),
        ("post", "pipeline_schedules", {**SCHEDULE, "active": "maybe"}, "400 active is invalid"),
        ("post", "pipeline_schedules", {**SCHEDULE, "inputs": {"a": 1}}, "400 inputs is invalid"),
        ("get", "merge_requests", {"state": "open"}, "400 state does not have a valid value"),
        ("get", "merge_requests", {"created_after": "then"}, "400 created_after is invalid"),
        ("get", "merge_requests", {"per_page": "many"}, "400 per_page is invalid"),
        ("get", "members/all", {"user_ids[]": ["a"]}, "400 user_ids is invalid"),
        ("get", "pipelines", {"source": "nightly"}, "400 source does not have a valid value"),
        ("post", "issues", {"title": "t", "confidential": "x"}, "400 confidential is invalid"),
        (
            "post",
            "variables",
            {"key": "K", "value": "short", "masked": True},
            '400 {"value": ["is invalid"]}',
        ),
        ("get", "ci/lint", {}, "404 404 Repository Not Found"),
        (
            "post",
            "repository/commits",
            {"branch": "main", "commit_message": "m", "actions": "a"},
            "400 actions is invalid",
        ),
    ],
)
def test_what_gitlab_refuses_is_refused_in_its_words(
    gitlab: FullStandin,
    project: FullProject,
    method: str,
    path: str,
    values: dict[str, Any],
    why: str,
) -> None:
    assert send(gitlab, method, f"/projects/{project.id}/{path}", values) == why


def test_the_demos_stand_in_is_held_against_the_same_table(tmp_path: Path) -> None:
    with Standin(tmp_path / "gitlab") as gitlab:
        gitlab.add_token(TOKEN, gitlab.add_user("rita", "Rita"))
        project = gitlab.add_project("team/app")
        at = f"/projects/{project.id}/labels"
        assert send(gitlab, "post", at, {"name": ["x"], "color": "#000000"}) == (
            "400 name is invalid"
        )


def test_without_the_table_a_mistake_would_pass(
    gitlab: FullStandin, project: FullProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Standin, "check_request", lambda *_: None)
    values = {"name": "x", "color": "#000000", "colour": "#000000"}
    assert send(gitlab, "post", f"/projects/{project.id}/labels", values) == ""


def test_limits_and_rights_are_gitlabs(gitlab: FullStandin, project: FullProject) -> None:
    rita = gitlab.users[0]
    at = f"/projects/{project.id}/pipeline_schedules"
    project.schedules += [StandinSchedule(n, rita) for n in range(1, 11)]
    assert "Maximum number of pipeline schedules (10) exceeded" in send(
        gitlab, "post", at, SCHEDULE
    )
    project.variables_role = NOBODY
    given = {"key": "K", "value": "v"}
    assert send(gitlab, "post", f"{at}/1/variables", given) == "403 403 Forbidden"
    other = gitlab.add_user("ada", "Ada")
    project.schedules[0].owner = other
    assert send(gitlab, "put", f"{at}/1", {"active": False}) == "403 403 Forbidden"
    assert send(gitlab, "delete", f"{at}/1", {}) == "", "a Maintainer may"


def test_a_developer_commits_to_no_protected_branch(
    gitlab: FullStandin, project: FullProject
) -> None:
    gitlab.tokens.clear()
    gitlab.add_token(TOKEN, gitlab.users[0], access_level=30)
    values = {"branch": "main", "commit_message": "m", "start_sha": "0", "actions": []}
    at = f"/projects/{project.id}/repository/commits"
    assert send(gitlab, "post", at, values) == "400 You are not allowed to push into this branch"


def test_what_a_tier_lacks_is_not_there(tmp_path: Path) -> None:
    with FullStandin(tmp_path / "gitlab") as gitlab:
        gitlab.paid_tier = False
        gitlab.add_token(TOKEN, gitlab.add_user("rita", "Rita"), access_level=40)
        project = gitlab.add_project("team/app")
        for name in ("push_rule", "approval_rules"):
            assert send(gitlab, "get", f"/projects/{project.id}/{name}", {}).startswith("404 ")
