"""Encodes events, and decodes them strictly: an agent may control the sender."""

import dataclasses
import json
import re
from typing import Any, get_args

from gitlab_nightshift.records.codec import InvalidRecordError, decode_json, make_record
from gitlab_nightshift.records.events import (
    ArtifactWritten,
    BeadEnded,
    BoundaryChosen,
    BoundaryProven,
    CmdEnd,
    CmdStart,
    CommandEnded,
    Event,
    GateApproved,
    GateDenied,
    GateRequired,
    Note,
    PhaseEnd,
    PhaseStart,
    Progress,
    RunEnded,
    RunStarted,
    StepEnded,
    StepStarted,
    format_event_name,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

LARGEST_EVENT = 8 * 1024 * 1024
"""Bytes: the largest hand-off with every character escaped."""
KINDS: dict[str, type[Any]] = {format_event_name(kind): kind for kind in get_args(Event)}


def _list_names(*kinds: type[Any]) -> tuple[str, ...]:
    return tuple(map(format_event_name, kinds))


FROM_NOTIFY = _list_names(Note)
FROM_SUPERVISOR = _list_names(Note, RunEnded)
FROM_PUBLISH = _list_names(StepStarted, StepEnded, Note, GateRequired)
FROM_PLAN = _list_names(RunStarted, StepStarted, StepEnded, Note)
FROM_WORK = _list_names(
    *(StepStarted, StepEnded, Note, Progress, BeadEnded, CommandEnded),
    *(BoundaryChosen, BoundaryProven),
)
"""Events that each process of a run may send. An agent may control work: it may not report the
start or end of a run, or an approval."""
FROM_NOTARY = _list_names(StepStarted, StepEnded, Note, CommandEnded)
FROM_PREPARE = _list_names(Note, PhaseStart, PhaseEnd, GateRequired, GateApproved, GateDenied)
FROM_TASK = (*FROM_WORK, *_list_names(PhaseStart, PhaseEnd, CmdStart, CmdEnd))
FROM_FINISH = _list_names(Note, PhaseStart, PhaseEnd, GateRequired, GateApproved, ArtifactWritten)
"""Events that each process of a delegation may send; task is its work."""
_KEY = compile_lazily(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)


def encode_event(event: Event) -> bytes:
    """An event as JSON in UTF-8; odd bytes of file names stay what they are."""
    data = {"event": format_event_name(type(event)), **dataclasses.asdict(event)}
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")


def decode_event(data: bytes, allowed: tuple[str, ...]) -> Event:
    """Decode an event with one of the allowed names. Raises InvalidRecordError."""
    value = decode_json(data)
    name = value.pop("event", None) if type(value) is dict else None
    if type(name) is not str or name not in KINDS:
        raise InvalidRecordError("an unknown event")
    if name not in allowed:
        raise InvalidRecordError(f"{name}: not for this sender to tell")
    event: Event = make_record(KINDS[name], value)
    if isinstance(event, StepStarted | StepEnded) and not _KEY.fullmatch(event.key):
        raise InvalidRecordError(f"{name}: its key is none of a section")
    return event
