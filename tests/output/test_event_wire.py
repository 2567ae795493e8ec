"""Events on the wire: they come back whole, and nothing else is taken for one."""

import json
from typing import Any

import pytest

from gitlab_nightshift.events import Event, Note, RunEnded, RunStarted, StepEnded, StepStarted
from gitlab_nightshift.output.event_wire import FROM_WORK, KINDS, decode_event, encode_event
from gitlab_nightshift.records.strict_reading import InvalidRecordError
from tests.support.samples import EVENTS, ODD
from tests.support.tables import each


def test_every_event_comes_back_as_it_was() -> None:
    assert [decode_event(encode_event(event), tuple(KINDS)) for event in EVENTS] == EVENTS
    assert {type(event) for event in EVENTS} == set(KINDS.values())
    assert decode_event(encode_event(Note("odd \udcff \ud800")), FROM_WORK) == Note(
        "odd \udcff \ud800"
    )


def test_work_tells_all_but_how_a_run_begins_and_ends() -> None:
    for event in EVENTS:
        if isinstance(event, RunStarted | RunEnded):
            with pytest.raises(InvalidRecordError, match="not for this sender to tell"):
                decode_event(encode_event(event), FROM_WORK)
        else:
            assert decode_event(encode_event(event), FROM_WORK) == event


@each("event", EVENTS)
def test_an_event_has_its_own_fields_and_types(event: Event) -> None:
    data = json.loads(encode_event(event).decode("utf-8", "surrogatepass"))
    assert_unfit(data | {"time": "now"})
    for name in data:
        assert_unfit({key: value for key, value in data.items() if key != name})
        assert_unfit(data | {name: {"x": []}})


def assert_unfit(data: Any) -> None:
    with pytest.raises(InvalidRecordError):
        decode_event(json.dumps(data).encode(), tuple(KINDS))


@each("data", [[], "note", None, {"event": []}, {"event": "x"}, {"event": "Note", "text": "x"}])
def test_what_is_no_event(data: Any) -> None:
    with pytest.raises(InvalidRecordError, match="an unknown event"):
        decode_event(json.dumps(data).encode(), tuple(KINDS))


@each("key", ["", "a b", "a\n", "x" * 101, "ä", "a:b", "\x1b[0K", ODD])
def test_the_key_of_a_section_is_a_plain_word(key: str) -> None:
    assert decode_event(encode_event(StepStarted("a.B_9-z", "t")), FROM_WORK)
    for event in (StepStarted(key, "t"), StepEnded(key, True, "t")):
        with pytest.raises(InvalidRecordError, match="its key is none"):
            decode_event(encode_event(event), FROM_WORK)
