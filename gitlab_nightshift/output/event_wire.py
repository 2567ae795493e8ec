"""Events as they are sent, and read strictly: who sends one may be in the hands of an agent."""

import dataclasses
import json
import re
from typing import Any, get_args

from gitlab_nightshift.events import (
    Event,
    RunEnded,
    RunStarted,
    StepEnded,
    StepStarted,
    format_event_name,
)
from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.records.strict_reading import InvalidRecordError, decode_json, make_record

LARGEST_EVENT = 8 * 1024 * 1024
"""Bytes: a hand-off of the largest size, every character of it escaped."""
KINDS: dict[str, type[Any]] = {format_event_name(kind): kind for kind in get_args(Event)}
FROM_WORK = tuple(name for name, kind in KINDS.items() if kind not in (RunStarted, RunEnded))
"""What work may say. How a run begins and ends is not for it to say."""
_KEY = compile_lazily(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)


def encode_event(event: Event) -> bytes:
    """An event as JSON in UTF-8; odd bytes of file names stay what they are."""
    data = {"event": format_event_name(type(event)), **dataclasses.asdict(event)}
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")


def decode_event(data: bytes, allowed: tuple[str, ...]) -> Event:
    """The event of one of the allowed names that JSON holds. Raises InvalidRecordError."""
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
