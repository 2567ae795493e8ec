"""Logs: the sender's copies, and those that the redactor stores."""

import gzip
import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.records.codec import InvalidRecordError
from gitlab_nightshift.records.events import BeadEnded
from gitlab_nightshift.records.products import Bundle
from gitlab_nightshift.records.storage import read_record, to_json
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.run import received_files
from gitlab_nightshift.run.received_files import ReceivedLogs, with_stored_path
from gitlab_nightshift.system.disk_reserve import Reserve
from gitlab_nightshift.system.raw_logs import GZIP_MEMBER_BYTES, Logs
from gitlab_nightshift.wire.channel import OutputChannel
from gitlab_nightshift.wire.sent_logs import SentLogs
from tests.support.redacting import BUNDLE, SECRET, WORK, redacting
from tests.support.samples import BUNDLE as READY

NOISE = random.Random(11)


def test_a_sender_reads_raw_copies_and_the_redactor_keeps_redacted_ones(tmp_path: Path) -> None:
    own = tmp_path / "work"
    own.mkdir()
    with redacting(tmp_path, WORK) as running:
        channel = OutputChannel(running.pipes.pop("work"))
        logs = SentLogs(own, Redactor(()), Reserve(tmp_path / "own-reserve"), channel)
        with logs.open_logs("a.out", "a.err") as (out, err):
            out.write(b"first\n")
            err.write(f"it is {SECRET}".encode())
        logs.rename("a", "a-first")
        large = NOISE.randbytes(GZIP_MEMBER_BYTES).hex().encode()
        with logs.open_logs("a.out", "a.err") as (out, err):
            out.write(large)
        with pytest.raises(RuntimeError), logs.open_logs("b.out") as (out,):
            out.write(b"until it failed")
            raise RuntimeError
        logs.write("traceback.txt", f"at {SECRET}")
        assert logs.read_tail("a-first.err", 9) == SECRET[-9:].encode(), "work's own are raw"
        assert logs.read_tail("a.out", 5) == large[-5:]
        assert logs.find_log("a.out").name == "a.out.gz"
        channel.close()
        running.ended()
        assert running.texts() == []
        kept = {path.name: path.read_bytes() for path in running.logs.iterdir()}
        assert gzip.decompress(kept.pop("a.out.gz")) == large
        assert kept == {
            "a-first.out": b"first\n",
            "a-first.err": b"it is [redacted]",
            "a.err": b"",
            "b.out": b"until it failed",
            "traceback.txt": b"at [redacted]",
        }


def test_records_have_the_paths_under_which_logs_are_stored(tmp_path: Path) -> None:
    """Before redaction one of them is large enough to be compressed, after it the other one."""
    bead = READY.beads[3]
    with redacting(tmp_path, WORK) as running:
        channel = OutputChannel(running.pipes.pop("work"))
        first = channel.open_logs("1.out", "1.err")
        channel.log(first, f"{SECRET} ".encode() * (GZIP_MEMBER_BYTES // len(SECRET)))
        channel.log(first + 1, NOISE.randbytes(GZIP_MEMBER_BYTES).hex().encode())
        channel.close_logs(first)
        named = ("logs/1.out.gz", "logs/1.err")
        reported = type(bead)(**{**vars(bead), "logs": (*named, "logs/2.out.gz")})
        channel(BeadEnded(reported))
        bundle = type(READY)(**{**vars(READY), "beads": (reported,)})
        channel.send_record(BUNDLE, to_json(bundle).encode())
        channel.close()
        running.ended()
        real = ("logs/1.out", "logs/1.err.gz", "logs/2.out.gz")
        assert {path.name for path in running.logs.iterdir()} == {"1.out", "1.err.gz"}
        assert read_record(Bundle, running.results / BUNDLE).beads[0].logs == real
        (event,) = running.events()
        assert event["result"]["logs"] == list(real)  # type: ignore[index]


def test_only_paths_of_stored_logs_are_corrected(tmp_path: Path) -> None:
    logs = open_received_logs(tmp_path).logs
    (tmp_path / "x.out.gz").touch()
    for text, real in (
        ("logs/x.out", "logs/x.out.gz"),
        ("/builds/shop/nightshift/logs/x.out", "/builds/shop/nightshift/logs/x.out.gz"),
        ("see logs/x.out there", "see logs/x.out there"),
        ("logs/y.out.gz", "logs/y.out.gz"),
        ("logs/../x.out", "logs/../x.out"),
        ("x.out", "x.out"),
        ("logs/x.out\n", "logs/x.out\n"),
    ):
        assert with_stored_path(text, logs, {"x.out"}) == real


# --- hostile senders ------------------------------------------------------------------------------


def open_received_logs(folder: Path, used_names: set[str] | None = None) -> ReceivedLogs:
    return ReceivedLogs(
        Logs(folder, Redactor(()), Reserve(folder.with_name("reserve"))),
        set() if used_names is None else used_names,
    )


def encode(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def test_a_log_belongs_to_one_sender(tmp_path: Path) -> None:
    used_names = set[str]()
    own_logs, other_logs = (
        open_received_logs(tmp_path, used_names),
        open_received_logs(tmp_path, used_names),
    )
    own_logs.open(encode(first=0, names=["a.out"]))
    own_logs.write(bytes(8) + b"ours")
    hostile: list[Callable[[], object]] = [
        lambda: other_logs.open(encode(first=0, names=["a.out"])),
        lambda: other_logs.write(bytes(8) + b"theirs"),
        lambda: other_logs.close(encode(first=0)),
        lambda: other_logs.rename(encode(old="a.out", new="b.out")),
        lambda: other_logs.write_text(encode(name="a.out", text="theirs")),
        lambda: own_logs.rename(encode(old="a.out", new="b.out")),  # still open
        lambda: own_logs.open(encode(first=0, names=["c.out"])),  # that number is another's
    ]
    for refused in hostile:
        with pytest.raises(InvalidRecordError):
            refused()
    own_logs.close(encode(first=0))
    own_logs.open(encode(first=5, names=["c.out"]))
    own_logs.close_all()
    for old, new in (("a.out", "c.out"), ("a.out", "../a.out"), ("b.out", "d.out")):
        with pytest.raises(InvalidRecordError):
            own_logs.rename(encode(old=old, new=new))
    own_logs.rename(encode(old="a.out", new="b.out"))
    assert (tmp_path / "b.out").read_bytes() == b"ours"
    assert used_names == {"b.out", "c.out"}


NAMES = ("report.html", "x.svg", "x.js", "x.out.html", "x.log", "x.out.gz", "x", ".out", "x.OUT")


def test_no_log_has_a_name_that_a_browser_would_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = open_received_logs(tmp_path)
    for name in NAMES:
        with pytest.raises(InvalidRecordError, match="invalid log name"):
            logs.write_text(encode(name=name, text="<script>"))
        with pytest.raises(InvalidRecordError, match="invalid log name"):
            logs.open(encode(first=0, names=[name]))
    for name in ("x.out", "x.err", "x.txt", "x.json", "x.jsonl"):
        logs.write_text(encode(name=name, text="x"))
    monkeypatch.setattr(received_files, "_LOG_NAME", re.compile(r".*"))  # the control
    logs.write_text(encode(name="report.html", text="<script>"))
    assert (tmp_path / "report.html").read_text() == "<script>"


def test_the_number_of_logs_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(received_files, "MOST_LOGS", 40)
    monkeypatch.setattr(received_files, "MOST_TEXTS", 3)
    logs = open_received_logs(tmp_path)
    for number in range(16):
        logs.open(encode(first=number, names=[f"{number}.out"]))
    with pytest.raises(InvalidRecordError, match="more than 16 logs are open"):
        logs.open(encode(first=16, names=["16.out"]))
    logs.close_all()
    for number in range(3):
        logs.write_text(encode(name=f"{number}.txt", text="x"))
    with pytest.raises(InvalidRecordError, match="more than 3 texts"):
        logs.write_text(encode(name="3.txt", text="x"))
    logs.write_text(encode(name="0.txt", text="again"))
    for number in range(16, 37):
        logs.open(encode(first=number, names=[f"{number}.out"]))
        logs.close(encode(first=number))
    with pytest.raises(InvalidRecordError, match="more than 40 logs"):
        logs.open(encode(first=99, names=["99.out"]))
    assert len(os.listdir(tmp_path)) == 40  # noqa: PTH208
    assert (tmp_path / "0.txt").read_text() == "again"
