"""What machines read of a run: one record, dotenv, JUnit as GitLab reads it."""

import dataclasses
import xml.etree.ElementTree as ET

from gitlab_nightshift.records import (
    AnalysisResult,
    BeadResult,
    BeadStatus,
    Bundle,
    Draft,
    Handoff,
    Outcome,
    Published,
    RunResult,
    Usage,
    Verdict,
)
from gitlab_nightshift.report.result import bead_said, dotenv, junit, run_result
from tests.support.tables import each

URL = "https://gitlab.example.com/acme/shop/-/merge_requests/7"
BEADS = (
    BeadResult("analyze", "tests", 1, "m", BeadStatus.OK, Usage(0.5, 10), 1.25),
    BeadResult("implement", "tests", 2, "m", BeadStatus.IDLE, Usage(), 600, "no output"),
)
BUNDLE = Bundle(
    "4711",
    "2025-11-24T02:00:00+00:00",
    "b" * 40,
    "main",
    Outcome.MR_READY,
    "ready",
    summary="the summary",
    category_used="docs (fallback from tests)",
    is_fallback=True,
    files_scanned=12,
    usage=Usage(1.5, 1000, 0.25, 100),
    duration_s=90.5,
    beads=BEADS,
)


def test_the_run_is_the_bundle_and_what_was_published() -> None:
    published = Published("4711", Outcome.MR_CREATED, "open", "", URL, 7, "n/x", "c" * 40, "T")
    assert run_result(BUNDLE, published) == RunResult(
        run_id="4711",
        outcome=Outcome.MR_CREATED,
        reason="open",
        summary="the summary",
        mr_url=URL,
        branch="n/x",
        base_sha="b" * 40,
        commit_sha="c" * 40,
        category_used="docs (fallback from tests)",
        is_fallback=True,
        files_scanned=12,
        total_cost_usd=1.5,
        total_tokens=1000,
        assumed_cost_usd=0.25,
        assumed_tokens=100,
        total_duration_s=90.5,
        beads=BEADS,
    )


def test_without_publishing_the_outcome_is_the_bundles() -> None:
    result = run_result(BUNDLE, None)
    assert (result.outcome, result.reason) == (Outcome.MR_READY, "ready")
    assert (result.mr_url, result.branch, result.commit_sha) == ("", "", "")


def test_a_failed_publish_is_a_failed_run() -> None:
    failed = Published("4711", Outcome.FAILED, "refused", "E_PUBLISH")
    result = run_result(BUNDLE, failed)
    assert (result.outcome, result.error_code) == (Outcome.FAILED, "E_PUBLISH")


GOOD = RunResult("1", Outcome.MR_CREATED, mr_url=URL, category_used="docs", total_cost_usd=1.5)
HOSTILE = RunResult(
    "1",
    Outcome.FAILED,
    mr_url="a\nGITLAB_TOKEN=x\r\nB=\u2028",
    category_used="a\tb",
    total_cost_usd=None,
)


@each(
    ("result", "values"),
    [
        (GOOD, ["MR_CREATED", URL, "docs", "1.5000"]),
        (HOSTILE, ["FAILED", "a GITLAB_TOKEN=x  B=", "a b", ""]),
    ],
)
def test_dotenv_is_one_line_for_each_key(result: RunResult, values: list[str]) -> None:
    names = ["NIGHT_OUTCOME", "NIGHT_MR_URL", "NIGHT_CATEGORY", "NIGHT_COST_USD"]
    lines = [f"{name}={value}\n" for name, value in zip(names, values, strict=True)]
    assert dotenv(result) == "".join(lines)


def suite(result: RunResult) -> ET.Element:
    return ET.fromstring(junit(result).encode())


def test_junit_has_a_case_for_each_bead_and_one_for_the_night() -> None:
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
def test_junit_is_well_formed_whatever_an_agent_says(text: str) -> None:
    bead = BeadResult(text, text, 1, text, BeadStatus.CRASHED, Usage(), 1, text)
    root = suite(RunResult("1", Outcome.FAILED, "E_X", text, beads=(bead,)))
    assert [case.tag for case in root] == ["testcase", "testcase"]
    assert all(len(failure.text or "") <= 500 for failure in root.iter("failure"))


@each(
    ("handoff", "said"),
    [
        (AnalysisResult("NO_IMPROVEMENT", reason="All is well.\nReally."), "All is well."),
        (Verdict(False, "It breaks x.\nAnd y."), "not passed: It breaks x."),
        (Verdict(True), "passed"),
        (Draft("Test x", "It had no test."), "Test x"),
        (None, "idle for too long"),
    ],
)
def test_a_bead_is_told_by_the_first_line_of_what_it_said(handoff: Handoff, said: str) -> None:
    bead = BeadResult("verify", "tests", 1, "m", BeadStatus.OK, Usage(), 1.0, "idle for too long")
    bead = dataclasses.replace(bead, handoff=handoff)
    assert bead_said(bead) == said
    result = RunResult("1", Outcome.NO_IMPROVEMENT, beads=(bead,))
    assert f"<system-out>{said}</system-out>" in junit(result)
