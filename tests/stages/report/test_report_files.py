"""The folder that a run leaves: no secret in it, large logs compressed."""

import dataclasses
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus, Verdict
from gitlab_nightshift.records.products import ChangeSize, Outcome
from gitlab_nightshift.records.run_results import AgentStatements, AttemptResult, RunResult
from gitlab_nightshift.records.storage import read_record
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.stages.report.page import render_page
from gitlab_nightshift.stages.report.report_files import (
    build_report_url,
    read_patch,
    render_annotations,
    render_junit,
    write_results,
)
from gitlab_nightshift.system.raw_logs import move_logs
from tests.support.pages import HOSTILE, URL, build_full_result
from tests.support.tables import each

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


PROJECT = "https://gitlab.example.com/acme/shop"


def links(result: RunResult, url: str) -> list[tuple[str, str]]:
    whole = json.loads(render_annotations(result, url))
    assert list(whole) == ["Night shift"]
    assert all(list(row) == ["external_link"] for row in whole["Night shift"])
    found = [row["external_link"] for row in whole["Night shift"]]
    return [(row["label"], row["url"]) for row in found]


def test_report_and_merge_request_are_linked() -> None:
    report = build_report_url(PROJECT, "77", "night shift")
    assert report == f"{PROJECT}/-/jobs/77/artifacts/file/night%20shift/report.html"
    made = RunResult("1", Outcome.MR_CREATED, mr_url=URL)
    assert links(made, report) == [("Report of the night", report), ("Merge request", URL)]


def test_only_addresses_are_linked() -> None:
    for url in ("", "javascript:alert(1)", HOSTILE):
        assert links(RunResult("1", Outcome.FAILED, mr_url=url), "") == []
    assert build_report_url("", "77", "nightshift") == build_report_url(PROJECT, "", "n") == ""


BEADS = (
    BeadResult("analyze", "tests", 1, "m", BeadStatus.OK, Usage(0.5, 10), 1.25),
    BeadResult("implement", "tests", 2, "m", BeadStatus.IDLE, Usage(), 600, "no output"),
)


def suite(result: RunResult) -> ET.Element:
    return ET.fromstring(render_junit(result).encode())


def test_there_is_a_case_for_each_bead_and_one_for_the_night() -> None:
    root = suite(RunResult("1", Outcome.MR_CREATED, beads=BEADS, total_duration_s=601.26))
    assert (root.tag, root.attrib) == (
        "testsuite",
        {"name": "nightshift", "tests": "3", "failures": "1"},
    )
    assert [tuple(case.attrib.values()) for case in root] == [
        ("nightshift.analyze", "analyze tests attempt 1", "1.2"),
        ("nightshift.implement", "implement tests attempt 2", "600.0"),
        ("nightshift.night", "MR_CREATED", "601.3"),
    ]
    failures = {case.attrib["name"]: case.findtext("failure") for case in root}
    assert failures == {
        "analyze tests attempt 1": None,
        "implement tests attempt 2": "idle: no output",  # GitLab shows the element's text
        "MR_CREATED": None,
    }
    assert root[1][0].attrib == {"message": "idle: no output"}


@each("outcome", list(Outcome))
def test_only_a_failed_night_is_a_failed_case(outcome: Outcome) -> None:
    root = suite(RunResult("1", outcome, "E_X" if outcome is Outcome.FAILED else "", "why"))
    text = root.findtext("testcase/failure")
    assert text == ("E_X: why" if outcome is Outcome.FAILED else None)


@each(
    "text",
    ["\0\x08\x0b\x1b[31m", "</failure><testcase/>", "\"'&<>]]>", "\ud800 \uffff", "x" * 9999],
)
def test_the_file_is_well_formed_whatever_an_agent_says(text: str) -> None:
    bead = BeadResult(text, text, 1, text, BeadStatus.CRASHED, Usage(), 1, text)
    root = suite(RunResult("1", Outcome.FAILED, "E_X", text, beads=(bead,)))
    assert [case.tag for case in root] == ["testcase", "testcase"]
    assert all(len(failure.text or "") <= 500 for failure in root.iter("failure"))


def test_attempts_commands_evidence_and_flags_are_cases_that_fail_where_they_failed() -> None:
    root = suite(build_full_result("x"))
    found: dict[str, list[bool]] = {}
    for case in root:
        kind = case.attrib["classname"].removeprefix("nightshift.")
        found.setdefault(kind, []).append(case.find("failure") is not None)
    of_level = [False, False, True, False]  # pass, warn, fail, not_known
    assert found["command"] == found["evidence"] == of_level
    assert (found["attempt"], found["flag"]) == ([True], [False])
    assert root.attrib == {
        "name": "nightshift",
        "tests": str(len(root)),
        "failures": str(sum(map(sum, found.values()))),
    }
    attempts = root.findall("*[@classname='nightshift.attempt']")
    assert [case.findtext("failure") for case in attempts] == ["sent back: x"]


def test_an_attempt_that_passed_is_a_passed_case() -> None:
    attempts = (AttemptResult("docs", 1, False, "E_X", "weak"), AttemptResult("docs", 2, True))
    first, second, _night = suite(RunResult("1", Outcome.MR_READY, attempts=attempts))
    assert first.findtext("failure") == "sent back: weak"
    assert second.attrib["name"] == "docs attempt 2"
    assert second.find("failure") is None


def test_what_a_bead_said_is_its_output_in_one_line() -> None:
    verdict = Verdict(False, "It breaks x.\nAnd y.")
    bead = BeadResult("verify", "tests", 1, "m", BeadStatus.OK, Usage(), 1.0, "", verdict)
    text = render_junit(RunResult("1", Outcome.NO_IMPROVEMENT, beads=(bead,)))
    assert "<system-out>not passed: It breaks x.</system-out>" in text


def test_no_text_leaves_its_place() -> None:
    hostile, plain = suite(build_full_result(HOSTILE)), suite(build_full_result("x"))
    assert [each.tag for each in hostile.iter()] == [each.tag for each in plain.iter()]
