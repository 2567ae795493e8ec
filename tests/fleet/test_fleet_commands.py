"""``nightshift fleet plan`` and ``fleet run`` as a control project's jobs run them."""

import json
from pathlib import Path

import pytest

from tests.fleet.control_project import ControlProject
from tests.support.fleet_standin import FleetStandin
from tests.support.standin_records import PipelineJob, StandinPipeline, as_full
from tests.support.trees import wait_for
from tests.support.world import ended

DIES = """
import itertools, os, signal
from gitlab_nightshift.gitlab.fleet_api import FleetApi
real, count = FleetApi.play, itertools.count(1)
def play(self, project, schedule):
    number = next(count)
    if number == {number} and not {after}:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        real(self, project, schedule)
    finally:  # also where the answer is a refusal
        if number == {number}:
            os.kill(os.getpid(), signal.SIGKILL)
FleetApi.play = play
"""
"""The process is killed before or after its n-th play has been answered."""


@pytest.fixture
def control(gitlab: FleetStandin, tmp_path: Path) -> ControlProject:
    made = ControlProject(tmp_path / "control", gitlab.url)
    made.write_fleet()
    return made


def test_a_night_of_a_fleet(gitlab: FleetStandin, control: ControlProject) -> None:
    gitlab.add_fleet("acme", 12)
    planned = control.run("plan")
    assert (planned.exit_status, planned.stderr) == (0, "")
    assert "12 start, 0 later, 0 wait, 0 started, 0 no" in planned.stdout
    assert all(each.method != "POST" or "graphql" in each.path for each in gitlab.requests)
    started = control.run("run")
    assert started.exit_status == 0, started.stderr
    assert started.last_line.endswith(
        "12 started, 0 already, 0 with a schedule of their own, 0 not started"
    )
    gitlab.end_nights(cost_usd=1.5)
    again = control.run("plan")
    assert "0 start, 0 later, 0 wait, 12 started, 0 no" in again.stdout
    assert "spent tonight $18.00" in again.stdout


def test_shards_start_each_project_once(gitlab: FleetStandin, control: ControlProject) -> None:
    gitlab.add_fleet("acme", 20)
    control.run("plan")
    parts = [
        control.start("run", CI_NODE_INDEX=str(number), CI_NODE_TOTAL="3") for number in (1, 2, 3)
    ]
    assert [ended(part).exit_status for part in parts] == [0, 0, 0]
    assert [len(as_full(each).pipelines) for each in gitlab.projects] == [1] * 20


@pytest.mark.parametrize("after", [False, True])
def test_a_run_that_is_killed_goes_on_where_it_was(
    gitlab: FleetStandin, control: ControlProject, after: bool
) -> None:
    """With requests that fail, and pipelines that come a second later."""
    gitlab.add_fleet("acme", 40)
    control.run("plan")
    gitlab.failing, gitlab.worker_delay_s = 0.05, 1.0
    for number in (1, 4, 9, 2, 6):
        killed = control.run("run", before=DIES.format(number=number, after=after))
        assert killed.exit_status == -9
    gitlab.failing = 0.0
    assert control.run("run").exit_status == 0
    assert [len(as_full(each).pipelines) for each in gitlab.projects] == [1] * 40


def test_projects_that_cannot_be_started_are_named_with_exit_13(
    gitlab: FleetStandin, control: ControlProject
) -> None:
    gitlab.add_fleet("acme", 3)
    control.run("plan")
    as_full(gitlab.projects[1]).schedules.clear()
    done = control.run("run")
    assert done.exit_status == 13
    assert "failed  acme/team-0/project-1  it has no schedule 'Night shift (fleet)'" in done.stdout
    assert done.last_line.startswith("night of ")
    assert "2 started" in done.last_line


def test_mistakes_of_the_file_and_what_gitlab_lacks_come_at_once(
    gitlab: FleetStandin, control: ControlProject
) -> None:
    gitlab.add_fleet("acme", 1)
    control.write_fleet("projects: [gone/one]\nbudget: {night_usd: 1}\n")
    done = control.run("plan")
    assert done.exit_status == 2
    assert "fleet.yaml:6: projects: gone/one: does not exist" in done.stderr
    assert "budget.night_usd: $1 cannot pay for one night: the lowest limit is $2" in done.stderr


def test_projects_gone_since_the_last_plan_are_named_and_others_go_on(
    gitlab: FleetStandin, control: ControlProject
) -> None:
    gitlab.add_fleet("acme", 2)
    other = gitlab.add_light_project("other/one", schedules=[gitlab.build_schedule()])
    control.write_fleet("projects: [other/one]\n")
    assert control.run("plan").exit_status == 0
    gitlab.projects.remove(other)
    for _ in range(2):
        done = control.run("plan")
        assert done.exit_status == 0, done.stderr
        assert "no      other/one" in done.stdout
        assert "moved, deleted, or hidden from this token since the last plan" in done.stdout
    (control.folder / "fleet-plan.json").unlink()
    assert control.run("plan").exit_status == 2, "without a last plan it is a mistake"


def test_a_run_that_is_ended_by_a_signal_waits_for_nothing(
    gitlab: FleetStandin, control: ControlProject
) -> None:
    """Its pipelines never come, for which it would wait two minutes for each project."""
    gitlab.add_fleet("acme", 30)
    control.run("plan")
    gitlab.worker_delay_s = 3600.0
    process = control.start("run")
    wait_for(lambda: any(each.path.endswith("/play") for each in gitlab.requests), "a play")
    process.terminate()
    done = ended(process, timeout_s=60)
    assert done.exit_status == 143
    assert "Traceback" not in done.stderr
    assert sum(each.path.endswith("/play") for each in gitlab.requests) < 30


def test_a_window_that_is_over_starts_nothing(
    gitlab: FleetStandin, control: ControlProject
) -> None:
    gitlab.add_fleet("acme", 2)
    control.run("plan")
    plan = control.read_plan()
    plan["window_end"] = plan["window_start"]
    (control.folder / "fleet-plan.json").write_text(json.dumps(plan))
    done = control.run("run")
    assert done.exit_status == 2
    assert "is over since" in done.stderr
    assert not any(each.path.endswith("/play") for each in gitlab.requests)


def test_a_control_project_whose_group_is_stopped_starts_nothing(
    gitlab: FleetStandin, control: ControlProject
) -> None:
    gitlab.add_fleet("acme", 2)
    control.run("plan")
    done = control.run("run", NIGHTSHIFT_ENABLED="false")
    assert (done.exit_status, done.stdout) == (
        0,
        "nothing is started: NIGHTSHIFT_ENABLED is false\n",
    )
    assert not any(each.path.endswith("/play") for each in gitlab.requests)


@pytest.mark.parametrize("name", ["GITLAB_TOKEN", "CI_SERVER_URL"])
def test_what_a_job_lacks_is_named_in_one_line(control: ControlProject, name: str) -> None:
    done = control.run("plan", **{name: ""})
    assert done.exit_status == 2
    assert done.stderr.startswith(f"nightshift: E_CONFIG: {name} is not set: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_plan_takes_costs_from_the_control_projects_last_one(
    gitlab: FleetStandin, control: ControlProject, tmp_path: Path
) -> None:
    """Also from a pipeline that still runs: there the nights of that plan are being started."""
    own = gitlab.add_light_project("ops/fleet")
    gitlab.add_fleet("acme", 3)
    gitlab.add_past_nights(1)
    assert control.run("plan").exit_status == 0
    kept = tmp_path / "kept"
    kept.mkdir()
    (control.folder / "fleet-plan.json").rename(kept / "fleet-plan.json")
    skipped = StandinPipeline(79, "main", "", "", gitlab.account, {}, "push")
    pipeline = StandinPipeline(77, "main", "", "", gitlab.account, {}, "schedule")
    own.pipelines += [pipeline, skipped]
    own.jobs.append(PipelineJob(771, 77, "fleet:plan", kept, status="failed"))
    own.jobs.append(PipelineJob(772, 77, "fleet:run", kept, status="running"))
    gitlab.requests.clear()
    env = {"CI_PROJECT_ID": str(own.id), "CI_COMMIT_REF_NAME": "main", "CI_PIPELINE_ID": "78"}
    done = control.run("plan", **env)
    assert done.exit_status == 0, done.stderr
    assert not any(each.path.endswith("result.json") for each in gitlab.requests)
    assert [each["usd"] for each in control.read_plan()["costs"]] == [1.5] * 3
    assert {each["reason"] for each in control.read_plan()["projects"]} == {
        "the last plan may just be starting it"
    }


def test_without_a_last_plan_all_results_are_read_and_it_says_so(
    gitlab: FleetStandin, control: ControlProject
) -> None:
    own = gitlab.add_light_project("ops/fleet")
    gitlab.add_fleet("acme", 1)
    done = control.run("plan", CI_PROJECT_ID=str(own.id), CI_COMMIT_REF_NAME="main")
    assert done.exit_status == 0
    assert "no earlier plan that this token sees in the control project: the costs" in done.stderr
