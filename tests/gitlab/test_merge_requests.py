"""Merge requests against the stand-in: none is opened twice."""

from gitlab_nightshift.gitlab.marker import Marker, write_marker
from gitlab_nightshift.gitlab.project import Project
from tests.support.clock import FakeTime
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject

from .conftest import new


def test_create_and_find_again(app: Project, remote: FullProject) -> None:
    marker = Marker("4711", "tests", "0123456789abcdef")
    body = f"B\n\n{write_marker(marker)}\n"
    made = app.merge_requests.create(new(body=body, labels=("night-shift",)), "x")
    assert made.marker == marker
    assert (made.iid, made.state, made.labels) == (1, "opened", ("night-shift",))
    assert app.merge_requests.create(new(), made.sha) == made
    assert app.merge_requests.find_by_run("4711") == made
    assert app.merge_requests.find_by_run("471") is None
    assert app.merge_requests.find_from("night-shift/a", made.sha) == made
    assert app.merge_requests.find_from("night-shift/a", "other") == made
    remote.merge_requests[0].settle("closed")
    assert app.merge_requests.find_from("night-shift/a", "other") is None
    found = app.merge_requests.find_by_run("4711")
    assert found
    assert found.state == "closed"
    [stored] = remote.merge_requests
    assert stored.remove_source_branch is True
    assert stored.squash is False


def test_an_open_one_to_another_target_is_found(app: Project, remote: FullProject) -> None:
    made = app.merge_requests.create(new(target_branch="start"), "x")
    assert app.merge_requests.find_from("night-shift/a", made.sha) == made


def test_a_lost_answer_makes_no_second_one(
    gitlab: FullStandin, app: Project, remote: FullProject, time: FakeTime
) -> None:
    gitlab.drop_next("POST", "/merge_requests$")
    made = app.merge_requests.create(new(), str(app.find_branch_head("night-shift/a")))
    assert made.iid == 1
    assert len(remote.merge_requests) == 1
    assert len(time.pauses) == 1
    posts = [each for each in gitlab.requests if each.method == "POST"]
    assert len(posts) == 1
