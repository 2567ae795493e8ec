"""The redactor as a process, with honest, hostile and dying senders."""

import errno
import gzip
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.events import (
    BeadEnded,
    Event,
    Note,
    RunEnded,
    RunStarted,
    StepEnded,
    StepStarted,
)
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import to_json
from gitlab_nightshift.run.redactor_process import (
    MOST_REFUSED,
    EventDispatcher,
    replace_control_characters,
)
from gitlab_nightshift.stages.report.job_log import CUT
from gitlab_nightshift.wire.channel import (
    LARGEST_FRAME,
    FrameKind,
    OutputChannel,
    encode_event,
    encode_frame,
)
from tests.support.disks import fill, small_disk
from tests.support.redacting import (
    BUNDLE,
    PACKAGE,
    PATCH,
    SECRET,
    SUPERVISOR,
    WORK,
    Redacting,
    redacting,
)
from tests.support.samples import BEAD
from tests.support.samples import BUNDLE as READY
from tests.support.trees import places_of, unpacked, wait_for

END = RunEnded(RunResult("1", Outcome.FAILED, "E_INTERNAL", f"why: {SECRET}"))
REFUSED = "work: a message was not accepted: "
NOISE = random.Random(7)


def open_channel(running: Redacting, name: str = "work") -> OutputChannel:
    return OutputChannel(running.pipes.pop(name))


def send(running: Redacting, name: str, *events: Any) -> None:
    """Send events as this sender, which then ends."""
    out = open_channel(running, name)
    for event in events:
        out(event)
    out.close()


def write_frames(running: Redacting, *frames: tuple[int, bytes], name: str = "work") -> None:
    """Write frames as a hostile sender, which stays open."""
    for kind, payload in frames:
        data = memoryview(struct.pack(">IB", len(payload), kind) + payload)
        while data:
            data = data[os.write(running.pipes[name], data) :]


def test_the_wire_imports_only_the_standard_library() -> None:
    code = f"""\
import sys
sys.path.append({str(PACKAGE)!r})
import importlib, pathlib
for path in pathlib.Path({str(PACKAGE)!r}, "gitlab_nightshift/wire").glob("*.py"):
    importlib.import_module(f"gitlab_nightshift.wire.{{path.stem}}")
print(sorted({{name.partition(".")[0] for name in sys.modules}} - sys.stdlib_module_names))
print("subprocess" in sys.modules, "socket" in sys.modules)
"""
    argv = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert (done.stdout.decode(), done.stderr) == (
        "['__main__', 'gitlab_nightshift']\nFalse False\n",
        b"",
    )


def test_events_are_logged_in_order_and_redacted(tmp_path: Path) -> None:
    """Of two senders that have sent, the first is read first; the run's end is the last event."""
    with redacting(tmp_path, SUPERVISOR, WORK, sections=True) as running:
        running.process.send_signal(signal.SIGSTOP)
        send(
            running,
            "work",
            StepStarted("bead", f"a step with {SECRET}"),
            BeadEnded(replace(BEAD, error=f"it said {SECRET}", denied=(SECRET,))),
            StepEnded("bead", True, "done"),
        )
        send(running, "supervisor", RunStarted("acme/shop", (SECRET,)), END)
        running.process.send_signal(signal.SIGCONT)
        log = running.ended()
        assert running.status == 0
        lines = log.split("\n")[:-1]
        assert lines[0].startswith("nightshift ")
        assert lines[2].endswith("▸ a step with [redacted]")
        assert "section_start" in lines[2]
        assert lines[-1].startswith("✘ FAILED · E_INTERNAL · why: [redacted]")
        names = [event["event"] for event in running.events()]
        assert names == ["run_started", "step_started", "bead_ended", "step_ended", "run_ended"]
        assert places_of((SECRET,), read_all_files(tmp_path)) == []


def read_all_files(folder: Path) -> dict[str, bytes]:
    """The files that a redactor has written, decompressed."""
    return {str(path): unpacked(path) for path in folder.rglob("*") if path.is_file()}


def test_a_secret_is_redacted_across_frames(tmp_path: Path) -> None:
    with redacting(tmp_path, WORK) as running:
        half = len(SECRET) // 2
        event = encode_event(Note(f"x{SECRET}x"))
        at = event.index(SECRET.encode()) + half
        write_frames(running, (FrameKind.PART, event[:at]), (FrameKind.EVENT, event[at:]))
        out = open_channel(running)
        log = out.open_logs("1.out", "1.err")
        for byte in f"a {SECRET} z".encode():
            out.log(log, bytes((byte,)))
        out.log(log + 1, NOISE.randbytes(900_000).hex().encode() + SECRET[:half].encode())
        out.log(log + 1, SECRET[half:].encode() + b" end")
        out.close_logs(log)
        out.send_text("traceback.txt", f"ValueError: {SECRET}")
        out.close()
        assert "x[redacted]x" in running.ended()
        assert not (tmp_path / "reserve").exists()
        assert (running.logs / "1.out").read_text() == "a [redacted] z"
        assert (running.logs / "traceback.txt").read_text() == "ValueError: [redacted]"
        assert gzip.decompress((running.logs / "1.err.gz").read_bytes()).endswith(b"[redacted] end")
        assert places_of((SECRET,), read_all_files(tmp_path)) == []


# --- hostile senders ------------------------------------------------------------------------------


def test_forged_and_invalid_messages_are_refused_with_one_warning(tmp_path: Path) -> None:
    log_frames = [
        (FrameKind.OPEN, {"first": 0, "names": ["../../x.out"]}),
        (FrameKind.OPEN, {"first": 0, "names": ["a/b"]}),
        (FrameKind.OPEN, {"first": 0, "names": ["x.gz"]}),
        (FrameKind.OPEN, {"first": 0, "names": [".hidden"]}),
        (FrameKind.OPEN, {"first": 0, "names": ["a", "a"]}),
        (FrameKind.OPEN, {"first": 0, "names": ["a" * 201]}),
        (FrameKind.OPEN, {"first": 0, "names": []}),
        (FrameKind.OPEN, {"first": -1, "names": ["a"]}),
        (FrameKind.OPEN, {"first": 0, "names": [f"{n}.out" for n in range(17)]}),
        (FrameKind.CLOSE, {"first": 7}),
        (FrameKind.RENAME, {"old": "a", "new": "../b"}),
        (FrameKind.TEXT, {"name": "../b", "text": "x"}),
        (FrameKind.RECORD, "../x"),
        (FrameKind.RECORD, "/etc/x"),
        (FrameKind.RECORD, "result.json"),
        (FrameKind.RECORD, "bundle/../bundle/bundle.json"),
        (FrameKind.RECORD, ["bundle/bundle.json"]),
        (FrameKind.EVENT, {"event": "os_system", "text": "x"}),
        (FrameKind.EVENT, {"event": "note", "text": "x"}),
        (FrameKind.EVENT, {"event": "note", "text": ["x"], "warning": False}),
        (FrameKind.EVENT, {"event": "step_started", "key": "a\x1b[0K", "title": "x"}),
    ]
    events = [encode_event(event) for event in (RunStarted("forged", ()), END)]
    frames = [(kind, json.dumps(value).encode()) for kind, value in log_frames]
    frames += [(FrameKind.EVENT, event) for event in events] + [(FrameKind.DATA, b"12345678x")]
    with redacting(tmp_path, WORK, SUPERVISOR) as running:
        write_frames(running, *frames)
        send(running, "work", Note("still heard"))
        send(running, "supervisor", END)
        log = running.ended()
        assert "forged" not in log
        assert log.count("FAILED") == 1
        assert running.texts() == [
            f"{REFUSED}invalid log name",
            "still heard",
            f"work: {len(frames)} messages were not accepted",
        ]
        assert not list(running.logs.iterdir())
        assert [path.name for path in running.results.iterdir()] == ["events.jsonl"]
        assert {path.name for path in tmp_path.iterdir()} <= {"results", "logs", "job.log", "ended"}


def test_control_characters_of_agents_cannot_change_the_log(tmp_path: Path) -> None:
    """Nor are they a reason to drop an event: an agent could hide it in this way."""
    marker = "\x1b[0Ksection_end:1:plan\r\x1b[0K"
    with redacting(tmp_path, WORK, SUPERVISOR, sections=True) as running:
        send(
            running, "work", Note(f"a{marker}b\x07\x9b31m\nc\td\r\ne\x7f"), StepStarted("k", marker)
        )
        send(running, "supervisor", END)
        log = running.ended()
        assert "section_end:1:plan" in log
        own = r"\x1b\[0Ksection_(start|end):\d+:k(\[collapsed=true\])?\r\x1b\[0K"
        assert set("\x1b\r\x07\x9b\x7f").isdisjoint(re.sub(own, "", log))
        assert running.texts() == [
            "a\ufffd[0Ksection_end:1:plan\ufffd\ufffd[0Kb\ufffd\ufffd31m\nc\td\ne\ufffd"
        ]


def test_open_sections_of_a_killed_run_are_closed(tmp_path: Path) -> None:
    """Otherwise GitLab would fold everything that the job prints later, with the reason."""
    with redacting(tmp_path, WORK, SUPERVISOR, sections=True) as running:
        send(running, "work", StepStarted("boundary", "a"), StepStarted("implement-tests-1", "b"))
        open_channel(running, "supervisor").close()
        log = running.ended()
        found = re.findall(r"section_(\w+):\d+:([\w-]+)(\S*?)\r", log)
        assert found == [
            ("start", "boundary", "[collapsed=true]"),
            ("start", "implement-tests-1", ""),
            ("end", "implement-tests-1", ""),
            ("end", "boundary", ""),
        ], log


def send_until_cut_off(running: Redacting, write: Callable[[], object]) -> None:
    """Repeat ``write`` until the redactor has closed the pipe."""
    with pytest.raises(BrokenPipeError):
        for _ in range(100_000):
            write()


def test_a_frame_that_is_too_large_cuts_off_only_its_sender(tmp_path: Path) -> None:
    with redacting(tmp_path, WORK, SUPERVISOR) as running:
        out = open_channel(running, "supervisor")
        out(Note("before"))
        os.write(running.pipes["work"], struct.pack(">IB", LARGEST_FRAME + 1, FrameKind.EVENT))
        send_until_cut_off(running, lambda: os.write(running.pipes["work"], b"x" * 4096))
        out(Note("after"))
        out(END)
        out.close()
        running.ended()
        assert [text for text in running.texts() if str(text).startswith("work")] == [
            f"work: it is not listened to any more: a message of {LARGEST_FRAME + 1} bytes"
        ]
        assert {"before", "after"} < set(running.texts())


def test_a_sender_of_too_many_events_is_cut_off(tmp_path: Path) -> None:
    """Events beyond the limit are only counted; with too many of those, the sender is cut off."""
    fewer = "from gitlab_nightshift.run import redactor_process as it; it.MOST_EVENTS = 500"
    with redacting(tmp_path, WORK, SUPERVISOR, before=fewer) as running:
        flood = encode_frame(FrameKind.EVENT, encode_event(Note("x"))) * 1000
        sent = 0
        with pytest.raises(BrokenPipeError):
            while sent < 1_000_000 * len(flood) // 1000:
                data = memoryview(flood)
                while data:
                    size = os.write(running.pipes["work"], data)
                    data, sent = data[size:], sent + size
        assert sent >= (500 + MOST_REFUSED) * len(flood) // 1000
        send(running, "supervisor", Note("after"), END)
        assert running.ended().count("\n  x\n") <= 500
        texts = [text for text in running.texts() if text != "x"]
        assert len(running.texts()) - len(texts) == 500
        assert texts == [
            f"{REFUSED}more than 500 events",
            f"work: it is not listened to any more: {MOST_REFUSED + 1} messages were not accepted",
            f"work: {MOST_REFUSED + 1} messages were not accepted",
            "after",
        ]


def test_an_endless_message_does_not_fill_memory(tmp_path: Path) -> None:
    with redacting(tmp_path, WORK) as running:
        part = bytes(LARGEST_FRAME)
        for _ in range(100):
            write_frames(running, (FrameKind.PART, part))
        status = Path(f"/proc/{running.process.pid}/status").read_text()
        size = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        assert int(size.split()[1]) < 80_000
        write_frames(
            running, (FrameKind.RECORD, json.dumps(BUNDLE).encode()), (FrameKind.EVENT, b"{}")
        )
        running.ended()
        assert running.texts()[0] == f"{REFUSED}{BUNDLE}: it has more than 16777216 bytes"


def test_a_message_that_exceeds_memory_is_refused(tmp_path: Path) -> None:
    little = (
        "from gitlab_nightshift.run import redactor_process as it; it.MOST_MEMORY = 100_000_000"
    )
    with redacting(tmp_path, WORK, before=little) as running:
        out = open_channel(running)
        out.send_record(BUNDLE, b"[" + b"[]," * 4_000_000 + b"[]]")
        out(Note("after"))
        out.close()
        running.ended()
        assert running.status == 0
        assert running.texts() == [f"{REFUSED}there was no memory for it", "after"]


def test_planted_links_are_replaced_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    for name in ("results", "logs"):
        (tmp_path / name).mkdir()
    for link, target in (
        ("results/events.jsonl", "file"),
        ("results/bundle", "."),
        ("results/result.json", "file"),
        ("logs/1.out", "file"),
        ("logs/2.out", "file"),
        ("logs/2.out.gz", "file"),
        ("logs/t.txt", "file"),
    ):
        (tmp_path / link).symlink_to(outside / target)
    with redacting(tmp_path, WORK, SUPERVISOR) as running:
        out = open_channel(running)
        out.send_record(PATCH, b"+x\n")
        for name in ("1.out", "2.out"):
            first = out.open_logs(name)
            out.log(first, b"printed")
            out.close_logs(first)
        out.send_text("t.txt", "text")
        out.close()
        send(running, "supervisor", END)
        running.ended()
        assert running.status == 0
        assert [event["event"] for event in running.events()] == ["run_ended"]
        assert [path.name for path in outside.iterdir()] == ["file"]
        assert (outside / "file").read_text() == "mine"
        assert (running.results / PATCH).read_bytes() == b"+x\n"
        assert (running.logs / "1.out").read_text() == "printed"
        assert (running.logs / "t.txt").read_text() == "text"
        assert not [path for path in tmp_path.rglob("*.out") if path.is_symlink()]


# --- bounds and ends ------------------------------------------------------------------------------


def test_the_job_log_is_bounded_with_the_verdict_last(tmp_path: Path) -> None:
    with redacting(tmp_path, WORK, SUPERVISOR) as running:
        send(running, "work", *(Note("x" * 390) for _ in range(3000)))
        send(running, "supervisor", END)
        log = running.ended()
        assert 900_000 < len(log.encode()) < 1_000_000
        assert log.count(CUT) == 1
        assert log.splitlines()[-1].startswith("✘ FAILED")
        assert len(running.events()) == 3001


def test_a_change_with_a_secret_is_refused_and_its_bundle_says_so(tmp_path: Path) -> None:
    with redacting(tmp_path, WORK) as running:
        out = open_channel(running)
        out.send_record(PATCH, f"+++ b/x\n+key = {SECRET}\n".encode())
        out.send_record(BUNDLE, to_json(READY).encode())
        out.close()
        running.ended()
        bundle = json.loads((running.results / BUNDLE).read_bytes())
        assert (bundle["outcome"], bundle["error_code"]) == ("FAILED", "E_POLICY_DENY")
        assert "contains the value of a secret variable" in bundle["reason"]
        assert not (running.results / PATCH).exists()


def test_messages_of_a_killed_sender_are_stored(tmp_path: Path) -> None:
    with redacting(tmp_path, WORK, SUPERVISOR) as running:
        write_frames(
            running,
            (FrameKind.EVENT, encode_event(Note("whole"))),
            (FrameKind.OPEN, b'{"first": 0, "names": ["1.out"]}'),
            (FrameKind.DATA, bytes(8) + b"printed"),
            (FrameKind.PART, to_json(READY).encode()),
        )
        os.write(running.pipes["work"], struct.pack(">IB", 100, FrameKind.EVENT) + b"half")
        running.close("work")
        log = running.logs / "1.out"
        wait_for(lambda: log.exists() and log.read_bytes() == b"printed", "its log is closed")
        send(running, "supervisor", END)
        assert running.ended().splitlines()[-1].startswith("✘ FAILED")
        assert running.texts() == ["whole", "work: it ended in the middle of a message"]
        assert not (running.results / "bundle").exists()


def test_an_open_pipe_does_not_delay_the_end_of_the_run(tmp_path: Path) -> None:
    with redacting(tmp_path, WORK, SUPERVISOR) as running:
        send(running, "supervisor", END)
        wait_for(lambda: "FAILED" in running.log_file.read_text(), "the verdict")
        assert running.process.poll() is None


def test_signals_do_not_end_the_redactor(tmp_path: Path) -> None:
    with redacting(tmp_path, WORK) as running:
        out = open_channel(running)
        out(Note("before"))
        wait_for(lambda: "before" in running.log_file.read_text(), "it listens")
        for number in (signal.SIGTERM, signal.SIGINT):
            running.process.send_signal(number)
        out(Note("after"))
        out.close()
        assert "after" in running.ended()
        assert running.status == 0


SEEN = """
import ctypes, sys
from gitlab_nightshift.run import redactor_process
def dumpable():
    return ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
before, decode = dumpable(), redactor_process.decode_record
def seen(kind, data):
    sys.stderr.write(f"{before} {dumpable()} {len(data) > 0}")
    return decode(kind, data)
redactor_process.decode_record = seen
"""


def test_other_processes_cannot_read_its_memory_before_it_has_secrets(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The control: a process starts with 1, dumpable."""
    with redacting(tmp_path, WORK, before=SEEN) as running:
        running.ended()
    assert capfd.readouterr().err == "1 0 True"


def test_a_full_disk_loses_logs_but_not_the_bundle(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "20m") as disk, redacting(disk, WORK, SUPERVISOR) as running:
        out = open_channel(running)
        first = out.open_logs("1.out")
        reserve = disk / "reserve"
        wait_for(lambda: reserve.exists() and reserve.stat().st_size, "the reserve is held")
        filling = fill(disk)
        out.log(first, NOISE.randbytes(2_000_000))
        out(Note("x" * 5000))
        out.close_logs(first)
        out.send_record(PATCH, b"+x\n")
        out.send_record(BUNDLE, to_json(READY).encode())
        out.close()
        send(running, "supervisor", END)
        running.ended()
        assert running.status == 0
        assert json.loads((running.results / BUNDLE).read_bytes())["outcome"] == "MR_READY"
        (kept,) = running.logs.iterdir()
        assert b"output is left out here: the disk was full" in unpacked(kept)
        filling.unlink()


def test_a_killed_redactor_is_one_error_for_its_sender(tmp_path: Path) -> None:
    with redacting(tmp_path, WORK) as running:
        out = open_channel(running)
        running.process.kill()
        running.process.wait()
        with pytest.raises(NightshiftError, match="the redactor has ended"):
            out(Note("x"))
        out(Note("y"))
        out.close()


def test_a_bug_is_reported_without_its_message(tmp_path: Path) -> None:
    code = f"import sys; sys.path.append({str(PACKAGE)!r})\n"
    code += "from gitlab_nightshift.run.redactor_process import main\n"
    code += "sys.exit(main({'configuration': 0}))"
    argv = [sys.executable, "-I", "-S", "-c", code]
    given = json.dumps({"values": [SECRET], "results": 3}).encode()
    done = subprocess.run(argv, input=given, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (70, b"")
    assert done.stderr == b"nightshift: a defect of the redactor: InvalidRecordError\n"


def test_events_of_several_senders_stay_in_their_order(tmp_path: Path) -> None:
    gateway = replace(WORK, name="gateway", records=(), logs=False)
    with redacting(tmp_path, WORK, gateway) as running:
        notes = [[Note(f"{name} {n}") for n in range(200)] for name in ("work", "gateway")]
        threads = [
            threading.Thread(target=send, args=(running, name, *events))
            for name, events in zip(("work", "gateway"), notes, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        running.ended()
        for events in notes:
            own = [event.text for event in events]
            assert [text for text in running.texts() if text in own] == own


def test_a_sender_without_logs_cannot_write_one(tmp_path: Path) -> None:
    with redacting(tmp_path, replace(WORK, logs=False)) as running:
        out = open_channel(running)
        first = out.open_logs("1.out")
        out.log(first, b"x")
        out.send_text("t.txt", "x")
        out.close()
        running.ended()
        assert list(running.logs.iterdir()) == []
        assert running.texts() == [
            f"{REFUSED}a log, and it has none",
            "work: 3 messages were not accepted",
        ]


def test_a_failing_sink_does_not_affect_others() -> None:
    received: list[Event] = []

    def broken(event: Event) -> None:
        raise OSError(errno.EIO, "Input/output error")

    dispatcher = EventDispatcher({"the job log": broken, "events.jsonl": received.append}, str)
    dispatcher(Note("first"))
    dispatcher(Note("second"))
    why = Note("the job log cannot be written any more: Input/output error", warning=True)
    assert received[-1] == Note("second")
    assert sorted(received[:-1], key=str) == sorted([why, Note("first")], key=str)


def test_run_ended_is_the_last_event_and_unique() -> None:
    received: list[Event] = []
    dispatcher = EventDispatcher({"a": received.append}, lambda text: text.replace("x", "y"))
    dispatcher.end()
    ended = RunEnded(RunResult("1", Outcome.FAILED))
    for event in (ended, Note("x"), RunEnded(RunResult("2", Outcome.MR_CREATED))):
        dispatcher(event)
    dispatcher.end()
    dispatcher(Note("late"))
    dispatcher.end()
    assert received == [Note("y"), ended]


def test_control_characters_are_replaced() -> None:
    assert replace_control_characters("a\tb\nc\r\nd ü \u2028") == "a\tb\nc\nd ü \u2028"
    odd = [chr(code) for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"]
    assert [replace_control_characters(each) for each in odd] == ["\ufffd"] * len(odd)
