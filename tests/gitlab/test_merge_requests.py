"""Merge requests against the stand-in: none is opened twice."""

from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.marker import Marker, write_marker
from gitlab_nightshift.gitlab.merge_requests import CHECK_PAUSES_S, TAIL_BYTES, Reviews
from gitlab_nightshift.gitlab.project import Project, open_project
from gitlab_nightshift.gitlab.threads import format_position
from gitlab_nightshift.system.retry import Clock
from tests.support.clock import FakeTime
from tests.support.standin import FullStandin
from tests.support.standin_pipelines import add_pipeline
from tests.support.standin_records import FullProject, PipelineJob
from tests.support.world import BOT_TOKEN, World, world

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
    assert app.merge_requests.find_from_branch("night-shift/a", made.sha) == made
    assert app.merge_requests.find_from_branch("night-shift/a", "other") == made
    remote.merge_requests[0].change_state("closed")
    assert app.merge_requests.find_from_branch("night-shift/a", "other") is None
    closed = app.merge_requests.find_by_run("4711")
    assert closed
    assert closed.state == "closed"
    [stored] = remote.merge_requests
    assert stored.remove_source_branch is True
    assert stored.squash is False


def test_an_open_one_to_another_target_is_found(app: Project, remote: FullProject) -> None:
    made = app.merge_requests.create(new(target_branch="start"), "x")
    assert app.merge_requests.find_from_branch("night-shift/a", made.sha) == made


def test_a_lost_answer_opens_no_second_merge_request(
    gitlab: FullStandin, app: Project, remote: FullProject, time: FakeTime
) -> None:
    gitlab.drop_next("POST", "/merge_requests$")
    made = app.merge_requests.create(new(), str(app.find_branch_head("night-shift/a")))
    assert made.iid == 1
    assert len(remote.merge_requests) == 1
    assert len(time.pauses) == 1
    posts = [each for each in gitlab.requests if each.method == "POST"]
    assert len(posts) == 1


# --- the state of open ones -----------------------------------------------------------------------


def open_reviews(shop: World) -> Reviews:
    clock = Clock(sleep=lambda _: None)
    url, number = shop.gitlab.url, str(shop.project.id)
    return open_project(url, number, BOT_TOKEN, clock=clock).reviews


def test_the_ends_of_failed_jobs_logs_are_read(tmp_path: Path) -> None:
    """Only of jobs that a commit may repair; of a long log the end, from a complete line on."""
    with world(tmp_path) as shop:
        log = "half a secret line\n" + "x" * TAIL_BYTES + "\nend"
        failed = PipelineJob(0, 0, "unit", shop.folder, status="failed", log=log)
        lost = PipelineJob(0, 0, "lost", shop.folder, None, "failed", "", "runner_system_failure")
        allowed = PipelineJob(0, 0, "lax", shop.folder, status="failed", allow_failure=True)
        good = PipelineJob(0, 0, "good", shop.folder, log="well")
        made = add_pipeline(shop.gitlab, shop.project, "main", [good, lost, allowed, failed])
        [job] = open_reviews(shop).read_failed_jobs(made.id)
        assert (job.name, job.tail) == ("unit", "end")


def test_a_rebase_that_gitlab_refuses_or_does_not_end(tmp_path: Path) -> None:
    with world(tmp_path) as shop:
        reviews = open_reviews(shop)
        shop.gitlab.fail_next("PUT", "/rebase", 403, {"message": "403 Forbidden"})
        assert "403" in reviews.rebase(1)
        shop.gitlab.fail_next("PUT", "/rebase", 202, {"rebase_in_progress": True})
        busy = {"rebase_in_progress": True, "merge_error": None}
        shop.gitlab.fail_next("GET", "/merge_requests/1$", 200, busy, times=20)
        with pytest.raises(ApiError, match="has not ended yet"):
            reviews.rebase(1)


def test_gitlab_is_asked_for_a_conflict_until_its_merge_check_has_ended(app: Project) -> None:
    """The first request after a push only starts the check."""
    made = app.merge_requests.create(new(), "")
    assert app.reviews.read_state(made.iid).conflict is None
    assert [each.conflict for each in app.reviews.read_checked_states([made.iid])] == [False]


def test_a_conflict_is_unknown_if_the_merge_check_does_not_end(
    gitlab: FullStandin, app: Project, time: FakeTime
) -> None:
    first, other = (app.merge_requests.create(new(f"night-shift/{name}"), "") for name in "ab")
    busy = {"iid": first.iid, "state": "opened", "detailed_merge_status": "checking"}
    gitlab.fail_next("GET", f"/merge_requests/{first.iid}$", 200, busy, times=1000)
    found = app.reviews.read_checked_states([first.iid, other.iid])
    assert {each.iid: each.conflict for each in found} == {first.iid: None, other.iid: False}
    assert sum(time.pauses) == sum(CHECK_PAUSES_S)


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (None, ""),
        ({"new_path": "a.py", "new_line": 3}, "a.py:3"),
        ({"old_path": "a.py", "new_path": "a.py", "old_line": 3}, "a.py:3 (old)"),
        (
            {
                "new_path": "a.py",
                "new_line": 5,
                "line_range": {"start": {"new_line": 3}, "end": {"new_line": 5}},
            },
            "a.py:3-5",
        ),
        ({"new_path": "a.png", "position_type": "image"}, "a.png"),
    ],
)
def test_the_position_of_a_comment_in_the_diff_is_formatted(position: Any, text: str) -> None:
    assert format_position(position) == text
