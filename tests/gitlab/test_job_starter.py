"""Who started a job, as GitLab answers."""

import re
from typing import Any

import pytest
import responses

from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.pipelines import JobStart
from gitlab_nightshift.gitlab.project import open_project

from .conftest import API, PROJECT, TOKEN

JOB = {
    "id": 7,
    "status": "running",
    "pipeline": {"id": 4711},
    "user": {"id": 9, "username": "olga", "state": "active"},
}
SERVER = API.removesuffix("/api/v4")


def started(
    job: dict[str, Any] | None, member: dict[str, Any] | None = None, status: int = 404
) -> JobStart | None:
    """What is known of job 7 where GitLab answers so; None stands for ``status``."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as http:
        for path, body in (("jobs/7", job), ("members/all/9", member)):
            answer = {"json": body} if body is not None else {"status": status, "json": {}}
            http.get(re.compile(rf"{re.escape(API)}/projects/[^/]+/{path}"), **answer)
        return open_project(SERVER, PROJECT.rpartition("/")[2], TOKEN).find_job_start("7")


def test_user_and_role() -> None:
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
def test_no_role_is_none(user: dict[str, Any], member: dict[str, Any] | None) -> None:
    found = started({**JOB, "user": {**JOB["user"], **user}}, member)  # type: ignore[dict-item]
    assert found is not None
    assert found.level == 0


@pytest.mark.parametrize("job", [None, {}, {**JOB, "user": None}, {**JOB, "user": {"id": "9"}}])
def test_job_without_a_user_is_none(job: dict[str, Any] | None) -> None:
    assert started(job) is None


def test_refusal_is_an_error() -> None:
    with pytest.raises(ApiError):
        started(None, status=403)
