"""A project's settings, by the stand-in and the real python-gitlab."""

import pytest

from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.project import Project, open_project
from gitlab_nightshift.gitlab.project_settings import CiVariable, PushRule
from tests.support.lint_endpoints import LINT_ENDPOINTS
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject, StandinSchedule

from .conftest import TOKEN

OWNER = "glpat-owner-token-0002"
VALUE = "a-value-that-nobody-keeps"


def opened(gitlab: FullStandin, remote: FullProject, level: int) -> Project:
    gitlab.add_token(OWNER, gitlab.users[0], access_level=level)
    return open_project(gitlab.url, remote.path, OWNER)


def test_schedules_with_what_makes_them_a_night(gitlab: FullStandin, remote: FullProject) -> None:
    rita = gitlab.add_user("rita", "Rita")
    gitlab.blocked.add(rita.id)
    remote.schedules += [
        StandinSchedule(1, rita, "off", active=False),
        StandinSchedule(2, rita, "night"),
        StandinSchedule(3, gitlab.users[0], "builds", "main", variables={"NIGHTSHIFT": "no"}),
    ]
    schedules = opened(gitlab, remote, 40).ci_settings.list_schedules()
    assert schedules
    assert {each.id: each.has_night_variable for each in schedules} == {2: True, 3: False, 1: True}
    assert [(each.id, each.ref) for each in schedules] == [(2, "main"), (3, "main"), (1, "main")]
    assert (schedules[0].owner, schedules[0].owner_active) == ("rita", False)
    assert schedules[1].owner_active is True


def test_a_developer_sees_no_variables_of_others_schedules(
    gitlab: FullStandin, remote: FullProject, app: Project
) -> None:
    remote.schedules.append(StandinSchedule(1, gitlab.add_user("rita", "Rita")))
    found = app.ci_settings.list_schedules()
    assert found
    assert found[0].has_night_variable is None


def test_variables_are_read_without_their_values(gitlab: FullStandin, remote: FullProject) -> None:
    remote.variables += [
        {"key": f"V{n}", "value": VALUE, "protected": False, "masked": True} for n in range(120)
    ]
    found = opened(gitlab, remote, 40).ci_settings.list_variables()
    assert found
    assert len(found) == 120
    assert found[0] == CiVariable("V0", protected=False, masked=True, scope="*")
    assert VALUE not in repr(found)


def test_a_push_rule_is_read(gitlab: FullStandin, remote: FullProject) -> None:
    remote.push_rule = {"branch_name_regex": "^feature/", "member_check": True, "max_file_size": 1}
    rule = opened(gitlab, remote, 40).ci_settings.read_push_rule()
    assert rule == PushRule(branch_name_regex="^feature/", member_check=True)


def test_hidden_settings_are_none_and_a_server_error_is_an_error(
    gitlab: FullStandin, app: Project
) -> None:
    settings = app.ci_settings
    assert (settings.read_push_rule(), settings.list_variables()) == (None, None)
    gitlab.fail_next("GET", "/pipeline_schedules", 404, {"message": "404"})
    assert settings.list_schedules() is None
    gitlab.fail_next("GET", "/push_rule", 501, {"message": "no"})
    with pytest.raises(ApiError):
        settings.read_push_rule()
    assert TOKEN not in repr(settings)


def test_a_pipeline_file_is_read_with_its_errors(gitlab: FullStandin, remote: FullProject) -> None:
    gitlab.more_endpoints += LINT_ENDPOINTS
    settings = opened(gitlab, remote, 40).ci_settings
    good = settings.check_pipeline_text("build:\n  script: [make]\n")
    assert good
    assert (good.errors, "make" in good.merged) == ((), True)
    bad = settings.check_pipeline_text("build:\n  stage: test\n")
    assert bad
    assert [error.split(" config")[0] for error in bad.errors] == ["jobs:build"]
    own = settings.check_pipeline_file()
    assert own
    assert own.errors == ("Please provide content of .gitlab-ci.yml",)
