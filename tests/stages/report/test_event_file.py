"""``events.jsonl``: redacted, bounded, and no loss of a night where the disk is full."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus
from gitlab_nightshift.records.events import BeadEnded, Event, Note, Progress, RunEnded, to_line
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.stages.report.event_file import EventFile, EventSummary, read_summary
from tests.support.disks import fill, small_disk

SECRET = 'two\nlines "quoted" ü'
BEAD = BeadResult("verify", "tests", 1, "m", BeadStatus.OK, Usage(), 1.0, SECRET)


def test_events_are_appended_as_they_happen_without_secrets(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    emit = EventFile(file, Redactor((SECRET,)), "7")
    emit(Note(f"it is {SECRET}!"))
    assert json.loads(file.read_text())["text"] == "it is [redacted]!"
    emit(RunEnded(RunResult("1", Outcome.FAILED, beads=(BEAD,))))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["event"], line["run_id"]) for line in lines] == [
        ("note", "7"),
        ("run_ended", "7"),
    ]
    assert "quoted" not in file.read_text()


def messages(file: Path) -> list[str]:
    return [json.loads(line).get("text", "the end") for line in file.read_text().splitlines()]


def test_the_file_is_bounded_but_for_the_last_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitlab_nightshift.stages.report.event_file.MOST_BYTES", 1060)
    file = tmp_path / "events.jsonl"
    emit = EventFile(file, str, "7")
    for number in range(1000):
        emit(Note(f"{number} {'x' * 380}"))
    emit(RunEnded(RunResult("1", Outcome.FAILED)))
    *some, missing, end = messages(file)
    assert ([text[0] for text in some], end) == (["0", "1", "2"], "the end")
    assert missing.startswith("997 events are missing here")


def test_a_full_disk_costs_events_and_no_night(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        file = disk / "events.jsonl"
        emit = EventFile(file, str, "7")
        emit(Note("before"))
        filling = fill(disk)
        for _ in range(20):
            emit(Note("x" * 1000))
        filling.unlink()
        emit(Note("after"))
        before, *some, missing, after = messages(file)
        assert (before, after) == ("before", "after")
        assert missing.startswith(f"{20 - len(some)} events are missing here")


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="symbolic links"):
        EventFile(tmp_path / "events.jsonl", str, "7")(Note("x"))
    assert not (tmp_path / "mine").exists()


NOW = datetime(2026, 11, 26, tzinfo=UTC)


def bead(usd: float | None) -> BeadEnded:
    return BeadEnded(BeadResult("analyze", "docs", 1, "m", BeadStatus.OK, Usage(usd, 10), 1.0))


def read(folder: Path, *events: Event, rest: str = "") -> EventSummary:
    lines = [f"{to_line(event, NOW, '4711')}\n" for event in events]
    (folder / "events.jsonl").write_text("".join(lines) + rest)
    return read_summary(folder / "events.jsonl")


def test_the_beads_that_have_ended_are_added_up(tmp_path: Path) -> None:
    assert read(tmp_path, bead(0.5), bead(0.25)).usage == Usage(0.75, 20)
    assert read(tmp_path, bead(0.5), bead(None), bead(1.0)).usage == Usage(None, 30)


def test_while_a_bead_works_its_last_word_on_the_whole_run_counts(tmp_path: Path) -> None:
    running = read(tmp_path, bead(0.5), Progress("reads", 1.0, 0.6, 12), rest='{"event": "bead_en')
    assert (running.usage, running.run_id) == (Usage(0.6, 12), "4711")
    ended = read(tmp_path, bead(0.5), Progress("reads", 1.0, 0.6, 12), bead(0.25))
    assert ended.usage == Usage(0.75, 20)


def test_the_latest_phase_of_a_delegation_is_told(tmp_path: Path) -> None:
    phase = '{"time": "2026-11-26T00:00:00+00:00", "event": "phase_start", "phase": "%s"}\n'
    found = read(tmp_path, rest=phase % "Prepare" + phase % "Apply" + phase.replace("time", "x"))
    assert (found.phase, found.since) == ("Apply", "2026-11-26T00:00:00+00:00")


def test_a_run_without_events_says_nothing(tmp_path: Path) -> None:
    assert read_summary(tmp_path / "events.jsonl") == EventSummary()
