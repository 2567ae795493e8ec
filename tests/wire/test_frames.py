"""Frames: whole wherever the pipe cuts them, and bounded."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.wire.frames import (
    LARGEST_FRAME,
    Frame,
    FrameKind,
    FrameReader,
    ProtocolError,
    encode_frame,
    split,
)

FRAMES = st.lists(st.builds(Frame, st.sampled_from(FrameKind), st.binary(max_size=40)), max_size=12)


@given(FRAMES, st.lists(st.integers(0, 400), max_size=6))
def test_frames_come_back_wherever_they_are_cut(frames: list[Frame], cuts: list[int]) -> None:
    data = b"".join(encode_frame(frame.kind, frame.payload) for frame in frames)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reader, found = FrameReader(), list[Frame]()
    for start, end in itertools.pairwise(edges):
        found += reader.feed(data[start:end])
    assert found == frames
    assert reader.waiting == 0


def test_half_a_frame_waits() -> None:
    data, reader = encode_frame(FrameKind.DATA, b"12345678rest"), FrameReader()
    assert list(reader.feed(data[:-1])) == []
    assert reader.waiting == len(data) - 1
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
    parts = split(data, most)
    assert b"".join(parts) == data
    assert parts
    assert max(map(len, parts)) <= most
