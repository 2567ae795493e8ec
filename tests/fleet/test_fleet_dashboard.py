"""The fleet's dashboard, and switches that Maintainers alone throw."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitlab_nightshift.demo.standin_state import StandinNote, User, build_timestamp
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.fleet import fleet_dashboard
from gitlab_nightshift.fleet.fleet_dashboard import (
    NOTHING_OFF,
    START,
    Switches,
    read_switches,
    write_dashboard,
)
from gitlab_nightshift.gitlab.project import Project, open_project
from gitlab_nightshift.records.history_records import NightHistory, PastNight
from gitlab_nightshift.stages.report.history_report import HistoryFigures, compute_figures
from tests.support.fleet_standin import PLAN_TOKEN, FleetStandin
from tests.support.standin_records import FullProject, Issue

TOKEN = "glpat-ReportTokenOfTheFleet"
ALL, ONE = "start no nights", "start no nights below acme/core"
BAD = PastNight("acme/core/a", "1", "", "2026-11-20T02:00:00Z", "FAILED", "", 2.0, "E: <img> @all")


@dataclass
class Board:
    """The issue, and who does what in it."""

    gitlab: FleetStandin
    control: FullProject
    project: Project
    maria: User
    dev: User

    @property
    def issue(self) -> Issue:
        return self.control.issues[0]

    def write(self) -> None:
        write_dashboard(self.project, 1, build_figures(), ["acme/core", "acme/web"])

    def say(self, user: User, body: str, *, system: bool = True) -> None:
        number = self.gitlab.allocate_id("note")
        self.issue.notes.append(StandinNote(number, body, user, build_timestamp(), system))

    def tick(self, user: User, text: str, *, on: bool = True) -> None:
        old, new = ("[ ]", "[x]") if on else ("[x]", "[ ]")
        page = str(self.issue.description)
        self.issue.description = page.replace(f"- {old} {text}\n", f"- {new} {text}\n")
        state = "completed" if on else "incomplete"
        self.say(user, f"marked the checklist item **{text}** as {state}")

    def read(self) -> Switches:
        return read_switches(self.project, 1)


def build_figures() -> HistoryFigures:
    history = NightHistory((), (BAD,))
    return compute_figures("the fleet", "2026-11-01", "2026-11-26", history, ["acme/core/b"])


@pytest.fixture
def board(gitlab: FleetStandin) -> Board:
    bot = gitlab.add_user("report-bot", "Report", bot=True)
    gitlab.add_token(TOKEN, bot, ("api",), 20)
    control = gitlab.add_light_project("ops/fleet")
    maria, dev = gitlab.people[:2]
    control.members |= {maria.id: 40, dev.id: 30}
    text = "Written by people.\n"
    control.issues.append(Issue(1, 1, f"{control.web_url}/-/issues/1", maria, "Fleet", text))
    project = open_project(gitlab.url, control.path, TOKEN)
    made = Board(gitlab, control, project, maria, dev)
    made.write()
    return made


def test_the_page_has_figures_and_switches_below_what_people_wrote(board: Board) -> None:
    page = str(board.issue.description)
    assert page.startswith(f"Written by people.\n\n{START}\n")
    assert f"- [ ] {ALL}\n- [ ] {ONE}\n- [ ] start no nights below acme/web\n" in page
    assert "| acme/core | 0 | 0 | 0 | 0 | 0 | 1 | $2.00 | not known |" in page
    assert "1 project: acme/core/b" in page
    assert "<img>" not in page and "@all" not in page


def test_a_maintainers_tick_switches_off_and_on(board: Board) -> None:
    assert board.read() == NOTHING_OFF
    board.tick(board.maria, ONE)
    found = board.read()
    assert found == Switches(groups={"acme/core": "dev1"})
    assert (
        found.find_reason("acme/core/a/b") == "its group is switched off on the dashboard by @dev1"
    )
    assert found.find_reason("acme/core2/a") == found.find_reason("acme/web/a") == ""
    board.tick(board.maria, ALL)
    assert board.read().find_reason("any/thing") == "switched off on the dashboard by @dev1"
    board.tick(board.maria, ALL, on=False)
    board.tick(board.maria, ONE, on=False)
    assert board.read() == NOTHING_OFF


def test_a_developers_tick_does_not_count_and_is_reported(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.tick(board.dev, ALL)
    assert board.read() == Switches(refused=(f"{ALL}: dev2 is not a Maintainer",))
    board.write()
    assert f"- not accepted: {ALL}: dev2 is not a Maintainer" in str(board.issue.description)
    monkeypatch.setattr(type(board.project.people), "find_maintainers", lambda _, ids: {*ids})
    assert board.read().off_by == "dev2", "without the check anybody stops the fleet"


def test_a_box_ticked_by_editing_the_text_does_not_count(board: Board) -> None:
    page = str(board.issue.description).replace(f"- [ ] {ALL}\n", f"- [x] {ALL}\n")
    board.issue.description = page
    assert board.read().off_by == ""
    assert "GitLab does not say who ticked it" in board.read().refused[0]


def test_a_comment_is_not_taken_for_a_system_note(board: Board) -> None:
    page = str(board.issue.description).replace(f"- [ ] {ALL}\n", f"- [x] {ALL}\n")
    board.issue.description = page
    board.say(board.maria, f"marked the checklist item **{ALL}** as completed", system=False)
    assert board.read().off_by == ""


def test_a_tick_of_last_year_still_counts(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    board.tick(board.maria, ALL)
    for _ in range(250):
        board.say(board.gitlab.users[-1], "changed the description")
    board.write()
    assert board.read().off_by == "dev1"
    assert f"- [x] {ALL}\n" in str(board.issue.description), "a new report leaves it"
    monkeypatch.setattr(fleet_dashboard, "MOST_PAGES", 1)
    assert board.read().off_by == "", "by the newest notes alone nights would start again"


def test_nothing_starts_while_switches_cannot_be_read(board: Board) -> None:
    with pytest.raises(NightshiftError) as caught:
        read_switches(board.project, 2)
    assert caught.value.message == "dashboard: ops/fleet has no issue 2"


def test_the_plan_starts_nothing_that_is_switched_off(board: Board, tmp_path: Path) -> None:
    board.gitlab.add_fleet("acme/core", 2)
    board.gitlab.add_fleet("acme/web", 1)
    board.tick(board.maria, ONE)
    file = tmp_path / "fleet.yaml"
    file.write_text("groups: [acme]\nbudget: {night_usd: 10}\ndashboard: 1\n")
    env = {
        "PATH": os.environ["PATH"],
        "CI_SERVER_URL": board.gitlab.url,
        "CI_PROJECT_PATH": board.control.path,
        "GITLAB_TOKEN": PLAN_TOKEN,
    }
    command = [sys.executable, "-P", "-m", "gitlab_nightshift", "fleet", "plan"]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    why = "its group is switched off on the dashboard by @dev1"
    rows = [line for line in done.stdout.splitlines() if "acme/" in line]
    assert sum(why in line for line in rows) == 2
    assert [line for line in rows if "acme/web" in line and why in line] == []
