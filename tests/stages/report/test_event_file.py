"""``events.jsonl``: redacted, bounded, and no loss of a night where the disk is full."""

import json
from pathlib import Path

import pytest

from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus
from gitlab_nightshift.records.events import Note, RunEnded
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.stages.report.event_file import EventFile
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
