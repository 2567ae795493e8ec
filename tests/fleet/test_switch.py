"""``fleet stop`` and ``fleet start`` on a stand-in of many projects."""

from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.fleet.switch import find_top_groups, is_off, start_nights, stop_nights
from gitlab_nightshift.gitlab.fleet_api import FleetApi, open_fleet
from gitlab_nightshift.gitlab.fleet_switch import ENABLED_VARIABLE
from gitlab_nightshift.gitlab.pipelines import list_night_jobs
from gitlab_nightshift.settings.load import load_settings
from tests.fleet.conftest import get_project, run_command
from tests.support.fleet_standin import OWNER_TOKEN, RUN_TOKEN, FleetStandin
from tests.support.group_endpoints import GroupSettings
from tests.support.standin_records import FullProject, PipelineJob, StandinPipeline


@pytest.fixture(autouse=True)
def _fleet(gitlab: FleetStandin) -> None:
    gitlab.add_fleet("acme", 120)


@pytest.fixture
def groups(gitlab: FleetStandin) -> GroupSettings:
    return gitlab.group_settings


@pytest.fixture
def api(gitlab: FleetStandin) -> FleetApi:
    return open_fleet(gitlab.url, OWNER_TOKEN, patience_s=0.0)


def stop(api: FleetApi, *, running: bool = False, group: str = "acme") -> list[tuple[str, str]]:
    return [(each.word, each.text) for each in stop_nights(api, [group], running=running)]


def start(api: FleetApi) -> list[tuple[str, str]]:
    return [(each.word, each.text) for each in start_nights(api, ["acme"])]


def list_values(groups: GroupSettings, group: str = "acme") -> list[tuple[str, bool]]:
    rows = groups.variables.get(group, [])
    return [(row["value"], row["protected"]) for row in rows if row["key"] == ENABLED_VARIABLE]


def add_jobs(gitlab: FleetStandin, project: FullProject, **jobs: str) -> None:
    """A night of a schedule: its jobs without ``nightshift_`` and their statuses."""
    number = gitlab.allocate_id("pipeline")
    user, url = gitlab.account, project.web_url
    made = StandinPipeline(number, "main", "0" * 40, url, user, {}, "schedule")
    project.pipelines.append(made)
    for name, status in jobs.items():
        nowhere, own = gitlab.root / "none", name.replace("nightshift_", "nightshift:")
        made_job = PipelineJob(gitlab.allocate_id("job"), number, own, nowhere, user, status)
        project.jobs.append(made_job)


def list_statuses(project: FullProject) -> dict[str, str]:
    return {job.name: job.status for job in project.jobs}


def test_one_unprotected_variable_stops_all_and_is_deleted_at_start(
    groups: GroupSettings, api: FleetApi
) -> None:
    lines = stop(api)
    assert lines == [
        ("stopped", "acme: NIGHTSHIFT_ENABLED=false"),
        ("below", "acme: 120 projects, 0 settings differ"),
    ]
    assert list_values(groups) == [("false", False)], "nights on any branch see it"
    assert stop(api)[0] == ("stopped", "acme: NIGHTSHIFT_ENABLED=false was set before")
    assert start(api)[0] == ("started", "acme: NIGHTSHIFT_ENABLED is gone")
    assert list_values(groups) == []
    assert start(api)[0] == ("started", "acme: it was not stopped")


def test_a_variable_of_another_value_is_overwritten_and_one_of_an_environment_stays(
    groups: GroupSettings, api: FleetApi
) -> None:
    row: dict[str, Any] = {"key": ENABLED_VARIABLE, "protected": True, "masked": False}
    groups.variables["acme"] = [
        row | {"value": "true", "environment_scope": "*"},
        row | {"value": "true", "environment_scope": "prod"},
    ]
    stop(api)
    assert list_values(groups) == [("false", False), ("true", True)]
    start(api)
    assert list_values(groups) == [("true", True)]


def test_start_keeps_a_variable_that_does_not_stop_nights(
    groups: GroupSettings, api: FleetApi
) -> None:
    row = {"key": ENABLED_VARIABLE, "value": "true", "environment_scope": "*", "protected": False}
    groups.variables["acme"] = [row]
    assert start(api)[0][1] == "acme: NIGHTSHIFT_ENABLED=true is not ours, and stays"
    assert list_values(groups) == [("true", False)]


def test_the_switch_stops_a_nights_plan_as_settings_read_it() -> None:
    for value in ("false", "False", "no", "off", "0"):
        assert is_off(value) is not load_settings({ENABLED_VARIABLE: value}).enabled
    for value in ("true", "yes", "1"):
        assert is_off(value) is not load_settings({ENABLED_VARIABLE: value}).enabled


def test_settings_that_override_the_switch_are_listed(
    gitlab: FleetStandin, groups: GroupSettings, api: FleetApi
) -> None:
    own = {"key": ENABLED_VARIABLE, "value": "true", "environment_scope": "*"}
    groups.variables["acme/team-1"] = [{**own, "value": "yes"}]
    get_project(gitlab, 3).variables.append(own)
    get_project(gitlab, 4).variables.append({**own, "value": "false"})
    get_project(gitlab, 5).variables.append({**own, "hidden": True, "environment_scope": "prod"})
    get_project(gitlab, 6).schedules[0].variables = {ENABLED_VARIABLE: "true"}
    add_jobs(gitlab, get_project(gitlab, 6), nightshift="success")
    lines = [text for word, text in stop(api) if word == "overrides"]
    assert lines == [
        "acme/team-0/project-5, environment prod: project variable NIGHTSHIFT_ENABLED=a hidden"
        " value",
        "acme/team-0/project-3: project variable NIGHTSHIFT_ENABLED=true",
        "acme/team-1: subgroup variable NIGHTSHIFT_ENABLED=yes",
        "acme/team-0/project-6, schedule Night shift (fleet): schedule variable"
        " NIGHTSHIFT_ENABLED=true",
    ]
    assert [text for word, text in start(api) if word == "still off"] == [
        "acme/team-0/project-4: project variable NIGHTSHIFT_ENABLED=false"
    ]


def test_waiting_jobs_are_cancelled_and_running_ones_only_on_request(
    gitlab: FleetStandin, groups: GroupSettings, api: FleetApi
) -> None:
    waits, runs, publishes = (get_project(gitlab, number) for number in (1, 2, 3))
    add_jobs(gitlab, waits, nightshift="pending", build="pending")
    add_jobs(gitlab, runs, nightshift_work="running", nightshift_publish="created", build="running")
    add_jobs(gitlab, publishes, nightshift_publish="pending")
    lines = stop(api)
    assert ("cancelled", f"{waits.path}: nightshift of pipeline 60001, which waited") in lines
    assert ("runs on", f"{runs.path}: pipeline 60002 (--running cancels it)") in lines
    paid = f"{publishes.path}: pipeline 60003 only publishes finished work"
    assert ("runs on", paid) in lines
    assert list_statuses(waits) == {"nightshift": "canceled", "build": "pending"}
    assert list_statuses(runs)["nightshift:work"] == "running"
    assert list_statuses(publishes) == {"nightshift:publish": "pending"}
    stop(api, running=True)
    assert list_statuses(runs) == {
        "nightshift:work": "canceled",
        "nightshift:publish": "canceled",
        "build": "running",
    }
    assert list_statuses(publishes) == {"nightshift:publish": "canceled"}


def test_the_variables_that_a_pipeline_was_started_with_are_listed(
    gitlab: FleetStandin, groups: GroupSettings, api: FleetApi
) -> None:
    project = get_project(gitlab, 1)
    given = {"NIGHTSHIFT": "true", ENABLED_VARIABLE: "true"}
    made = StandinPipeline(7, "main", "0" * 40, "", gitlab.account, given, "web")
    project.pipelines.append(made)
    project.jobs.append(PipelineJob(8, 7, "nightshift", gitlab.root, status="running"))
    lines = stop(api)
    text = f"{project.path}, pipeline 7: pipeline variable NIGHTSHIFT_ENABLED=true"
    assert ("overrides", text) in lines


def test_an_older_gitlab_shows_jobs_without_these_variables(
    gitlab: FleetStandin, groups: GroupSettings, api: FleetApi
) -> None:
    project = get_project(gitlab, 1)
    add_jobs(gitlab, project, nightshift="pending")
    why = "Field 'manualVariables' doesn't exist on type 'Pipeline'"
    gitlab.fail_next("POST", "/api/graphql$", 200, {"errors": [{"message": why}]})
    assert list_night_jobs(api.client, project.path)[0].status == "PENDING"


def test_a_project_that_fails_stops_nothing_and_is_named(
    gitlab: FleetStandin, groups: GroupSettings, api: FleetApi
) -> None:
    for number in (1, 2):
        add_jobs(gitlab, get_project(gitlab, number), nightshift="pending")
    gitlab.fail_next("POST", "/jobs/110001/cancel$", 403, {"message": "403 Forbidden"})
    lines = list(stop_nights(api, ["acme"], running=False))
    failed = [each for each in lines if each.failed]
    assert [each.text.partition(":")[0] for each in failed] == ["acme/team-0/project-1"]
    assert list_statuses(get_project(gitlab, 2)) == {"nightshift": "canceled"}


def test_a_group_that_is_not_ours_stops_nothing_and_is_named(
    gitlab: FleetStandin, groups: GroupSettings, api: FleetApi
) -> None:
    gitlab.add_fleet("other", 2)
    groups.closed.add("acme")
    lines = [*stop_nights(api, ["acme", "other", "nowhere"], running=False)]
    assert [each.word for each in lines if each.failed] == ["not reached"] * 3
    assert "403 Forbidden" in lines[0].text
    assert list_values(groups, "other") == [("false", False)]


def test_a_lost_answer_does_not_leave_it_open_whether_nights_are_stopped(
    gitlab: FleetStandin, groups: GroupSettings, api: FleetApi
) -> None:
    gitlab.drop_next("POST", "/groups/acme/variables$")
    assert stop(api)[0] == ("stopped", "acme: NIGHTSHIFT_ENABLED=false")
    assert list_values(groups) == [("false", False)]


def test_lost_answers_of_what_can_be_repeated_fail_nothing(
    gitlab: FleetStandin, groups: GroupSettings
) -> None:
    patient = open_fleet(gitlab.url, OWNER_TOKEN)
    add_jobs(gitlab, get_project(gitlab, 1), nightshift="pending")
    gitlab.drop_next("POST", "/cancel$")
    gitlab.drop_next("DELETE", "/groups/acme/variables/NIGHTSHIFT_ENABLED$")
    assert [each.failed for each in stop_nights(patient, ["acme"], running=False)] == [False] * 3
    assert [each.failed for each in start_nights(patient, ["acme"])] == [False] * 2
    assert list_values(groups) == []


def test_the_groups_of_a_fleet_are_its_top_level_groups() -> None:
    assert find_top_groups(["acme/a", "acme/b/c", "other"]) == ("acme", "other")


def test_the_commands_say_what_they_did_and_end_with_13_where_something_was_not_reached(
    gitlab: FleetStandin, groups: GroupSettings, tmp_path: Path
) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("groups: [acme/team-0, acme/team-1]\nbudget: {night_usd: 10}\n")
    status, out, _ = run_command(gitlab, OWNER_TOKEN, "stop", "--fleet", str(file))
    assert (status, out.splitlines()[0]) == (0, "stopped      acme: NIGHTSHIFT_ENABLED=false")
    status, out, _ = run_command(gitlab, OWNER_TOKEN, "start", "--group", "acme")
    assert (status, out.splitlines()[0]) == (0, "started      acme: NIGHTSHIFT_ENABLED is gone")
    status, out, _ = run_command(gitlab, RUN_TOKEN, "stop", "--group", "acme")
    assert (status, out.startswith("not reached  acme: ")) == (13, True)
    assert list_values(groups) == [], "Maintainers may not write a group's variables"
