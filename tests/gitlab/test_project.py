"""The façade against the stand-in: real python-gitlab, real HTTP, real repositories."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.demo import standin_state
from gitlab_nightshift.demo.standin import Standin
from gitlab_nightshift.gitlab import (
    Label,
    Marker,
    NewMergeRequest,
    Project,
    open_project,
    write_marker,
)

from .conftest import TOKEN, FakeTime

LABELS = (Label("night-shift", "#6666c4", "About"), Label("tests", "#428fdc", "Tests"))


@pytest.fixture
def gitlab(tmp_path: Path) -> Iterator[Standin]:
    with Standin(tmp_path / "gitlab") as standin:
        bot = standin.add_user("night-bot", "Night Shift", bot=True)
        standin.add_token(TOKEN, bot)
        yield standin
        assert standin.errors == []


def git(folder: Path, *args: str) -> str:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "ada@example.invalid" for who in ("AUTHOR", "COMMITTER")},
    }
    done = subprocess.run(["git", *args], cwd=folder, env=env, check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture
def remote(gitlab: Standin, tmp_path: Path) -> standin_state.Project:
    """A project whose main is one commit behind the branches night-shift/a to c."""
    made, work = gitlab.add_project("team/app"), tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    git(work, "commit", "-q", "--allow-empty", "-m", "one")
    git(work, "branch", "start")
    for name in ("a", "b", "c"):
        git(work, "checkout", "-q", "-b", f"night-shift/{name}", "main")
        git(work, "commit", "-q", "--allow-empty", "-m", name)
    git(work, "push", "-q", str(made.bare_repository), "--all")
    return made


@pytest.fixture
def app(gitlab: Standin, remote: standin_state.Project, time: FakeTime) -> Project:
    return open_project(gitlab.url, str(remote.id), TOKEN, clock=time.clock)


def new(branch: str = "night-shift/a", **more: object) -> NewMergeRequest:
    values = {"title": "T", "body": "B", "target_branch": "main", **more}
    return NewMergeRequest(source_branch=branch, **values)  # type: ignore[arg-type]


def test_facts(app: Project, remote: standin_state.Project) -> None:
    assert app.facts.id == remote.id
    assert app.facts.path == "team/app"
    assert app.facts.http_url == remote.http_url
    assert app.visibility() == "private"
    assert app.default_branch() == "main"


def test_branches(app: Project, tmp_path: Path) -> None:
    head = git(tmp_path / "work", "rev-parse", "night-shift/a")
    assert app.branch_head("night-shift/a") == head
    assert app.branch_head("night-shift/z") is None
    assert app.contains("night-shift/a", git(tmp_path / "work", "rev-parse", "main")) is True
    assert app.contains("main", head) is False
    assert app.contains("main", "0" * 40) is None


def test_create_and_find_again(app: Project, remote: standin_state.Project) -> None:
    marker = Marker("4711", "tests", "0123456789abcdef")
    body = f"B\n\n{write_marker(marker)}\n"
    made = app.create_merge_request(new(body=body, labels=("night-shift",)), "x")
    assert made.marker == marker
    assert (made.iid, made.state, made.labels) == (1, "opened", ("night-shift",))
    assert app.create_merge_request(new(), made.sha) == made
    assert app.merge_request_of_run("4711") == made
    assert app.merge_request_of_run("471") is None
    assert app.merge_request_from("night-shift/a", made.sha) == made
    assert app.merge_request_from("night-shift/a", "other") == made
    remote.merge_requests[0].settle("closed")
    assert app.merge_request_from("night-shift/a", "other") is None
    found = app.merge_request_of_run("4711")
    assert found
    assert found.state == "closed"
    [stored] = remote.merge_requests
    assert stored.remove_source_branch is True
    assert stored.squash is False


def test_an_open_one_to_another_target_is_found(
    app: Project, remote: standin_state.Project
) -> None:
    made = app.create_merge_request(new(target_branch="start"), "x")
    assert app.merge_request_from("night-shift/a", made.sha) == made


def test_own_open_merge_requests(app: Project, remote: standin_state.Project) -> None:
    by_marker = write_marker(Marker("1", "docs", ""))
    app.create_merge_request(
        new("night-shift/a", title="[night-shift/tests] x", body=by_marker), ""
    )
    labelled = new("night-shift/b", title="[night-shift/tests] y", labels=("night-shift",))
    app.create_merge_request(labelled, "")
    app.create_merge_request(new("night-shift/c", title="[night-shift/tests] by hand"), "")
    app.create_merge_request(new("start", title="z", labels=("night-shift",)), "")
    found = app.open_merge_requests("night-shift/")
    assert [(each.iid, each.category, each.source_branch) for each in found] == [
        (2, "tests", "night-shift/b"),
        (1, "docs", "night-shift/a"),
    ]
    remote.merge_requests[0].settle("merged")
    assert [each.iid for each in app.open_merge_requests("night-shift/")] == [2]


def test_more_than_a_page(app: Project, remote: standin_state.Project) -> None:
    app.create_merge_request(new(labels=("night-shift",)), "")
    [first] = remote.merge_requests
    import dataclasses

    for number in range(2, 131):
        remote.merge_requests.append(dataclasses.replace(first, iid=number))
    assert len(app.open_merge_requests("night-shift/")) == 130


def test_labels_made_once(app: Project, remote: standin_state.Project) -> None:
    remote.labels.append(standin_state.Label(1, "tests", "#000000", "ours"))
    assert app.ensure_labels(LABELS) == ()
    assert app.ensure_labels(LABELS) == ()
    found = {each.name: (each.color, each.description) for each in remote.labels}
    assert found == {"night-shift": ("#6666c4", "About"), "tests": ("#000000", "ours")}


def test_labels_whose_answer_is_lost(
    gitlab: Standin, app: Project, remote: standin_state.Project
) -> None:
    gitlab.drop_next("POST", "/labels$")
    assert app.ensure_labels(LABELS) == ()
    assert len(remote.labels) == 2


def test_labels_that_may_not_be_made_are_a_warning(gitlab: Standin, app: Project) -> None:
    gitlab.fail_next("POST", "/labels$", 403, {"message": "403 Forbidden"})
    [warning] = app.ensure_labels(LABELS)
    assert "night-shift" in warning
    assert "403" in warning


def test_users(gitlab: Standin, app: Project) -> None:
    ada, grace = gitlab.add_user("ada", "Ada"), gitlab.add_user("grace", "Grace")
    ids, warnings = app.user_ids(["ada", "nobody", "@grace", "ADA"])
    assert ids == (ada.id, grace.id)
    assert warnings == ("reviewer nobody is not known to GitLab",)
    gitlab.fail_next("GET", "/users$", 403, {"message": "403 Forbidden"})
    ids, [warning] = app.user_ids(["ada"])
    assert ids == ()
    assert "could not be looked up" in warning


def test_protected_patterns(gitlab: Standin, app: Project, remote: standin_state.Project) -> None:
    assert app.protected_patterns() == ("main",)
    remote.protected_branches.append("night-*")
    assert app.protected_patterns() == ("main", "night-*")
    for status in (403, 404):
        gitlab.fail_next("GET", "/protected_branches$", status, {"message": "no"})
        assert app.protected_patterns() is None


def test_a_lost_answer_makes_no_second_one(
    gitlab: Standin, app: Project, remote: standin_state.Project, time: FakeTime
) -> None:
    gitlab.drop_next("POST", "/merge_requests$")
    made = app.create_merge_request(new(), str(app.branch_head("night-shift/a")))
    assert made.iid == 1
    assert len(remote.merge_requests) == 1
    assert len(time.pauses) == 1
    posts = [each for each in gitlab.requests if each.method == "POST"]
    assert len(posts) == 1


def test_nothing_is_asked_before_it_is_needed(gitlab: Standin, app: Project) -> None:
    assert gitlab.requests == []
    assert app.name
