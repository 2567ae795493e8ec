"""The sender's side: whole frames from any thread, a wait where the pipe is full, one error."""

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
from gitlab_nightshift.wire import channel as module
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


@pytest.fixture(name="pipe")
def _pipe() -> Iterator[tuple[int, OutputChannel]]:
    read, write = os.pipe()
    outlet = OutputChannel(write)
    yield read, outlet
    for descriptor in (read, write):
        with contextlib.suppress(OSError):
            os.close(descriptor)


def frames(read: int) -> list[Frame]:
    """All that comes until the other end is closed."""
    reader, found = FrameReader(), list[Frame]()
    while data := os.read(read, 1 << 16):
        found += reader.feed(data)
    assert reader.unread_bytes == 0
    return found


def events(read: int) -> list[Event]:
    parts, found = b"", list[Event]()
    for frame in frames(read):
        parts += frame.payload
        if frame.kind is FrameKind.EVENT:
            found.append(decode_event(parts, FROM_WORK))
            parts = b""
    return found


def in_thread(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_a_full_pipe_makes_the_sender_wait(pipe: tuple[int, OutputChannel]) -> None:
    read, outlet = pipe
    sent = list[int]()

    def send() -> None:
        for number in range(3000):
            outlet(Note(f"{number} {'x' * 100}"))
            sent.append(number)
        outlet.close()

    thread = in_thread(send)
    wait_for(lambda: waiting(read) > 60_000, "the pipe fills")
    assert len(sent) < 3000
    assert [event.text.split()[0] for event in events(read) if isinstance(event, Note)] == [
        str(number) for number in range(3000)
    ]
    thread.join(60)


def test_threads_do_not_cut_each_others_frames(pipe: tuple[int, OutputChannel]) -> None:
    read, outlet = pipe
    large = "\U0001f319" * 300_000  # several frames

    def send(name: str) -> None:
        for number in range(20):
            outlet(Note(f"{name} {number} {large if number == 10 else ''}"))

    threads = [in_thread(functools.partial(send, name)) for name in "abcd"]

    def close() -> None:
        for thread in threads:
            thread.join(60)
        outlet.close()

    closing = in_thread(close)
    texts = [event.text.split() for event in events(read) if isinstance(event, Note)]
    closing.join(60)
    assert len(texts) == 80
    for name in "abcd":
        assert [text[1] for text in texts if text[0] == name] == [str(n) for n in range(20)]


def test_a_redactor_that_is_gone_is_one_error(pipe: tuple[int, OutputChannel]) -> None:
    read, outlet = pipe
    os.close(read)
    with pytest.raises(NightshiftError, match="the redactor has ended") as raised:
        outlet(Note("x"))
    assert raised.value.code is Code.INTERNAL
    assert outlet.gone
    outlet(Note("tidying up"))
    outlet.send_record("a", b"x" * 10)
    outlet.send_text("a", "b")
    outlet.close_logs(outlet.open_logs("a"))


def test_a_signal_leaves_no_half_frame(pipe: tuple[int, OutputChannel]) -> None:
    """It comes while the pipe is full, in the middle of a frame."""
    read, outlet = pipe
    sent = 0

    def interrupt() -> None:
        wait_for(lambda: waiting(read) > 60_500, "a third frame has begun and cannot end")
        os.kill(os.getpid(), signal.SIGTERM)

    with enable_cancellation():
        thread = in_thread(interrupt)
        with pytest.raises(Interruption):
            while True:
                outlet(Note(f"{sent} {'x' * 30_000}"))
                sent += 1
    thread.join(60)
    assert sent > 0

    def close() -> None:
        outlet(Note("after"))
        outlet.close()

    closing = in_thread(close)
    texts = [event.text.split()[0] for event in events(read) if isinstance(event, Note)]
    closing.join(60)
    assert texts == [*(str(number) for number in range(sent + 1)), "after"]


def test_a_signal_during_a_write_does_not_lose_what_was_written(
    pipe: tuple[int, OutputChannel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It arrives when the kernel has taken the bytes, and nobody has noted how many."""
    read, outlet = pipe
    write, signals = os.write, [signal.SIGTERM]

    def interrupted(descriptor: int, data: bytes) -> int:
        size = write(descriptor, data[:10])
        while signals:
            os.kill(os.getpid(), signals.pop())
        return size

    monkeypatch.setattr(os, "write", interrupted)
    with enable_cancellation(), pytest.raises(Interruption):
        outlet(Note("first"))
    outlet(Note("second"))
    outlet.close()
    assert events(read) == [Note("first"), Note("second")]


def waiting(read: int) -> int:
    """Bytes in a pipe."""
    size = array.array("i", [0])
    fcntl.ioctl(read, termios.FIONREAD, size)
    return size[0]


def test_what_is_too_large_is_said(
    pipe: tuple[int, OutputChannel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_EVENT", 1000)
    read, outlet = pipe
    outlet(Note("x" * 2000))
    outlet.close()
    (event,) = events(read)
    assert isinstance(event, Note)
    assert event.text.startswith("an event of 20")
    assert "left out: Note" in event.text


def test_what_is_sent_as_a_log_fits_into_a_frame(pipe: tuple[int, OutputChannel]) -> None:
    """Also where every character is escaped; of a long text the end is kept."""
    read, outlet = pipe
    found = list[Frame]()
    thread = in_thread(lambda: found.extend(frames(read)))
    outlet.send_text("traceback.txt", "\x01" * 400_000 + "the end")
    outlet.log(outlet.open_logs("a.out", "a.err") + 1, b"z" * (2 * LARGEST_FRAME))
    outlet.send_record("empty", b"")
    outlet.send_record("large", b"r" * (LARGEST_FRAME + 1))
    outlet.close()
    thread.join(60)
    text, opened, *data, empty, one, two, large = found
    assert text.payload.endswith(b'the end"}')
    assert opened.payload == b'{"first": 0, "names": ["a.out", "a.err"]}'
    assert b"".join(frame.payload[8:] for frame in data) == b"z" * (2 * LARGEST_FRAME)
    assert {frame.payload[:8] for frame in data} == {(1).to_bytes(8, "big")}
    assert (empty, large) == (
        Frame(FrameKind.RECORD, b'"empty"'),
        Frame(FrameKind.RECORD, b'"large"'),
    )
    assert [len(one.payload), len(two.payload)] == [LARGEST_FRAME, 1]


def test_the_descriptor_is_for_this_process_alone(pipe: tuple[int, OutputChannel]) -> None:
    _, outlet = pipe
    assert not os.get_inheritable(outlet._descriptor)
