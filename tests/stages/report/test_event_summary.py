"""What the events of a run say while it works, or once it was killed."""

from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus
from gitlab_nightshift.records.events import BeadEnded, Event, Progress, to_line
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.stages.report.event_summary import EventSummary, read_summary

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
