"""Frames, and the events in them, are read strictly."""

import itertools
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.records.codec import InvalidRecordError
from gitlab_nightshift.records.events import (
    ArtifactWritten,
    Event,
    GateApproved,
    GateDenied,
    GateRequired,
    Note,
    RunEnded,
    RunStarted,
    StepEnded,
    StepStarted,
    format_event_name,
)
from gitlab_nightshift.run.supervisor.output_pipes import DELEGATION_SENDERS, RUN_SENDERS
from gitlab_nightshift.wire.channel import (
    EVENT_CLASSES,
    FROM_TASK,
    FROM_WORK,
    LARGEST_FRAME,
    Frame,
    FrameKind,
    FrameReader,
    ProtocolError,
    decode_event,
    encode_event,
    encode_frame,
    split_payload,
)
from tests.support.samples import EVENTS, ODD
from tests.support.tables import each

FRAMES = st.lists(st.builds(Frame, st.sampled_from(FrameKind), st.binary(max_size=40)), max_size=12)


@given(FRAMES, st.lists(st.integers(0, 400), max_size=6))
def test_frames_come_back_wherever_they_are_cut(frames: list[Frame], cuts: list[int]) -> None:
    data = b"".join(encode_frame(frame.kind, frame.payload) for frame in frames)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reader, found = FrameReader(), list[Frame]()
    for start, end in itertools.pairwise(edges):
        found += reader.feed(data[start:end])
    assert found == frames
    assert reader.unread_bytes == 0


def test_half_a_frame_waits() -> None:
    data, reader = encode_frame(FrameKind.DATA, b"12345678rest"), FrameReader()
    assert list(reader.feed(data[:-1])) == []
    assert reader.unread_bytes == len(data) - 1
    assert list(reader.feed(data[-1:])) == [Frame(FrameKind.DATA, b"12345678rest")]


def test_the_largest_frame_and_no_larger() -> None:
    data = bytes(LARGEST_FRAME)
    assert list(FrameReader().feed(encode_frame(FrameKind.PART, data))) == [
        Frame(FrameKind.PART, data)
    ]
    with pytest.raises(ValueError, match="too large"):
        encode_frame(FrameKind.PART, data + b"x")
    with pytest.raises(ProtocolError, match="a message of 1048577 bytes"):
        list(FrameReader().feed(struct.pack(">IB", LARGEST_FRAME + 1, FrameKind.PART)))


def test_frames_before_a_broken_one_are_read() -> None:
    found = []
    with pytest.raises(ProtocolError, match="unknown kind 99"):
        for frame in FrameReader().feed(
            encode_frame(FrameKind.EVENT, b"x") + struct.pack(">IB", 0, 99)
        ):
            found.append(frame)
    assert found == [Frame(FrameKind.EVENT, b"x")]


@given(st.binary(max_size=50), st.integers(1, 20))
def test_parts_are_the_whole(data: bytes, most: int) -> None:
    parts = split_payload(data, most)
    assert b"".join(parts) == data
    assert parts
    assert max(map(len, parts)) <= most


NAMES = tuple(dict.fromkeys(map(format_event_name, EVENTS)))


def test_every_event_comes_back_as_it_was() -> None:
    assert [decode_event(encode_event(event), NAMES) for event in EVENTS] == EVENTS
    assert {type(event) for event in EVENTS} == set(EVENT_CLASSES.values())
    assert decode_event(encode_event(Note("odd \udcff \ud800")), FROM_WORK) == Note(
        "odd \udcff \ud800"
    )


FORGED = (RunStarted, RunEnded, GateApproved, GateRequired, GateDenied, ArtifactWritten)
OF_DELEGATIONS = {"phase_start", "phase_end", "gate_approved", "gate_denied", "artifact_written"}


@each("allowed", [FROM_WORK, FROM_TASK])
def test_work_tells_nothing_that_others_decide(allowed: tuple[str, ...]) -> None:
    """It says what it does; who approved what, and how a run begins and ends, is not its to say."""
    forged = [event for event in EVENTS if isinstance(event, FORGED)]
    assert {type(event) for event in forged} == set(FORGED)
    for event in forged:
        assert decode_event(encode_event(event), NAMES) == event, "the control"
        with pytest.raises(InvalidRecordError, match="this sender may not send it"):
            decode_event(encode_event(event), allowed)


def test_each_stage_says_what_it_has_to_say_alone() -> None:
    """Every kind is somebody's, and a night has none of a delegation."""
    run = {kind for sender in RUN_SENDERS for kind in sender.events}
    delegation = {kind for sender in DELEGATION_SENDERS for kind in sender.events}
    assert run | delegation == set(NAMES)
    assert run == set(NAMES) - OF_DELEGATIONS
    assert all(len(sender.events) < len(NAMES) for sender in (*RUN_SENDERS, *DELEGATION_SENDERS))


@each("event", [StepStarted("Apply", "", phase=True), StepEnded("Apply", True, "", phase=True)])
def test_a_step_is_no_phase_where_only_steps_may_be_sent(event: Event) -> None:
    assert decode_event(encode_event(event), FROM_TASK) == event, "the control"
    with pytest.raises(InvalidRecordError, match=r"phase_\w+: this sender may not"):
        decode_event(encode_event(event), FROM_WORK)


@each("event", EVENTS)
def test_an_event_has_its_own_fields_and_types(event: Event) -> None:
    data = json.loads(encode_event(event).decode("utf-8", "surrogatepass"))
    assert_unfit(data | {"time": "now"})
    for name in data:
        assert_unfit({key: value for key, value in data.items() if key != name})
        assert_unfit(data | {name: {"x": []}})


def assert_unfit(data: Any) -> None:
    with pytest.raises(InvalidRecordError):
        decode_event(json.dumps(data).encode(), NAMES)


@each("data", [[], "note", None, {"event": []}, {"event": "x"}, {"event": "Note", "text": "x"}])
def test_what_is_no_event(data: Any) -> None:
    with pytest.raises(InvalidRecordError, match="an unknown event"):
        decode_event(json.dumps(data).encode(), NAMES)


@each("key", ["", "a b", "a\n", "x" * 101, "ä", "a:b", "\x1b[0K", ODD])
def test_the_key_of_a_section_is_a_plain_word(key: str) -> None:
    assert decode_event(encode_event(StepStarted("a.B_9-z", "t")), FROM_WORK)
    for event in (StepStarted(key, "t"), StepEnded(key, True, "t")):
        with pytest.raises(InvalidRecordError, match="invalid section key"):
            decode_event(encode_event(event), FROM_WORK)
