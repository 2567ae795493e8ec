"""Logs on their way: what a sender keeps for itself, and what the redactor keeps of it."""

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


def test_a_sender_has_the_use_of_its_logs_and_the_redactor_keeps_them(tmp_path: Path) -> None:
    own = tmp_path / "work"
    own.mkdir()
    with redacting(tmp_path, WORK) as running:
        outlet = OutputChannel(running.pipes.pop("work"))
        logs = SentLogs(own, Redactor(()), Reserve(tmp_path / "own-reserve"), outlet)
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
        outlet.close()
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


def test_records_name_a_log_as_it_is_kept(tmp_path: Path) -> None:
    """It is larger than a plain file before redaction, and none after."""
    bead = READY.beads[3]
    with redacting(tmp_path, WORK) as running:
        outlet = OutputChannel(running.pipes.pop("work"))
        first = outlet.open_logs("1.out", "1.err")
        outlet.log(first, f"{SECRET} ".encode() * (GZIP_MEMBER_BYTES // len(SECRET)))
        outlet.log(first + 1, NOISE.randbytes(GZIP_MEMBER_BYTES).hex().encode())
        outlet.close_logs(first)
        named = ("logs/1.out.gz", "logs/1.err")
        told = type(bead)(**{**vars(bead), "logs": (*named, "logs/2.out.gz")})
        outlet(BeadEnded(told))
        bundle = type(READY)(**{**vars(READY), "beads": (told,)})
        outlet.send_record(BUNDLE, to_json(bundle).encode())
        outlet.close()
        running.ended()
        real = ("logs/1.out", "logs/1.err.gz", "logs/2.out.gz")
        assert {path.name for path in running.logs.iterdir()} == {"1.out", "1.err.gz"}
        assert read_record(Bundle, running.results / BUNDLE).beads[0].logs == real
        (event,) = running.events()
        assert event["result"]["logs"] == list(real)  # type: ignore[index]


def test_only_a_place_of_a_log_is_renamed(tmp_path: Path) -> None:
    logs = received(tmp_path).logs
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


# --- what a hostile sender asks for ---------------------------------------------------------------


def received(folder: Path, taken: set[str] | None = None) -> ReceivedLogs:
    return ReceivedLogs(
        Logs(folder, Redactor(()), Reserve(folder.with_name("reserve"))),
        set() if taken is None else taken,
    )


def ask(**asked: Any) -> bytes:
    return json.dumps(asked).encode()


def test_a_log_belongs_to_one_sender(tmp_path: Path) -> None:
    taken = set[str]()
    ours, theirs = received(tmp_path, taken), received(tmp_path, taken)
    ours.open(ask(first=0, names=["a.out"]))
    ours.write(bytes(8) + b"ours")
    hostile: list[Callable[[], object]] = [
        lambda: theirs.open(ask(first=0, names=["a.out"])),
        lambda: theirs.write(bytes(8) + b"theirs"),
        lambda: theirs.close(ask(first=0)),
        lambda: theirs.rename(ask(old="a.out", new="b.out")),
        lambda: theirs.write_text(ask(name="a.out", text="theirs")),
        lambda: ours.rename(ask(old="a.out", new="b.out")),  # still open
        lambda: ours.open(ask(first=0, names=["c.out"])),  # that number is another's
    ]
    for refused in hostile:
        with pytest.raises(InvalidRecordError):
            refused()
    ours.close(ask(first=0))
    ours.open(ask(first=5, names=["c.out"]))
    ours.close_all()
    for old, new in (("a.out", "c.out"), ("a.out", "../a.out"), ("b.out", "d.out")):
        with pytest.raises(InvalidRecordError):
            ours.rename(ask(old=old, new=new))
    ours.rename(ask(old="a.out", new="b.out"))
    assert (tmp_path / "b.out").read_bytes() == b"ours"
    assert taken == {"b.out", "c.out"}


NAMES = ("report.html", "x.svg", "x.js", "x.out.html", "x.log", "x.out.gz", "x", ".out", "x.OUT")


def test_no_log_is_run_by_the_browser_that_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = received(tmp_path)
    for name in NAMES:
        with pytest.raises(InvalidRecordError, match="invalid log name"):
            logs.write_text(ask(name=name, text="<script>"))
        with pytest.raises(InvalidRecordError, match="invalid log name"):
            logs.open(ask(first=0, names=[name]))
    for name in ("x.out", "x.err", "x.txt", "x.json", "x.jsonl"):
        logs.write_text(ask(name=name, text="x"))
    monkeypatch.setattr(received_files, "_LOG_NAME", re.compile(r".*"))  # the control
    logs.write_text(ask(name="report.html", text="<script>"))
    assert (tmp_path / "report.html").read_text() == "<script>"


def test_logs_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(received_files, "MOST_LOGS", 40)
    monkeypatch.setattr(received_files, "MOST_TEXTS", 3)
    logs = received(tmp_path)
    for number in range(16):
        logs.open(ask(first=number, names=[f"{number}.out"]))
    with pytest.raises(InvalidRecordError, match="more than 16 logs are open"):
        logs.open(ask(first=16, names=["16.out"]))
    logs.close_all()
    for number in range(3):
        logs.write_text(ask(name=f"{number}.txt", text="x"))
    with pytest.raises(InvalidRecordError, match="more than 3 texts"):
        logs.write_text(ask(name="3.txt", text="x"))
    logs.write_text(ask(name="0.txt", text="again"))
    for number in range(16, 37):
        logs.open(ask(first=number, names=[f"{number}.out"]))
        logs.close(ask(first=number))
    with pytest.raises(InvalidRecordError, match="more than 40 logs"):
        logs.open(ask(first=99, names=["99.out"]))
    assert len(os.listdir(tmp_path)) == 40  # noqa: PTH208
    assert (tmp_path / "0.txt").read_text() == "again"
