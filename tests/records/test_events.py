"""Events as lines of JSON, and the redaction of records."""

import dataclasses
import json
from datetime import UTC, datetime

from gitlab_nightshift.records.bead_results import Verdict
from gitlab_nightshift.records.events import (
    Event,
    ProgramEnded,
    ProgramStarted,
    StepEnded,
    StepStarted,
    combine_sinks,
    format_elapsed,
    format_event_name,
    to_line,
)
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.wire.channel import EVENT_CLASSES
from tests.support.samples import BEAD, EVENTS
from tests.support.tables import each

NOW = datetime(2025, 11, 24, 2, 0, 0, 123456, tzinfo=UTC)


def test_the_samples_have_every_event() -> None:
    assert {type(event) for event in EVENTS} == set(EVENT_CLASSES.values())


@each("event", EVENTS)
def test_an_event_is_one_line_of_json(event: Event) -> None:
    line = to_line(event, NOW, "7")
    assert line.isascii()
    assert line.isprintable()
    data = json.loads(line)
    assert data.pop("time") == "2025-11-24T02:00:00.123+00:00"
    assert data.pop("run_id") == "7"
    assert data.pop("event") == format_event_name(event)
    if not isinstance(event, StepStarted | StepEnded):
        assert data == json.loads(json.dumps(dataclasses.asdict(event)))


STEP, PHASE = "implement-task-2", {"phase": "Apply"}


@each(
    ("event", "fields"),
    [
        (StepStarted(STEP, "I"), {"event": "step_started", "key": STEP, "title": "I"}),
        (
            StepEnded(STEP, False, "w"),
            {"event": "step_ended", "key": STEP, "ok": False, "text": "w"},
        ),
        (
            StepStarted("Apply", "A", phase=True, attempt=2),
            {"event": "phase_start", **PHASE, "attempt": 2},
        ),
        (
            StepEnded("Apply", False, "w", phase=True),
            {"event": "phase_end", **PHASE, "ok": False, "why": "w"},
        ),
        (ProgramStarted("make -s"), {"event": "cmd_start", "command": "make -s"}),
        (
            ProgramEnded("make -s", 2, 1.5),
            {"event": "cmd_end", "command": "make -s", "exit_status": 2, "duration_s": 1.5},
        ),
    ],
)
def test_phases_and_programs_have_their_documented_names_and_keys(
    event: Event, fields: dict[str, object]
) -> None:
    head = {"time": "2025-11-24T02:00:00.123+00:00", "run_id": "7"}
    assert to_line(event, NOW, "7") == json.dumps({**head, **fields})


def test_combined_sinks_get_every_event() -> None:
    first: list[Event] = []
    second: list[Event] = []
    emit = combine_sinks(sink for sink in (first.append, second.append))
    for event in EVENTS:
        emit(event)
    assert first == second == EVENTS


# --- redaction ------------------------------------------------------------------------------------


def test_nested_texts_are_redacted_but_not_enumerations() -> None:
    result = RunResult("hunter2", Outcome.FAILED, reason="x hunter2", beads=(BEAD,))
    bead = dataclasses.replace(
        BEAD, handoff=Verdict(True, "hunter2", ("cat hunter2",)), denied=("hunter2",)
    )
    clean = map_texts(dataclasses.replace(result, beads=(bead,)), Redactor(("hunter2", "FAILED")))
    assert "hunter2" not in str(clean)
    assert clean.outcome is Outcome.FAILED, "a word of ours is no secret"
    assert clean.beads[0].handoff == Verdict(True, "[redacted]", ("cat [redacted]",))
    assert (clean.beads[0].usage, clean.beads[0].status) == (BEAD.usage, BEAD.status)


# --- words ----------------------------------------------------------------------------------------


@each(
    ("seconds", "text"),
    [(0, "0:00"), (59.9, "0:59"), (61, "1:01"), (3661, "1:01:01"), (90000, "25:00:00")],
)
def test_elapsed(seconds: float, text: str) -> None:
    assert format_elapsed(seconds) == text
