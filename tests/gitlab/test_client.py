"""GitLab's error answers, and none at all: one kind of error, never with the token in it."""

import json
from collections.abc import Iterator

import pytest
import requests
import responses
from responses import matchers

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.project import Project, open_project
from gitlab_nightshift.gitlab.resources import NewMergeRequest
from tests.support.clock import FakeTime
from tests.support.ports import refusing_port

from .conftest import API, PROJECT, SERVER, TOKEN

PROJECT_JSON = {"id": 7, "path_with_namespace": "g/p", "default_branch": "main"}
MERGE_REQUESTS = f"{PROJECT}/merge_requests"
NEW = NewMergeRequest("T", "B", "night-shift/x", "main", ("night-shift",), (3,))
MR = {
    "iid": 5,
    "title": "T",
    "web_url": f"{SERVER}/g/p/-/merge_requests/5",
    "state": "opened",
    "source_branch": "night-shift/x",
    "target_branch": "main",
    "source_project_id": 7,
    "sha": "abc",
    "labels": [],
    "reviewers": [],
    "description": None,
}


@pytest.fixture
def http() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


def failure(project: Project) -> ApiError:
    with pytest.raises(ApiError) as raised:
        project.find_branch_head("main")
    assert raised.value.code is Code.PUBLISH
    assert TOKEN not in raised.value.message
    assert "\n" not in raised.value.message
    return raised.value


BRANCH = f"{PROJECT}/repository/branches/main"


def test_reading_waits_for_a_server_that_comes_back(
    http: responses.RequestsMock, project: Project, time: FakeTime
) -> None:
    http.get(BRANCH, status=502, body="<html><title>Bad gateway</title>")
    http.get(BRANCH, body=requests.ConnectTimeout())
    http.get(BRANCH, status=429, headers={"Retry-After": "7"}, json={"message": "Slow"})
    http.get(BRANCH, json={"name": "main", "commit": {"id": "abc"}})
    assert project.find_branch_head("main") == "abc"
    assert len(time.pauses) == 3
    assert time.pauses[2] >= 7
    assert {each.request.headers["PRIVATE-TOKEN"] for each in http.calls} == {TOKEN}


@pytest.mark.parametrize("value", ["soon", "Wed, 21 Oct 2026 07:28:00 GMT", "-5", "inf"])
def test_an_invalid_retry_after_is_ignored(
    http: responses.RequestsMock, project: Project, time: FakeTime, value: str
) -> None:
    http.get(BRANCH, status=429, headers={"Retry-After": value})
    http.get(BRANCH, json={"name": "main", "commit": {"id": "abc"}})
    assert project.find_branch_head("main") == "abc"
    assert time.pauses[0] <= 60


def test_an_html_error_page_becomes_its_title(
    http: responses.RequestsMock, project: Project
) -> None:
    http.get(BRANCH, status=503, body="<html><title>Deploy in progress</title><p>" + "x" * 9999)
    error = failure(project)
    assert error.message == (
        "GitLab at gitlab.example answered 503 to GET projects/7/repository/branches/main: "
        "Deploy in progress"
    )


def test_an_echoed_token_and_control_characters_are_removed(
    http: responses.RequestsMock, project: Project
) -> None:
    http.get(BRANCH, status=400, json={"message": f"bad {TOKEN}\n\x1b[31m" + "y" * 500})
    error = failure(project)
    assert "bad [token] [31m" in error.message
    assert len(error.message) < 450


def test_a_server_that_sends_no_json_is_no_gitlab(
    http: responses.RequestsMock, project: Project
) -> None:
    http.get(BRANCH, body="<html>Welcome", content_type="text/html")
    assert "is this the address of a GitLab" in failure(project).message


def test_a_redirect_is_not_followed(http: responses.RequestsMock, project: Project) -> None:
    http.get(BRANCH, status=302, headers={"Location": "https://elsewhere.invalid/"})
    error = failure(project)
    assert "redirects to https://elsewhere.invalid/" in error.message
    assert len(http.calls) == 1


@pytest.mark.parametrize(
    ("raised", "words", "tries"),
    [
        (requests.ReadTimeout(f"secret {TOKEN}"), "no answer within 30 s", 2),
        (requests.exceptions.SSLError(f"verify failed {TOKEN}"), "certificate", 1),
        (requests.exceptions.ProxyError(f"{TOKEN}"), "proxy", 2),
        (requests.ConnectionError(f"{TOKEN}"), "connection was lost", 2),
        (requests.exceptions.InvalidHeader(f"{TOKEN}"), "connection was lost", 2),
    ],
)
def test_a_failed_connection_is_explained_without_the_token(
    http: responses.RequestsMock, project: Project, raised: Exception, words: str, tries: int
) -> None:
    http.get(BRANCH, body=raised)
    error = failure(project)
    assert error.status is None
    assert words in error.message
    assert "gitlab.example" in error.message
    assert len(http.calls) >= tries
    assert tries > 1 or len(http.calls) == 1


def test_a_refused_connection_is_retried_with_notices(time: FakeTime) -> None:
    with refusing_port() as port:
        told: list[str] = []
        url = f"http://127.0.0.1:{port}"
        error = failure(open_project(url, "7", TOKEN, clock=time.clock, tell=told.append))
    assert len(told) == len(time.pauses) - 1
    assert all(line.startswith(f"{error.message}; trying again in ") for line in told)
    assert error.message == f"GitLab at 127.0.0.1:{port} cannot be reached: connection refused"
    assert sum(time.pauses) <= 120


@pytest.mark.parametrize("server", ["http://a..b", f"http://{'a' * 64}.example", "http://h:99999"])
def test_an_invalid_address_is_not_retried(server: str, time: FakeTime) -> None:
    assert "is not a URL" in failure(open_project(server, "7", TOKEN, clock=time.clock)).message
    assert time.pauses == []


def test_a_missing_ca_file_is_named(time: FakeTime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent/ca.pem")
    error = failure(open_project("https://127.0.0.1:1", "7", TOKEN, clock=time.clock))
    assert error.message.endswith(
        "REQUESTS_CA_BUNDLE names a file of certificates that does not exist"
    )
    assert time.pauses == []


def test_an_unknown_host_is_named(time: FakeTime) -> None:
    error = failure(open_project("http://gitlab.invalid", "7", TOKEN, clock=time.clock))
    assert "gitlab.invalid" in error.message
    assert "cannot be resolved" in error.message


# --- writing ----------------------------------------------------------------------------------


def create(project: Project) -> str:
    return project.merge_requests.create(NEW, "abc").web_url


def posts(http: responses.RequestsMock) -> int:
    return sum(each.request.method == "POST" for each in http.calls)


@pytest.fixture
def writing(http: responses.RequestsMock) -> responses.RequestsMock:
    http.get(PROJECT, json=PROJECT_JSON)
    return http


def test_a_lost_answer_is_looked_for_before_a_second_try(
    writing: responses.RequestsMock, project: Project
) -> None:
    writing.post(MERGE_REQUESTS, body=requests.ReadTimeout())
    writing.get(MERGE_REQUESTS, json=[MR])
    assert create(project) == MR["web_url"]
    assert posts(writing) == 1


def test_a_lost_request_is_sent_again(writing: responses.RequestsMock, project: Project) -> None:
    writing.post(MERGE_REQUESTS, status=500, json={"message": "500"})
    writing.get(MERGE_REQUESTS, json=[])
    writing.post(MERGE_REQUESTS, status=201, json=MR)
    assert create(project) == MR["web_url"]
    assert posts(writing) == 2


@pytest.mark.parametrize(
    "answer",
    [
        {"message": {"source_branch": ["does not exist"]}},
        {"message": ["Source branch does not exist"]},
        {"error": "source_branch does not exist"},
    ],
)
def test_a_branch_that_gitlab_does_not_know_yet_is_waited_for(
    writing: responses.RequestsMock, project: Project, time: FakeTime, answer: object
) -> None:
    for _ in range(5):
        writing.post(MERGE_REQUESTS, status=400, json=answer)
    writing.post(MERGE_REQUESTS, status=201, json=MR)
    writing.get(MERGE_REQUESTS, json=[])
    assert create(project) == MR["web_url"]
    assert sum(time.pauses) > 30


def test_a_branch_that_never_appears_is_given_up(
    writing: responses.RequestsMock, project: Project, time: FakeTime
) -> None:
    writing.post(MERGE_REQUESTS, status=400, json={"message": "Source branch does not exist"})
    writing.get(MERGE_REQUESTS, json=[])
    with pytest.raises(ApiError, match="does not exist"):
        create(project)
    assert 60 <= sum(time.pauses) <= 100


@pytest.mark.parametrize(
    "answer",
    [
        {"message": ["Another open merge request already exists for this source branch: !5"]},
        {"message": "409 Conflict"},
    ],
)
def test_an_open_merge_request_to_any_target_is_success(
    writing: responses.RequestsMock, project: Project, answer: object
) -> None:
    writing.post(MERGE_REQUESTS, status=409, json=answer)
    writing.get(MERGE_REQUESTS, json=[{**MR, "target_branch": "release", "sha": "def"}])
    assert create(project) == MR["web_url"]
    query = writing.calls[-1].request.url or ""
    assert "source_branch=night-shift%2Fx" in query
    assert "target_branch" not in query


def test_a_conflict_without_a_merge_request_is_an_error(
    writing: responses.RequestsMock, project: Project
) -> None:
    writing.post(MERGE_REQUESTS, status=409, json={"message": "409 Conflict"})
    writing.get(MERGE_REQUESTS, json=[{**MR, "source_project_id": 8}])
    with pytest.raises(ApiError) as raised:
        create(project)
    assert raised.value.status == 409


def test_a_resource_lock_and_a_rate_limit_are_retried(
    writing: responses.RequestsMock, project: Project, time: FakeTime
) -> None:
    writing.post(MERGE_REQUESTS, status=409, json={"message": "409 Conflict: Resource lock"})
    writing.post(MERGE_REQUESTS, status=429, headers={"Retry-After": "30"})
    writing.post(MERGE_REQUESTS, status=201, json=MR)
    assert create(project) == MR["web_url"]
    assert time.pauses[1] == 30
    assert not [each for each in writing.calls if "source_branch=" in (each.request.url or "")]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_retried(
    writing: responses.RequestsMock, project: Project, time: FakeTime, status: int
) -> None:
    writing.post(MERGE_REQUESTS, status=status, json={"message": "no"})
    with pytest.raises(ApiError) as raised:
        create(project)
    assert raised.value.status == status
    assert time.pauses == []


def test_a_new_merge_request_has_reviewers_labels_and_removes_its_branch(
    writing: responses.RequestsMock, project: Project
) -> None:
    writing.post(MERGE_REQUESTS, status=201, json=MR)
    create(project)
    body = writing.calls[-1].request.body
    assert json.loads(body or "") == {
        "title": "T",
        "description": "B",
        "source_branch": "night-shift/x",
        "target_branch": "main",
        "target_project_id": 7,
        "labels": ["night-shift"],
        "remove_source_branch": True,
        "reviewer_ids": [3],
        "assignee_ids": [3],
    }


# --- opening ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "name", "token", "words"),
    [
        ("gitlab.example", "7", TOKEN, "not an http(s) URL"),
        ("https://user:pw@gitlab.example", "7", TOKEN, "holds an @: give it without credentials"),
        ("https://[:::::]", "7", TOKEN, "not an http(s) URL"),
        ("https://[::1", "7", TOKEN, "not an http(s) URL"),
        ("ssh://gitlab.example", "7", TOKEN, "not an http(s) URL"),
        (SERVER, "", TOKEN, "repo_url"),
        (SERVER, "7", "", "GITLAB_TOKEN"),
        (SERVER, "7", f"{TOKEN}\n", "GITLAB_TOKEN"),
        (SERVER, "7", f"{TOKEN} x", "GITLAB_TOKEN"),
    ],
)
def test_an_invalid_server_project_or_token_is_a_mistake_of_settings(
    server: str, name: str, token: str, words: str
) -> None:
    with pytest.raises(NightshiftError) as raised:
        open_project(server, name, token)
    assert raised.value.code is Code.CONFIG
    assert words in raised.value.message
    assert "user:pw" not in raised.value.message
    assert TOKEN not in raised.value.message


def test_a_gitlab_below_a_path_is_found(http: responses.RequestsMock, time: FakeTime) -> None:
    http.get("https://example.invalid/git/api/v4/projects/g%2Fp", json=PROJECT_JSON)
    project = open_project("https://example.invalid/git/", "g/p", TOKEN, clock=time.clock)
    assert project.facts.default_branch == "main"


def test_pages_are_read_from_our_server_only(
    http: responses.RequestsMock, project: Project
) -> None:
    http.get(PROJECT, json=PROJECT_JSON)
    elsewhere = "<https://internal.invalid/api/v4/projects/7/protected_branches?page=2>"
    branches, link = f"{PROJECT}/protected_branches", {"Link": f'{elsewhere}; rel="next"'}
    first = matchers.query_param_matcher({"per_page": "100"}, strict_match=False)
    http.get(branches, json=[{"name": "main"}], headers=link, match=[first])
    second = matchers.query_param_matcher({"page": "2"}, strict_match=False)
    http.get(branches, json=[{"name": "v*"}], match=[second])
    assert project.list_protected_patterns() == ("main", "v*")
    assert all(str(each.request.url).startswith(f"{API}/") for each in http.calls)
