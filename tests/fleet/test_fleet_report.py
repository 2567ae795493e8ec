"""``fleet report``: what became of many projects, on the stand-in."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.fleet import fleet_history
from gitlab_nightshift.fleet.fleet_history import decode_nights, encode_nights
from gitlab_nightshift.records.history_records import PastNight
from tests.fleet.conftest import get_project, run_command
from tests.support.fleet_standin import PLAN_TOKEN, FleetStandin
from tests.support.listeners import listening
from tests.support.standin_pipelines import add_scheduled
from tests.support.standin_records import FullProject, as_full

HEAD = "groups: [acme]\nbudget: {night_usd: 10}\n"


@pytest.fixture(autouse=True)
def _fleet(gitlab: FleetStandin) -> None:
    gitlab.add_fleet("acme", 120)


def add_night(gitlab: FleetStandin, project: FullProject, result: Any, status: str) -> None:
    """A night that ended with this result, None for none."""
    made = add_scheduled(gitlab, project, project.schedules[0].id, gitlab.account)
    folder = gitlab.root / f"result-{made.id}"
    (folder / "nightshift").mkdir(parents=True)
    if result is not None:
        (folder / "nightshift/result.json").write_text(json.dumps(result))
    at = next(n for n, job in enumerate(project.jobs) if job.pipeline == made.id)
    project.jobs[at] = replace(project.jobs[at], status=status, artifacts=folder)


def report(
    gitlab: FleetStandin, folder: Path, *args: str, more: str = "", **env: str
) -> tuple[int, str, str]:
    folder.mkdir(exist_ok=True)
    (folder / "fleet.yaml").write_text(HEAD + more)
    whole = ("report", "--fleet", str(folder / "fleet.yaml"), "--output", str(folder))
    return run_command(gitlab, PLAN_TOKEN, *whole, *args, **env)


def read_data(folder: Path) -> Any:
    return json.loads((folder / "fleet-report.json").read_text())


def test_all_projects_are_in_one_page_one_json_and_the_metrics(
    gitlab: FleetStandin, tmp_path: Path
) -> None:
    gitlab.add_past_nights(1, cost_usd=2.0)
    for number, state in enumerate(("merged", "closed", "opened")):
        made = gitlab.add_night_request(get_project(gitlab, number), f"{number}")
        made.change_state(state)  # type: ignore[arg-type]
    status, out, err = report(gitlab, tmp_path / "out")
    assert (status, err) == (0, "")
    data = read_data(tmp_path / "out")
    before = data["total"]["opened"] - 3
    assert (data["nights"], data["nights_known"], data["cost_usd"]) == (120, 120, 240.0)
    assert (data["total"]["merged"], data["total"]["closed"]) == (1, 1)
    assert data["total"]["waiting"] == before + 1
    assert data["cost_per_merged_usd"] == 240.0
    assert [each["name"] for each in data["groups"]] == [f"acme/team-{n}" for n in range(3)]
    assert [each["nights"] for each in data["groups"]] == [50, 50, 20]
    assert {each["name"] for each in data["reviewers"]} <= {f"dev{n}" for n in range(1, 41)}
    assert data["history"]["merge_requests"] == data["history"]["nights"] == []
    page = (tmp_path / "out/fleet-report.html").read_text()
    assert "Merge requests by group" in page and "acme/team-2" in page
    assert "120 nights, cost $240.00, $240.00 per merged request" in out
    metrics = (tmp_path / "out/fleet-metrics.txt").read_text()
    assert '\nnightshift_merge_requests{state="merged"} 1\n' in metrics
    assert '\nnightshift_cost_usd{group="acme/team-2"} 40.0\n' in metrics
    assert metrics.endswith("# EOF\n")


def test_a_result_is_read_once_and_known_when_its_artifacts_are_gone(
    gitlab: FleetStandin, tmp_path: Path
) -> None:
    gitlab.add_past_nights(1)
    assert report(gitlab, tmp_path)[0] == 0
    for project in map(as_full, gitlab.projects):
        project.jobs[:] = [replace(job, artifacts=tmp_path / "gone") for job in project.jobs]
    gitlab.requests.clear()
    assert report(gitlab, tmp_path)[0] == 0
    assert read_data(tmp_path)["cost_usd"] == 180.0
    assert [each for each in gitlab.requests if "/artifacts/" in each.path] == []
    assert len(gitlab.requests) <= 6, "pages of projects and of merge requests"
    (tmp_path / "fleet-nights.json").unlink()
    assert report(gitlab, tmp_path)[0] == 0
    assert (read_data(tmp_path)["nights_known"], read_data(tmp_path)["at_least"]) == (0, True)


def test_nights_before_the_first_page_are_counted(gitlab: FleetStandin, tmp_path: Path) -> None:
    project = get_project(gitlab, 0)
    for _ in range(9):
        add_night(gitlab, project, {"outcome": "SKIPPED", "total_cost_usd": 0}, "success")
    assert report(gitlab, tmp_path)[0] == 0
    assert read_data(tmp_path)["outcomes"] == {"SKIPPED": 9}


def test_nights_that_fail_for_the_same_reason_are_one_line(
    gitlab: FleetStandin, tmp_path: Path
) -> None:
    for number in range(3):
        reason = f"/builds/acme/p{number}/a.py: no token for 0a1b2c3d4e{number}, try {number} times"
        result = {"outcome": "FAILED", "error_code": "E_CONFIG", "reason": reason}
        add_night(gitlab, get_project(gitlab, number), result, "failed")
    add_night(gitlab, get_project(gitlab, 4), None, "failed")
    report(gitlab, tmp_path)
    failures = read_data(tmp_path)["failures"]
    assert [(each["reason"], each["nights"], each["projects"]) for each in failures] == [
        ("E_CONFIG: …: no token for …, try … times", 3, 3),
        ("no result: the pipeline failed", 1, 1),
    ]
    assert len(failures[0]["places"]) == 3


def test_projects_without_nights_are_named(gitlab: FleetStandin, tmp_path: Path) -> None:
    gitlab.add_past_nights(1)
    silent = gitlab.add_light_project("acme/team-0/silent")
    gitlab.add_light_project("acme/team-0/not-set-up", files={"README.md": "#"})
    gitlab.add_light_project("acme/team-0/out", topics=["no-night-shift"])
    report(gitlab, tmp_path)
    assert read_data(tmp_path)["silent"] == [silent.path]


def test_requests_that_wait_for_two_weeks_are_ignored(gitlab: FleetStandin, tmp_path: Path) -> None:
    for days, number in ((15, 0), (13, 1)):
        made = gitlab.add_night_request(get_project(gitlab, number), "1")
        made.created_at = f"{datetime.now(UTC) - timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}"
    report(gitlab, tmp_path)
    total = read_data(tmp_path)["total"]
    assert (total["waiting"], total["ignored"]) == (2, 1)


def test_a_forks_request_and_a_project_outside_count_for_nothing(
    gitlab: FleetStandin, tmp_path: Path
) -> None:
    gitlab.add_night_request(get_project(gitlab, 0), "1").source_project_id = 99
    gitlab.add_night_request(get_project(gitlab, 1), "1")
    report(gitlab, tmp_path, more="exclude: [acme/team-0/project-1]\n")
    assert read_data(tmp_path)["total"]["opened"] == 0


def test_a_result_cannot_add_a_line_to_the_metrics(gitlab: FleetStandin, tmp_path: Path) -> None:
    reason = 'say "hi"\\\nnightshift_cost_usd 0'
    result = {"outcome": "FAILED", "error_code": "E_X", "reason": reason}
    add_night(gitlab, get_project(gitlab, 0), result, "failed")
    report(gitlab, tmp_path)
    lines = (tmp_path / "fleet-metrics.txt").read_text().splitlines()
    sample = re.compile(r'(#.*|\w+(\{(\w+="([^"\\]|\\.)*",?)*\})? [\d.]+)')
    assert [each for each in lines if not sample.fullmatch(each)] == []
    assert "nightshift_cost_usd 0" not in lines


def test_people_get_one_message(gitlab: FleetStandin, tmp_path: Path) -> None:
    gitlab.add_past_nights(1)
    with listening() as there:
        address = f"json://127.0.0.1:{there.port}/"
        status, _, err = report(
            gitlab,
            tmp_path,
            more="notify: [$TEAM_CHAT]\n",
            TEAM_CHAT=address,
            CI_JOB_URL="https://x/1",
        )
        assert (status, err) == (0, "")
        assert len(there.came) == 1
        assert "120 nights, cost $180.00" in there.texts and "https://x/1" in there.texts
        report(gitlab, tmp_path, "--quiet", more="notify: [$TEAM_CHAT]\n", TEAM_CHAT=address)
        assert len(there.came) == 1
    status, _, err = report(gitlab, tmp_path, more="notify: [$TEAM_CHAT]\n")
    assert (status, err) == (
        13,
        "nightshift: warning: notify: the variable TEAM_CHAT is not set in this job\n",
    )


def test_the_last_reports_nights_come_from_the_control_project(
    gitlab: FleetStandin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gitlab.add_past_nights(1)
    control = gitlab.add_light_project("ops/fleet", pipeline_jobs={"fleet:report": "success"})
    add_scheduled(gitlab, control, 1, gitlab.account)
    monkeypatch.chdir(tmp_path)
    report(gitlab, Path("public"))
    (tmp_path / "kept").mkdir()
    (tmp_path / "public").rename(tmp_path / "kept/public")
    control.jobs[0] = replace(control.jobs[0], artifacts=tmp_path / "kept")
    gitlab.requests.clear()
    job = {"CI_PROJECT_ID": str(control.id), "CI_COMMIT_REF_NAME": "main", "CI_PIPELINE_ID": "1"}
    report(gitlab, Path("public"), **job)
    assert read_data(Path("public"))["nights_known"] == 120
    asked = [each.path for each in gitlab.requests if "/artifacts/" in each.path]
    assert len(asked) == 1 and asked[0].endswith("/artifacts/public/fleet-nights.json")


def test_nights_come_back_as_they_were_kept_and_nonsense_is_refused() -> None:
    night = PastNight(
        "a/b", "7", "https://g/a/b/-/pipelines/7", "2026", "FAILED", "x", None, "E: y"
    )
    kept = {"1/7": night, "1/8": replace(night, run_id="8", web_url=f"{night.web_url[:-1]}8")}
    assert decode_nights(encode_nights(kept).encode(), "https://g") == kept
    for data in (b"[]", b"{}", b'{"version": 1}', b'{"version": 1, "nights": [1]}'):
        with pytest.raises((ValueError, TypeError, KeyError)):
            decode_nights(data, "https://g")


def test_a_broken_file_is_read_anew(gitlab: FleetStandin, tmp_path: Path) -> None:
    gitlab.add_past_nights(1)
    (tmp_path / fleet_history.NIGHTS_FILE).write_text("{")
    assert report(gitlab, tmp_path)[0] == 0
    assert read_data(tmp_path)["nights_known"] == 120
