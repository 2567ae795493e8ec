"""The folder that a run leaves: no secret in it, large logs compressed."""

import dataclasses
import json
from pathlib import Path

import pytest

from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus
from gitlab_nightshift.records.products import ChangeSize, Outcome
from gitlab_nightshift.records.run_results import AgentStatements, RunResult
from gitlab_nightshift.records.storage import read_record
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.stages.report.page import render_page
from gitlab_nightshift.stages.report.report_files import read_patch, write_results
from gitlab_nightshift.system.raw_logs import move_logs

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
    change = ChangeSize(("a",), 1, 0)
    result = dataclasses.replace(result, change=change, said=AgentStatements(text))
    patch = f"diff --git a/a b/a\n@@ -0,0 +1 @@\n+a {secret} b\n"
    write_results(tmp_path, result, patch, Redactor((secret,)))
    names = {"result.json", "report.html", "junit.xml", "nightshift.env", "annotations.json"}
    assert {path.name for path in tmp_path.iterdir()} == names
    for path in tmp_path.iterdir():
        content = path.read_text()
        assert "a [redacted] b" in content or path.name == "annotations.json"
        own = "" if path.name != "report.html" else render_page(RunResult("1", Outcome.FAILED), "")
        for part in ("hunter2", "two\nlines", "two", "xxx", "qu&#34;ote", 'qu"ote', "ünïcode"):
            assert content.count(part) == own.count(part)
    assert read_record(RunResult, tmp_path / "result.json").reason == "a [redacted] b"
    assert json.loads((tmp_path / "result.json").read_text())["outcome"] == "FAILED"


def test_logs_are_moved_to_what_is_there(tmp_path: Path) -> None:
    logs = tmp_path / "raw"
    logs.mkdir()
    for name in ("1.out", "2.out.gz"):
        (logs / name).write_text(name)
        move_logs(logs, tmp_path / "logs")
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["1.out", "2.out.gz"]
    assert list(logs.iterdir()) == []


def test_a_patch_that_is_none_is_empty(tmp_path: Path) -> None:
    assert read_patch(tmp_path) == ""
    (tmp_path / "change.patch").mkdir()
    assert read_patch(tmp_path) == ""
