"""The result of a night that was killed, from the files that it left."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus
from gitlab_nightshift.records.events import (
    BeadEnded,
    BoundaryChosen,
    Event,
    Progress,
    RunEnded,
    RunStarted,
    to_line,
)
from gitlab_nightshift.records.products import Bundle, Outcome, Plan, Publication
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import write_record
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.stages.report.killed_run import write_killed
from tests.support.tables import each

BEGUN = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
STARTED = RunStarted("shop", ())
TIER = BoundaryChosen("auto", "landlock", (), (), "claude_code", (), (), ())
PLAN = Plan("4711", "2026-11-22", "a" * 40, "main", "tests", ("tests",), 100, 10.0, task="Fix it")


def bead(name: str, usage: Usage) -> BeadEnded:
    return BeadEnded(BeadResult(name, "tests", 1, "model", BeadStatus.OK, usage, 3.0))


def written(folder: Path, events: Iterable[Event | str]) -> None:
    """One event each minute."""
    lines = [
        event if isinstance(event, str) else to_line(event, BEGUN + timedelta(minutes=number), "1")
        for number, event in enumerate(events)
    ]
    (folder / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))


def result(folder: Path) -> dict[str, Any]:
    write_killed(folder, folder / "earlier", "killed by SIGKILL", "job-1")
    made: dict[str, Any] = json.loads((folder / "result.json").read_bytes())
    return made


def test_the_events_of_a_killed_run_become_its_result(tmp_path: Path) -> None:
    analyze, running = bead("analyze", Usage(0.2, 200)), Progress("…", 1.0, 0.5, 500)
    written(tmp_path, [STARTED, TIER, Progress("…", 1.0, 0.1, 100), analyze, running])
    write_record(tmp_path / "plan.json", PLAN)
    made = result(tmp_path)
    assert (made["outcome"], made["error_code"]) == ("FAILED", "E_TERMINATED")
    assert made["reason"] == "killed by SIGKILL; the cost is what was known until then"
    assert (made["run_id"], made["base_sha"], made["task"]) == ("4711", "a" * 40, "Fix it")
    assert (made["total_cost_usd"], made["total_tokens"]) == (0.5, 500)
    assert (made["isolation"], made["total_duration_s"]) == ("landlock", 240.0)
    assert [each["bead"] for each in made["beads"]] == ["analyze"]
    assert {path.name for path in tmp_path.iterdir()} >= {"report.html", "junit.xml"}
    assert "NIGHT_OUTCOME=FAILED\n" in (tmp_path / "nightshift.env").read_text()
    assert 'failures="1"' in (tmp_path / "junit.xml").read_text()


def test_between_beads_their_sum_counts(tmp_path: Path) -> None:
    """Without a plan the job's own id is the run's."""
    done = (bead("analyze", Usage(0.2, 200)), bead("implement", Usage(None, 300)))
    written(tmp_path, [STARTED, Progress("…", 1.0, 9.0, 9), *done])
    made = result(tmp_path)
    assert (made["run_id"], made["total_cost_usd"], made["total_tokens"]) == ("job-1", None, 500)


BAD = (
    "",
    "[]",
    "5",
    '{"event": "bead_ended"}',
    "[" * 100_000,
    '{"time": "x", "event": "run_ended"}',
    '{"time": "2026-11-22T02:00:00", "event": "bead_ended", "result": {"bead": 5}}',
    '{"time": "2026-11-22T02:00:00", "event": ["run_ended"]}',
    *(
        f'{{"time": "2026-11-22T02:00:00+00:00", "event": "progress", {rest}}}'
        for rest in (
            '"cost_usd": -1, "tokens": 1',
            '"cost_usd": NaN, "tokens": 1',
            '"cost_usd": 1, "tokens": 1e400',
            '"cost_usd": "1", "tokens": 1',
            '"tokens": 1',
        )
    ),
)


@each("line", BAD)
def test_invalid_events_are_ignored(line: str, tmp_path: Path) -> None:
    (tmp_path / "result.json").unlink(missing_ok=True)
    written(tmp_path, [STARTED, bead("analyze", Usage(0.2, 200)), line])
    assert result(tmp_path)["total_cost_usd"] == 0.2


def test_an_incomplete_line_ends_the_events(tmp_path: Path) -> None:
    written(tmp_path, [STARTED, bead("analyze", Usage(0.2, 200))])
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"time": ')
    assert result(tmp_path)["total_tokens"] == 200


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    run = RunResult("4711", Outcome.NO_IMPROVEMENT)
    nothing: tuple[list[Event], ...] = ([], [TIER], [STARTED, RunEnded(run)])
    for events in nothing:
        written(tmp_path, events)
        write_killed(tmp_path, tmp_path, "killed", "job-1")
        assert not (tmp_path / "result.json").exists(), "no run, or one that told its end"
    written(tmp_path, [STARTED])
    write_record(tmp_path / "result.json", run)
    assert result(tmp_path)["outcome"] == "NO_IMPROVEMENT"
    (tmp_path / "result.json").write_text('{"version": 1, "run')
    assert result(tmp_path)["outcome"] == "FAILED", "half of one is none"


@pytest.mark.parametrize("published", [True, False])
def test_killed_while_it_published(tmp_path: Path, *, published: bool) -> None:
    written(tmp_path, [STARTED])
    (tmp_path / "bundle").mkdir()
    bundle = Bundle("4711", "", "a" * 40, "main", Outcome.MR_READY, usage=Usage(1.5, 15))
    write_record(tmp_path / "bundle/bundle.json", bundle)
    if published:
        there = Publication("4711", Outcome.MR_CREATED, mr_url="https://gitlab.example.org/1")
        write_record(tmp_path / "published.json", there)
    made = result(tmp_path)
    assert made["outcome"] == ("MR_CREATED" if published else "FAILED")
    assert (made["error_code"] == "") == bool(made["mr_url"]) == published
    assert made["total_cost_usd"] == 1.5
