"""The folder that a run leaves: no secret in it, large logs compressed."""

import gzip
import json
from pathlib import Path

import pytest

from gitlab_nightshift.records import (
    BeadResult,
    BeadStatus,
    Bundle,
    Outcome,
    RunResult,
    Usage,
    read_record,
)
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.report.files import LARGE_LOG, move_logs, named_logs, write_results

SECRETS = ("hunter2", 'qu"ote<&>\\', "two\nlines", "x" * 600, "ünïcode")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("secret", SECRETS)
def test_no_file_holds_a_secret(secret: str, tmp_path: Path) -> None:
    text = f"a {secret} b"
    bead = BeadResult("verify", "tests", 1, "m", BeadStatus.CRASHED, Usage(), 1, text)
    result = RunResult(
        "1", Outcome.FAILED, "E_X", text, text, mr_url=text, category_used=text, beads=(bead,)
    )
    bundle = Bundle("1", "2025", "b" * 40, "main", Outcome.FAILED, text)
    write_results(tmp_path, result, bundle, Redactor((secret,)))
    names = {"result.json", "report.html", "junit.xml", "nightshift.env"}
    assert {path.name for path in tmp_path.iterdir()} == names
    for path in tmp_path.iterdir():
        content = path.read_text()
        assert "a [redacted] b" in content
        for part in ("hunter2", "ote", "two", "lines", "xxx", "code b"):
            assert part not in content.replace("viewport", "").replace("quote", "")
    assert read_record(RunResult, tmp_path / "result.json").reason == "a [redacted] b"
    assert json.loads((tmp_path / "result.json").read_text())["outcome"] == "FAILED"


def test_logs_are_moved_whole_and_without_secrets(logs: Path, tmp_path: Path) -> None:
    (logs / "1.out").write_bytes(b"\xff\x00 the hunter2\n")
    (logs / "1.err").write_bytes(b"")
    move_logs(logs, tmp_path / "out/logs", Redactor(("hunter2",)))
    assert (tmp_path / "out/logs/1.out").read_bytes() == b"\xff\x00 the [redacted]\n"
    assert (tmp_path / "out/logs/1.err").read_bytes() == b""
    assert list(logs.iterdir()) == []


@pytest.mark.parametrize(("size", "packed"), [(LARGE_LOG, False), (LARGE_LOG + 1, True)])
def test_large_logs_are_compressed(size: int, packed: bool, logs: Path, tmp_path: Path) -> None:
    (logs / "1.out").write_bytes(b"." * size)
    move_logs(logs, tmp_path / "logs", Redactor(()))
    (left,) = (tmp_path / "logs").iterdir()
    assert left.name == ("1.out.gz" if packed else "1.out")
    content = gzip.decompress(left.read_bytes()) if packed else left.read_bytes()
    assert content == b"." * size


def test_a_bead_names_its_logs_as_they_are_now(logs: Path, tmp_path: Path) -> None:
    (logs / "1.out").write_bytes(b"." * (LARGE_LOG + 1))
    (logs / "1.err").write_bytes(b"")
    move_logs(logs, tmp_path / "logs", Redactor(()))
    names = ("logs/1.out", "logs/1.err", "logs/never.out")
    bead = BeadResult("verify", "tests", 1, "m", BeadStatus.OK, Usage(), 1, logs=names)
    bundle = Bundle("1", "2025", "b" * 40, "main", Outcome.MR_READY, beads=(bead,))
    named = named_logs(bundle, tmp_path)
    assert named.beads[0].logs == ("logs/1.out.gz", "logs/1.err", "logs/never.out")


def test_moving_again_adds_to_what_is_there(logs: Path, tmp_path: Path) -> None:
    for name in ("1.out", "2.out"):
        (logs / name).write_text(name)
        move_logs(logs, tmp_path / "logs", Redactor(()))
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["1.out", "2.out"]
