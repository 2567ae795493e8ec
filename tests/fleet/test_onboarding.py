"""``fleet init``: who is asked, and what a project then has; real repositories on the stand-in."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gitlab_nightshift.demo.standin_state import NOBODY
from gitlab_nightshift.fleet.fleet_settings import FleetBudget, FleetSettings
from gitlab_nightshift.fleet.onboarding import OnboardingRequest, choose_projects
from gitlab_nightshift.gitlab.project_settings import FLEET_SCHEDULE
from gitlab_nightshift.onboarding.onboarding_request import BRANCH
from gitlab_nightshift.records.fleet_records import FleetNight, FleetProject, NightSettings
from tests.support.fleet_standin import OWNER_TOKEN, FleetStandin
from tests.support.lint_endpoints import LINT_ENDPOINTS
from tests.support.setup_endpoints import ProjectSettings
from tests.support.standin_records import FullProject, StandinSchedule
from tests.support.standin_repositories import read_blob

TOKEN, PLAN = "glpat-MaintainerOfTheFleet1", "glpat-PlanningOfThisFleet1"
KEY = {"ANTHROPIC_API_KEY": "sk-ant-of-the-fleet-00001"}
FILES = {
    "Makefile": "test:\n\texit 1\n",
    ".gitlab-ci.yml": "unit:\n  image: python:3.12\n  script: [make test]\n",
}


@dataclass(frozen=True)
class Fleet:
    """A control project's folder, and the GitLab that it is about."""

    gitlab: FleetStandin
    made: ProjectSettings
    folder: Path

    def add_project(self, path: str) -> FullProject:
        """A project with real files, which nobody has set up."""
        made, work = self.gitlab.add_project(path), self.folder / path.replace("/", "-")
        work.mkdir()
        for name, text in FILES.items():
            (work / name).write_text(text)
        git(work, "init", "-q", "-b", "main")
        git(work, "add", "--all")
        git(work, "commit", "-q", "-m", "Begin")
        git(work, "push", "-q", str(made.bare_repository), "main")
        return made

    def init(self, *args: str, more: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """``fleet init`` with a fleet.yaml."""
        text = f"groups: [acme]\nbudget: {{night_usd: 50}}\n{more}"
        (self.folder / "fleet.yaml").write_text(text)
        return self.run("init", *args, **env)

    def run(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        """The real command."""
        given = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "CI_SERVER_URL": self.gitlab.url,
            "GITLAB_TOKEN": TOKEN,
            "CI_PROJECT_PATH": "acme/night-fleet",
            "NIGHTSHIFT_CATEGORY": "docs",
            **env,
        }
        command = [sys.executable, "-P", "-m", "gitlab_nightshift", "fleet", *args]
        return subprocess.run(
            command, cwd=self.folder, env=given, capture_output=True, text=True, check=False
        )


def git(folder: Path, *args: str) -> None:
    names = {f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")}
    mails = {f"GIT_{who}_EMAIL": "ada@example.invalid" for who in ("AUTHOR", "COMMITTER")}
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *args], cwd=folder, env={**env, **names, **mails}, check=True)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with FleetStandin(tmp_path / "gitlab") as gitlab:
        gitlab.more_endpoints += LINT_ENDPOINTS
        gitlab.add_token(TOKEN, gitlab.add_user("service_account_1", "Fleet"), access_level=40)
        gitlab.add_project("acme/gitlab-nightshift")
        folder = tmp_path / "control"
        folder.mkdir()
        yield Fleet(gitlab, gitlab.project_settings, folder)
        assert gitlab.errors == []


def add_to_settings(folder: Path, project: FullProject, text: str) -> None:
    """A commit of the project's people to its nightshift.yaml."""
    work = folder / f"clone-{project.id}"
    git(folder, "clone", "-q", str(project.bare_repository), str(work))
    with (work / "nightshift.yaml").open("a") as file:
        file.write(text)
    git(work, "commit", "-q", "--all", "-m", "Add weekdays")
    git(work, "push", "-q", "origin", "main")


def list_open(project: FullProject) -> list[str]:
    return [each.source_branch for each in project.merge_requests if each.state == "opened"]


def merge(project: FullProject) -> None:
    """The onboarding request, commit and all."""
    bare = project.bare_repository
    project.git.run("update-ref", "refs/heads/main", f"refs/heads/{BRANCH}", cwd=bare)
    project.merge_requests[0].change_state("merged")


def test_nothing_is_changed_without_confirmation(fleet: Fleet) -> None:
    project = fleet.add_project("acme/shop")
    done = fleet.init()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "ask        acme/shop"
    assert "Nothing was changed." in done.stdout
    assert (list_open(project), fleet.made.tokens, project.schedules) == ([], [], [])


def test_a_project_gets_one_request_and_all_that_its_nights_need(fleet: Fleet) -> None:
    project = fleet.add_project("acme/shop")
    project.inherited_variables.append(
        {
            "key": "ANTHROPIC_API_KEY",
            "protected": True,
            "masked": True,
            "environmentScope": "*",
            "groupName": "acme",
        }
    )
    done = fleet.init("--yes")
    assert (done.returncode, done.stderr) == (0, "")
    [request] = project.merge_requests
    assert request.source_branch == BRANCH
    description = str(request.description)
    assert "## Tests, not tried yet\n\n- make test: found in the build files" in description
    assert "model key" not in description.partition("## Tests")[0], "the group holds it"
    read = [read_blob(project.git, project.bare_repository, BRANCH, n) for n in FILES]
    settings = read_blob(project.git, project.bare_repository, BRANCH, "nightshift.yaml")
    assert settings and b'\n  - "make test" # found in the build files; the rehearsal' in settings
    assert b"NIGHTSHIFT_CATEGORY" not in settings and b"docs" not in settings.splitlines()[1:]
    assert read[1] and b"rehearse: true" in read[1] and b'image: "python:3.12"' in read[1]
    [schedule] = project.schedules
    assert (schedule.active, schedule.variables) == (False, {"NIGHTSHIFT": "true"})
    assert schedule.description == FLEET_SCHEDULE, "by which fleet run finds it"
    assert schedule.owner.username == "service_account_1"
    assert fleet.made.values["acme/shop", "GITLAB_TOKEN"]
    assert fleet.made.tokens[0]["access_level"] == 30, "the token opens this project alone"


def test_onboarding_can_be_repeated_and_ends_with_the_merge(fleet: Fleet) -> None:
    project = fleet.add_project("acme/shop")
    assert fleet.init("--yes").returncode == 0
    again = fleet.init("--yes")
    assert again.stdout.splitlines()[0].startswith("waits      acme/shop")
    merge(project)
    done = fleet.init("--yes")
    assert done.stdout.splitlines()[0].startswith("complete   acme/shop")
    assert "unchanged    the default branch has both files already" in done.stdout
    kept = (len(project.merge_requests), len(fleet.made.tokens), len(project.schedules))
    assert kept == (1, 1, 1)


def test_a_closed_request_is_an_answer(fleet: Fleet) -> None:
    project = fleet.add_project("acme/shop")
    fleet.init("--yes")
    project.merge_requests[0].change_state("closed")
    bare = project.bare_repository
    project.git.run("update-ref", "-d", f"refs/heads/{BRANCH}", cwd=bare)
    done = fleet.init("--yes")
    assert done.stdout.splitlines()[0].startswith("answered   acme/shop  closed: ")
    assert list_open(project) == []


def test_no_more_requests_than_allowed_are_open(fleet: Fleet) -> None:
    projects = [fleet.add_project(f"acme/shop-{number}") for number in range(3)]
    fleet.init("--yes", more="max_open_onboarding: 1\n")
    assert [len(list_open(each)) for each in projects].count(1) == 1
    done = fleet.init("--yes", more="max_open_onboarding: 2\n")
    assert "1 waits" in done.stdout and "1 later" in done.stdout
    assert [len(list_open(each)) for each in projects].count(1) == 2


def test_a_project_that_fails_is_named_and_stops_no_other(fleet: Fleet) -> None:
    projects = [fleet.add_project(f"acme/shop-{number}") for number in range(2)]
    fleet.gitlab.fail_next("POST", "/access_tokens$", 422, {"message": "no"})
    done = fleet.init("--yes")
    assert done.returncode == 13
    assert ": failed       token: GitLab at " in done.stdout
    assert sum(len(list_open(each)) for each in projects) == 1


def test_a_projects_own_setup_is_left_alone_and_reported(fleet: Fleet) -> None:
    own, other, third = (fleet.add_project(f"acme/{name}") for name in ("own", "other", "third"))
    ada = fleet.gitlab.add_user("ada", "Ada")
    own.schedules.append(StandinSchedule(1, ada, "Nightly"))
    other.schedules.append(StandinSchedule(2, ada, FLEET_SCHEDULE, active=False))
    third.schedules.append(StandinSchedule(3, ada, "Of last year", active=False))
    done = fleet.init("--yes")
    assert "Nightly exists and is active: the project starts its own nights" in done.stdout
    assert f"{FLEET_SCHEDULE} exists, owned by ada, not by service_account_1" in done.stdout
    counts = (len(own.schedules), len(other.schedules), len(third.schedules))
    assert counts == (1, 1, 2), "an inactive one of another name is nobody's night"


def test_where_pipeline_variables_are_forbidden_the_description_makes_the_night(
    fleet: Fleet,
) -> None:
    project = fleet.add_project("acme/shop")
    project.variables_role = NOBODY
    assert fleet.init("--yes").returncode == 0
    [schedule] = project.schedules
    assert (schedule.description, schedule.active) == (FLEET_SCHEDULE, False)
    file = read_blob(project.git, project.bare_repository, BRANCH, ".gitlab-ci.yml")
    assert file and f'schedule_description: "{FLEET_SCHEDULE}"'.encode() in file


def test_from_nothing_to_a_night_a_report_and_a_stop(fleet: Fleet) -> None:
    """All commands one after the other, on projects that fleet init itself has set up."""
    gitlab, now = fleet.gitlab, datetime.now(UTC) - timedelta(minutes=30)
    window = f"{{start: '{now:%H:%M}', end: '{now + timedelta(hours=1):%H:%M}'}}"
    more = f"window: {window}\ncadence: nightly\nmax_open_per_reviewer: 9\n"
    gitlab.add_token(PLAN, gitlab.users[-1], ("read_api",), 30)
    projects = [fleet.add_project(f"acme/shop-{number}") for number in range(3)]
    days = "category_schedule: {mon: tests, tue: tests, wed: tests, thu: tests, fri: tests}\n"
    days = days.replace("}", ", sat: tests, sun: tests}")
    assert fleet.init("--yes", more=more).returncode == 0
    for project in projects:
        merge(project)
        add_to_settings(fleet.folder, project, days)
        project.pipeline_jobs = {"nightshift": "running"}
    assert "3 complete" in fleet.init("--yes", more=more).stdout
    assert "3 start" in fleet.run("plan", GITLAB_TOKEN=PLAN).stdout
    assert "3 started" in fleet.run("run").stdout
    gitlab.end_nights(cost_usd=2.0, proposing=1.0, merging=1.0)
    assert "3 set up" in fleet.init(more=more).stdout
    report = fleet.run("report", GITLAB_TOKEN=PLAN).stdout
    assert "3 merge requests: 3 merged" in report
    assert "3 nights, cost $6.00, $2.00 per merged request" in report
    stopped = fleet.run("stop", GITLAB_TOKEN=OWNER_TOKEN)
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert gitlab.group_settings.variables["acme"][0]["value"] == "false"


# --- the choice alone -----------------------------------------------------------------------------

SETTINGS = FleetSettings(groups=["acme"], budget=FleetBudget(night_usd=10.0))
NIGHT = FleetNight(1, "success", "", "", "bot", 2)


def build_project(number: int, **facts: object) -> FleetProject:
    values: dict[str, object] = {
        "path": f"acme/p{number}",
        "branch": "main",
        "archived": False,
        "empty": False,
        "forked": False,
        "deleted": False,
        "topics": (),
        "last_activity": f"2026-01-{number:02}T00:00:00Z",
        "included": False,
        "settings": NightSettings(),
        "merge_requests": (),
        "nights": (),
        **facts,
    }
    return FleetProject(id=number, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"archived": True}, "archived"),
        ({"empty": True}, "its repository is empty, or the token may not read it"),
        ({"forked": True}, "a fork"),
        ({"deleted": True}, "marked for deletion"),
        ({"topics": ("no-night-shift",)}, "opted out by its topic"),
        (
            {"settings": NightSettings(found=True, enabled=False)},
            "opted out by enabled: false in its nightshift.yaml",
        ),
        ({"included": None}, "its pipeline file is not .gitlab-ci.yml: set it up there"),
    ],
)
def test_projects_that_are_left_out_are_never_asked(facts: dict[str, object], why: str) -> None:
    [row] = choose_projects([build_project(1, **facts)], {}, SETTINGS)
    assert (row.state, row.why) == ("left out", why)


def test_the_most_recently_used_are_asked_first() -> None:
    projects = [build_project(number) for number in range(1, 13)]
    waiting = {12: OnboardingRequest("opened", "u")}
    rows = choose_projects(projects, waiting, SETTINGS)
    states = [(row.project.id, row.state) for row in rows]
    assert states[0] == (12, "waits")
    assert states[1:] == [(n, "ask") for n in range(11, 2, -1)] + [(2, "later"), (1, "later")]


def test_a_project_that_is_set_up_has_had_a_night() -> None:
    done = {"included": True, "settings": NightSettings(found=True)}
    projects = [build_project(1, **done, nights=(NIGHT,)), build_project(2, **done)]
    rows = choose_projects(projects, {}, SETTINGS)
    assert [(row.project.id, row.state) for row in rows] == [(2, "complete"), (1, "set up")]


def test_a_fork_that_has_a_branch_of_this_name_asks_nothing() -> None:
    from gitlab_nightshift.fleet.onboarding import _read_request

    node = {"mergeRequests": {"nodes": [{"state": "closed", "webUrl": "u", "sourceProjectId": 9}]}}
    assert _read_request(1, node) is None
    assert _read_request(9, node) == OnboardingRequest("closed", "u")
