"""Pipelines and jobs: variables that arrive unchanged, explained errors, who started a job."""

import re
from typing import Any

import pytest
import requests
import responses
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.pipelines import Job, JobStart, Pipeline, escape_value
from gitlab_nightshift.gitlab.project import Project, open_project
from tests.gitlab.conftest import API, PROJECT, SERVER, TOKEN

_SERVER = re.compile(r"\$\$|%%|\$([a-zA-Z_][a-zA-Z0-9_]*)|\$\{([a-zA-Z_]\w*)?\}|%([a-zA-Z_]\w*)%")
"""What GitLab expands in a variable (lib/gitlab/ci/variables/collection/item.rb)."""


def expand(value: str) -> str:
    """A value as a job gets it: GitLab expands variables first, then the runner, by Go's rules."""

    def expand_on_server(match: re.Match[str]) -> str:
        return "SECRET" if any(match.groups()) else match[0]

    def expand_on_runner(match: re.Match[str]) -> str:
        return "$" if match[1] == "$" else "SECRET"

    on_server = _SERVER.sub(expand_on_server, value)
    return re.sub(r"\$(\$|\{[^}]*\}|\w+|.)", expand_on_runner, on_server)


def test_the_rules_of_the_test_expand_variables() -> None:
    assert expand("$A ${A} %A% $$A %%A%%") == "SECRET SECRET SECRET $A %%A%%"


@pytest.mark.parametrize("text", ["5 $", "$A", "${A}", "$$A", "$${A}", "5% a", "%a %b", "100%"])
def test_a_value_arrives_unchanged(text: str) -> None:
    assert expand(escape_value(text)) == text


@given(st.text("A_$%{} 1", max_size=40))
def test_no_variable_is_ever_expanded(text: str) -> None:
    value = expand(escape_value(text))
    assert "SECRET" not in value
    assert value.replace("%%", "%") == text.replace("%%", "%") or "%" in text
    assert "%" in text or value == text


@responses.activate
def test_a_pipeline_is_started(project: Project) -> None:
    url = "https://gitlab.example/-/pipelines/9"
    got = responses.post(f"{PROJECT}/pipeline", json={"id": 9, "web_url": url}, status=201)
    assert project.pipelines.start("main", {"A": "1"}) == Pipeline(9, url)
    assert got.call_count == 1
    body = responses.calls[0].request.body
    assert body == b'{"ref": "main", "variables": [{"key": "A", "value": "1"}]}'


@responses.activate
def test_a_pipeline_that_may_have_started_is_not_started_again(project: Project) -> None:
    got = responses.post(f"{PROJECT}/pipeline", status=502, json={"message": "502 Bad Gateway"})
    with pytest.raises(ApiError, match=r"502.*may have started anyway"):
        project.pipelines.start("main", {})
    assert got.call_count == 1


@responses.activate
def test_without_an_answer_the_error_says_to_check_the_pipelines(project: Project) -> None:
    responses.post(f"{PROJECT}/pipeline", body=requests.ConnectionError())
    with pytest.raises(ApiError, match="may have started anyway"):
        project.pipelines.start("main", {})


@responses.activate
def test_jobs_are_read(project: Project) -> None:
    jobs = [{"id": 1, "name": "a", "status": "manual"}, {"id": 2, "name": "b", "status": "failed"}]
    responses.get(f"{PROJECT}/pipelines/9/jobs", json=jobs)
    found = project.pipelines.list_jobs(9)
    assert found == (Job(1, "a", "manual"), Job(2, "b", "failed"))
    assert [job.finished for job in found] == [False, True]


@responses.activate
def test_a_job_is_played_once(project: Project) -> None:
    got = responses.post(f"{PROJECT}/jobs/3/play", status=500, json={"message": "500"})
    with pytest.raises(ApiError):
        project.pipelines.play(3)
    assert got.call_count == 1


# --- who started a job ----------------------------------------------------------------------------


JOB = {
    "id": 7,
    "status": "running",
    "pipeline": {"id": 4711},
    "user": {"id": 9, "username": "olga", "state": "active"},
}


def started(
    job: dict[str, Any] | None, member: dict[str, Any] | None = None, status: int = 404
) -> JobStart | None:
    """The start of job 7 if GitLab answers this; for None it answers ``status``."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as http:
        for path, body in (("jobs/7", job), ("members/all/9", member)):
            answer = {"json": body} if body is not None else {"status": status, "json": {}}
            http.get(re.compile(rf"{re.escape(API)}/projects/[^/]+/{path}"), **answer)
        return open_project(SERVER, PROJECT.rpartition("/")[2], TOKEN).find_job_start("7")


def test_a_jobs_starter_has_a_user_and_a_level() -> None:
    olga = {"id": 9, "state": "active", "access_level": 40}
    assert started(JOB, olga) == JobStart("4711", "running", 9, "olga", 40)


@pytest.mark.parametrize(
    ("user", "member"),
    [
        ({}, None),
        ({}, {"id": 9, "state": "active"}),
        ({"state": "blocked"}, {"id": 9, "state": "active", "access_level": 40}),
        ({}, {"id": 9, "state": "awaiting", "access_level": 40}),
    ],
)
def test_a_starter_without_an_active_membership_has_level_0(
    user: dict[str, Any], member: dict[str, Any] | None
) -> None:
    found = started({**JOB, "user": {**JOB["user"], **user}}, member)  # type: ignore[dict-item]
    assert found is not None
    assert found.level == 0


@pytest.mark.parametrize("job", [None, {}, {**JOB, "user": None}, {**JOB, "user": {"id": "9"}}])
def test_a_job_without_a_user_has_no_starter(job: dict[str, Any] | None) -> None:
    assert started(job) is None


def test_a_refusal_to_show_a_job_is_an_error() -> None:
    with pytest.raises(ApiError):
        started(None, status=403)
