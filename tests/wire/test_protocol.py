"""Frames, and the events in them, are checked strictly."""

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
def test_frames_are_read_from_any_pieces(frames: list[Frame], cuts: list[int]) -> None:
    data = b"".join(encode_frame(frame.kind, frame.payload) for frame in frames)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reader, found = FrameReader(), list[Frame]()
    for start, end in itertools.pairwise(edges):
        found += reader.feed(data[start:end])
    assert found == frames
    assert reader.unread_bytes == 0


def test_an_incomplete_frame_is_kept() -> None:
    data, reader = encode_frame(FrameKind.DATA, b"12345678rest"), FrameReader()
    assert list(reader.feed(data[:-1])) == []
    assert reader.unread_bytes == len(data) - 1
    assert list(reader.feed(data[-1:])) == [Frame(FrameKind.DATA, b"12345678rest")]


def test_the_size_of_frames_is_limited() -> None:
    data = bytes(LARGEST_FRAME)
    [frame] = FrameReader().feed(encode_frame(FrameKind.PART, data))
    assert frame == Frame(FrameKind.PART, data)
    with pytest.raises(ValueError, match="too large"):
        encode_frame(FrameKind.PART, data + b"x")
    with pytest.raises(ProtocolError, match="a message of 1048577 bytes"):
        list(FrameReader().feed(struct.pack(">IB", LARGEST_FRAME + 1, FrameKind.PART)))


def test_frames_before_an_invalid_one_are_read() -> None:
    found = []
    with pytest.raises(ProtocolError, match="unknown kind 99"):
        for frame in FrameReader().feed(
            encode_frame(FrameKind.EVENT, b"x") + struct.pack(">IB", 0, 99)
        ):
            found.append(frame)
    assert found == [Frame(FrameKind.EVENT, b"x")]


@given(st.binary(max_size=50), st.integers(1, 20))
def test_payloads_are_split_without_loss(data: bytes, size: int) -> None:
    parts = split_payload(data, size)
    assert b"".join(parts) == data
    assert parts
    assert max(map(len, parts)) <= size


NAMES = tuple(dict.fromkeys(map(format_event_name, EVENTS)))


def test_every_event_survives_encoding() -> None:
    assert [decode_event(encode_event(event), NAMES) for event in EVENTS] == EVENTS
    assert {type(event) for event in EVENTS} == set(EVENT_CLASSES.values())
    odd = Note("odd \udcff \ud800")
    assert decode_event(encode_event(odd), FROM_WORK) == odd


RESERVED = (RunStarted, RunEnded, GateApproved, GateRequired, GateDenied, ArtifactWritten)
OF_DELEGATIONS = {"phase_start", "phase_end", "gate_approved", "gate_denied", "artifact_written"}


@each("allowed", [FROM_WORK, FROM_TASK])
def test_work_cannot_send_events_that_other_processes_decide(allowed: tuple[str, ...]) -> None:
    """It may not report approvals, or the start or end of a run."""
    reserved = [event for event in EVENTS if isinstance(event, RESERVED)]
    assert {type(event) for event in reserved} == set(RESERVED)
    for event in reserved:
        assert decode_event(encode_event(event), NAMES) == event, "the control"
        with pytest.raises(InvalidRecordError, match="this sender may not send it"):
            decode_event(encode_event(event), allowed)


def test_each_kind_of_event_has_a_sender_and_no_sender_has_all() -> None:
    """A night's processes send none of a delegation's events."""
    run = {kind for sender in RUN_SENDERS for kind in sender.events}
    delegation = {kind for sender in DELEGATION_SENDERS for kind in sender.events}
    assert run | delegation == set(NAMES)
    assert run == set(NAMES) - OF_DELEGATIONS
    assert all(len(sender.events) < len(NAMES) for sender in (*RUN_SENDERS, *DELEGATION_SENDERS))


@each("event", [StepStarted("Apply", "", phase=True), StepEnded("Apply", True, "", phase=True)])
def test_a_sender_of_steps_cannot_send_phases(event: Event) -> None:
    assert decode_event(encode_event(event), FROM_TASK) == event, "the control"
    with pytest.raises(InvalidRecordError, match=r"phase_\w+: this sender may not"):
        decode_event(encode_event(event), FROM_WORK)


@each("event", EVENTS)
def test_fields_and_types_of_events_are_checked(event: Event) -> None:
    data = json.loads(encode_event(event).decode("utf-8", "surrogatepass"))
    assert_refused(data | {"time": "now"})
    for name in data:
        assert_refused({key: value for key, value in data.items() if key != name})
        assert_refused(data | {name: {"x": []}})


def assert_refused(data: Any) -> None:
    with pytest.raises(InvalidRecordError):
        decode_event(json.dumps(data).encode(), NAMES)


@each("data", [[], "note", None, {"event": []}, {"event": "x"}, {"event": "Note", "text": "x"}])
def test_unknown_events_are_refused(data: Any) -> None:
    with pytest.raises(InvalidRecordError, match="an unknown event"):
        decode_event(json.dumps(data).encode(), NAMES)


@each("key", ["", "a b", "a\n", "x" * 101, "ä", "a:b", "\x1b[0K", ODD])
def test_section_keys_are_plain_words(key: str) -> None:
    assert decode_event(encode_event(StepStarted("a.B_9-z", "t")), FROM_WORK)
    for event in (StepStarted(key, "t"), StepEnded(key, True, "t")):
        with pytest.raises(InvalidRecordError, match="invalid section key"):
            decode_event(encode_event(event), FROM_WORK)
