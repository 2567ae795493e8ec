"""The sender's side of the pipe to the redactor."""

import array
import contextlib
import fcntl
import functools
import os
import signal
import termios
import threading
from collections.abc import Callable, Iterator

import pytest

from gitlab_nightshift.errors import Code, Interruption, NightshiftError
from gitlab_nightshift.records.events import Event, Note
from gitlab_nightshift.system.signals import enable_cancellation
from gitlab_nightshift.wire import channel as channel_module
from gitlab_nightshift.wire.channel import (
    FROM_WORK,
    LARGEST_FRAME,
    Frame,
    FrameKind,
    FrameReader,
    OutputChannel,
    decode_event,
)
from tests.support.trees import wait_for

Pipe = tuple[int, OutputChannel]
"""The read end, and the channel that writes."""


@pytest.fixture(name="pipe")
def _pipe() -> Iterator[Pipe]:
    read, write = os.pipe()
    channel = OutputChannel(write)
    yield read, channel
    for descriptor in (read, write):
        with contextlib.suppress(OSError):
            os.close(descriptor)


def read_frames(read: int) -> list[Frame]:
    """All frames until the write end is closed."""
    reader, frames = FrameReader(), list[Frame]()
    while data := os.read(read, 1 << 16):
        frames += reader.feed(data)
    assert reader.unread_bytes == 0
    return frames


def read_events(read: int) -> list[Event]:
    data, events = b"", list[Event]()
    for frame in read_frames(read):
        data += frame.payload
        if frame.kind is FrameKind.EVENT:
            events.append(decode_event(data, FROM_WORK))
            data = b""
    return events


def read_notes(read: int) -> list[list[str]]:
    """The words of each note."""
    return [event.text.split() for event in read_events(read) if isinstance(event, Note)]


def start_thread(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_a_full_pipe_makes_the_sender_wait(pipe: Pipe) -> None:
    read, channel = pipe
    sent = list[int]()

    def send() -> None:
        for number in range(3000):
            channel(Note(f"{number} {'x' * 100}"))
            sent.append(number)
        channel.close()

    thread = start_thread(send)
    wait_for(lambda: count_unread(read) > 60_000, "the pipe fills")
    assert len(sent) < 3000
    assert [words[0] for words in read_notes(read)] == [str(number) for number in range(3000)]
    thread.join(60)


def test_frames_of_several_threads_are_not_mixed(pipe: Pipe) -> None:
    read, channel = pipe
    large = "\U0001f319" * 300_000  # several frames

    def send(name: str) -> None:
        for number in range(20):
            channel(Note(f"{name} {number} {large if number == 10 else ''}"))

    threads = [start_thread(functools.partial(send, name)) for name in "abcd"]

    def close() -> None:
        for thread in threads:
            thread.join(60)
        channel.close()

    closing = start_thread(close)
    notes = read_notes(read)
    closing.join(60)
    assert len(notes) == 80
    for name in "abcd":
        assert [words[1] for words in notes if words[0] == name] == [str(n) for n in range(20)]


def test_only_the_first_message_to_a_dead_redactor_is_an_error(
    pipe: tuple[int, OutputChannel],
) -> None:
    read, channel = pipe
    os.close(read)
    with pytest.raises(NightshiftError, match="the redactor has ended") as raised:
        channel(Note("x"))
    assert raised.value.code is Code.INTERNAL
    assert channel.gone
    channel(Note("tidying up"))
    channel.send_record("a", b"x" * 10)
    channel.send_text("a", "b")
    channel.close_logs(channel.open_logs("a"))


def test_a_signal_leaves_no_half_frame(pipe: Pipe) -> None:
    """The signal arrives while the pipe is full, in the middle of a frame."""
    read, channel = pipe
    sent = 0

    def interrupt() -> None:
        wait_for(lambda: count_unread(read) > 60_500, "a third frame has begun and cannot end")
        os.kill(os.getpid(), signal.SIGTERM)

    with enable_cancellation():
        thread = start_thread(interrupt)
        with pytest.raises(Interruption):
            while True:
                channel(Note(f"{sent} {'x' * 30_000}"))
                sent += 1
    thread.join(60)
    assert sent > 0

    def close() -> None:
        channel(Note("after"))
        channel.close()

    closing = start_thread(close)
    notes = [words[0] for words in read_notes(read)]
    closing.join(60)
    assert notes == [*(str(number) for number in range(sent + 1)), "after"]


def test_a_signal_during_a_write_neither_loses_nor_repeats_bytes(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal arrives when the kernel has taken the bytes, but the channel does not know it."""
    read, channel = pipe
    write, signals = os.write, [signal.SIGTERM]

    def interrupted(descriptor: int, data: bytes) -> int:
        size = write(descriptor, data[:10])
        while signals:
            os.kill(os.getpid(), signals.pop())
        return size

    monkeypatch.setattr(os, "write", interrupted)
    with enable_cancellation(), pytest.raises(Interruption):
        channel(Note("first"))
    channel(Note("second"))
    channel.close()
    assert read_events(read) == [Note("first"), Note("second")]


def count_unread(read: int) -> int:
    """The number of bytes in a pipe."""
    size = array.array("i", [0])
    fcntl.ioctl(read, termios.FIONREAD, size)
    return size[0]


def test_a_warning_replaces_an_event_that_is_too_large(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "LARGEST_EVENT", 1000)
    read, channel = pipe
    channel(Note("x" * 2000))
    channel.close()
    (event,) = read_events(read)
    assert isinstance(event, Note)
    assert event.text.startswith("an event of 20")
    assert "left out: Note" in event.text


def test_large_logs_texts_and_records_are_split_or_cut_to_frames(
    pipe: tuple[int, OutputChannel],
) -> None:
    """Even a text whose characters are all escaped; of a long text the end is kept."""
    read, channel = pipe
    frames = list[Frame]()
    thread = start_thread(lambda: frames.extend(read_frames(read)))
    channel.send_text("traceback.txt", "\x01" * 400_000 + "the end")
    channel.log(channel.open_logs("a.out", "a.err") + 1, b"z" * (2 * LARGEST_FRAME))
    channel.send_record("empty", b"")
    channel.send_record("large", b"r" * (LARGEST_FRAME + 1))
    channel.close()
    thread.join(60)
    text, opened, *data, empty, one, two, large = frames
    assert text.payload.endswith(b'the end"}')
    assert opened.payload == b'{"first": 0, "names": ["a.out", "a.err"]}'
    assert b"".join(frame.payload[8:] for frame in data) == b"z" * (2 * LARGEST_FRAME)
    assert {frame.payload[:8] for frame in data} == {(1).to_bytes(8, "big")}
    assert [empty.payload, large.payload] == [b'"empty"', b'"large"']
    assert {empty.kind, large.kind} == {FrameKind.RECORD}
    assert [len(one.payload), len(two.payload)] == [LARGEST_FRAME, 1]


def test_child_processes_do_not_inherit_the_pipe(pipe: Pipe) -> None:
    _, channel = pipe
    assert not os.get_inheritable(channel._descriptor)
