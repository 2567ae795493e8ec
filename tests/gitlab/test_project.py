"""A project against the stand-in: real python-gitlab, real HTTP, real repositories."""

from pathlib import Path

from gitlab_nightshift.demo import standin_state
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.resources import Label
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject

from .conftest import git

LABELS = (Label("night-shift", "#6666c4", "About"), Label("tests", "#428fdc", "Tests"))


def test_a_projects_attributes_are_read(app: Project, remote: FullProject) -> None:
    assert app.facts.id == remote.id
    assert app.facts.path == "team/app"
    assert app.facts.visibility == "private"
    assert app.facts.default_branch == "main"


def test_a_branchs_head_is_found(app: Project, tmp_path: Path) -> None:
    head = git(tmp_path / "work", "rev-parse", "night-shift/a")
    assert app.find_branch_head("night-shift/a") == head
    assert app.find_branch_head("night-shift/z") is None
    assert app.has_commit("night-shift/a", git(tmp_path / "work", "rev-parse", "main")) is True
    assert app.has_commit("main", head) is False
    assert app.has_commit("main", "0" * 40) is None


def test_labels_are_created_once(app: Project, remote: FullProject) -> None:
    remote.labels.append(standin_state.StandinLabel(1, "tests", "#000000", "ours"))
    assert app.ensure_labels(LABELS) == ()
    assert app.ensure_labels(LABELS) == ()
    found = {each.name: (each.color, each.description) for each in remote.labels}
    assert found == {"night-shift": ("#6666c4", "About"), "tests": ("#000000", "ours")}


def test_labels_are_created_although_an_answer_is_lost(
    gitlab: FullStandin, app: Project, remote: FullProject
) -> None:
    gitlab.drop_next("POST", "/labels$")
    assert app.ensure_labels(LABELS) == ()
    assert len(remote.labels) == 2


def test_a_label_that_may_not_be_created_is_a_warning(gitlab: FullStandin, app: Project) -> None:
    gitlab.fail_next("POST", "/labels$", 403, {"message": "403 Forbidden"})
    [warning] = app.ensure_labels(LABELS)
    assert "night-shift" in warning
    assert "403" in warning


def test_users_are_found_by_name(gitlab: FullStandin, app: Project) -> None:
    ada, grace = gitlab.add_user("ada", "Ada"), gitlab.add_user("grace", "Grace")
    found = [app.people.find_user(name) for name in ("ada", "nobody", "@grace", "ADA")]
    assert [each and each.id for each in found] == [ada.id, None, grace.id, ada.id]
    assert (app.people.has_user("ada"), app.people.has_user("nobody")) == (True, False)
    gitlab.fail_next("GET", "/users$", 403, {"message": "403 Forbidden"})
    assert app.people.has_user("ada") is None


def test_protected_branches_are_listed(
    gitlab: FullStandin, app: Project, remote: FullProject
) -> None:
    assert app.list_protected_patterns() == ("main",)
    remote.protected_branches.append("night-*")
    assert app.list_protected_patterns() == ("main", "night-*")
    for status in (403, 404):
        gitlab.fail_next("GET", "/protected_branches$", status, {"message": "no"})
        assert app.list_protected_patterns() is None


def test_nothing_is_requested_before_it_is_needed(gitlab: FullStandin, app: Project) -> None:
    assert gitlab.requests == []
    assert app.name


def test_the_tokens_user_is_requested_once(gitlab: FullStandin, app: Project) -> None:
    before = len(gitlab.requests)
    ids = {app.check_access().user_id, app.threads.read_own_id(), app.threads.read_own_id()}
    assert len(ids) == 1
    assert [each.path for each in gitlab.requests[before:]].count("/api/v4/user") == 1
