"""Encodes events, and decodes them strictly: an agent may control the sender."""

import dataclasses
import json
import re

from gitlab_nightshift.records.codec import InvalidRecordError, decode_json, make_record
from gitlab_nightshift.records.events import (
    Event,
    StepEnded,
    StepStarted,
    format_class_name,
    format_event_name,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

LARGEST_EVENT = 8 * 1024 * 1024
"""Bytes: the largest hand-off with every character escaped."""
KINDS: dict[str, type[Event]] = {format_class_name(kind): kind for kind in Event.__subclasses__()}
_STEPS = ("step_started", "step_ended", "note")
_PHASES = ("phase_start", "phase_end", "note")
FROM_NOTIFY = ("note",)
FROM_SUPERVISOR = ("note", "run_ended")
FROM_PUBLISH = (*_STEPS, "gate_required")
FROM_PLAN = ("run_started", *_STEPS)
FROM_WORK = (
    *(*_STEPS, "progress", "bead_ended", "cmd_start", "cmd_end", "command_ended"),
    *("boundary_chosen", "boundary_proven"),
)
"""Events that each process of a run may send, by their names in ``events.jsonl``. An agent may
control work: it may not report the start or end of a run, or an approval."""
FROM_NOTARY = (*_STEPS, "command_ended")
FROM_PREPARE = (*_PHASES, "gate_required", "gate_approved", "gate_denied")
FROM_TASK = (*FROM_WORK, *_PHASES)
FROM_FINISH = (*_PHASES, "gate_required", "gate_approved", "artifact_written")
"""Events that each process of a delegation may send; task is its work."""
_KEY = compile_lazily(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)


def encode_event(event: Event) -> bytes:
    """An event as JSON in UTF-8; odd bytes of file names stay what they are."""
    data = {"event": format_class_name(type(event)), **dataclasses.asdict(event)}
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")


def decode_event(data: bytes, allowed: tuple[str, ...]) -> Event:
    """Decode an event with one of the allowed names. Raises InvalidRecordError."""
    value = decode_json(data)
    name = value.pop("event", None) if type(value) is dict else None
    if type(name) is not str or name not in KINDS:
        raise InvalidRecordError("an unknown event")
    event = make_record(KINDS[name], value)
    if (written := format_event_name(event)) not in allowed:
        raise InvalidRecordError(f"{written}: not for this sender to tell")
    if isinstance(event, StepStarted | StepEnded) and not _KEY.fullmatch(event.key):
        raise InvalidRecordError(f"{name}: its key is none of a section")
    return event
