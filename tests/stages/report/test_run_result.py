"""The run as one record, and the dotenv of it."""

import dataclasses

from gitlab_nightshift.records.bead_results import (
    AnalysisCandidate,
    AnalysisResult,
    BeadResult,
    BeadStatus,
    CommandResult,
    Draft,
    Handoff,
    Verdict,
)
from gitlab_nightshift.records.notary_records import NotarizedCommand
from gitlab_nightshift.records.products import (
    Bundle,
    ChangeSize,
    FailedAttemptRecord,
    Outcome,
    Proposal,
    ProposedChange,
    Publication,
)
from gitlab_nightshift.records.run_results import AgentStatements, AttemptResult, RunResult
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.records.verdicts import Check, CheckOutcome, Finding, GatedFile
from gitlab_nightshift.stages.report.run_result import (
    build_run_result,
    describe_bead,
    render_dotenv,
)
from tests.support.notaries import FAILED, PASSED, seen
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
    published = Publication("4711", Outcome.MR_CREATED, "open", "", URL, 7, "n/x", "c" * 40, "T")
    made = build_run_result(BUNDLE, published, "acme/shop", "https://gitlab.example.com/p/4711")
    assert made == RunResult(
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
        project="acme/shop",
        pipeline_url="https://gitlab.example.com/p/4711",
        started_at="2025-11-24T01:58:29+00:00",
        scheduled="tests",
    )


CHOSEN = AnalysisCandidate(("src/a.py",), "Cover a", 2, "It matters")
PROPOSAL = Proposal(
    ProposedChange(("src/a.py",), 3, 4, "a" * 40),
    "docs",
    True,
    AnalysisResult(
        "IMPROVEMENT_FOUND",
        candidates=(CHOSEN, AnalysisCandidate(("src/b.py",), "Cover b", 1)),
        selected=CHOSEN,
    ),
    Draft("Cover a", "Adds a test.", changes="one test", rejected_alternatives=("b: rare",)),
    Verdict(True, commands_run=("make test",), checked=("the sum",)),
    (
        CommandResult("make test", 0, 1.5, output="ok"),
        CommandResult("make again", 0, 2.0, flaky=True),
        CommandResult("make x", None, 3.0, "ended by this program: timeout"),
    ),
    ("a note",),
    tuple(Check("t", seen, "d") for seen in CheckOutcome),
    (Finding("loose", "warn", "src/a.py", 3, "why"), Finding("bad", "fail", "", 0, "why")),
    (GatedFile("ci.yml", "draft", "is run"),),
)


def test_what_was_seen_and_what_was_only_said_are_told_apart() -> None:
    failed = (FailedAttemptRecord("docs", 1, "E_TEST_FAILED", "too weak"),)
    other = FailedAttemptRecord("tests", 1, "E_POLICY_DENY", "too long")
    bundle = dataclasses.replace(BUNDLE, proposal=PROPOSAL, failed_attempts=(other, *failed))
    record = seen(
        bundle,
        NotarizedCommand("make test", (PASSED,)),
        NotarizedCommand("make again", (FAILED, PASSED)),
        NotarizedCommand("make x", (FAILED,), base=FAILED),
        NotarizedCommand("make y", (FAILED,)),
    )
    made = build_run_result(bundle, None, notary=record)
    assert (made.title, made.change) == ("Cover a", ChangeSize(("src/a.py",), 3, 4))
    assert [(each.command, each.level, each.output) for each in made.commands] == [
        ("make test", "pass", ""),
        ("make again", "warn", "exit 1, 2.5 s"),
        ("make x", "warn", "without the change: exit 1, 2.5 s"),
        ("make y", "fail", ""),
    ]
    assert [(each.command, each.level) for each in made.reported] == [
        ("make test", "pass"),
        ("make again", "warn"),
        ("make x", "fail"),
    ]
    assert made.reported[0].output == "ok"
    assert build_run_result(bundle, None).commands == ()
    assert [each.level for each in made.evidence] == ["pass", "fail", "not_known", "not_known"]
    assert [(each.name, each.level) for each in made.flags] == [("loose", "warn"), ("bad", "fail")]
    assert (made.gates, made.notes) == (PROPOSAL.gates, PROPOSAL.notes)
    assert made.attempts == (
        AttemptResult("tests", 1, False, "E_POLICY_DENY", "too long"),
        AttemptResult("docs", 1, False, "E_TEST_FAILED", "too weak"),
        AttemptResult("docs", 2, True),
    )
    assert made.said == AgentStatements(
        summary="Adds a test.",
        reasoning="It matters",
        changes="one test",
        selected=CHOSEN,
        candidates=(AnalysisCandidate(("src/b.py",), "Cover b", 1), CHOSEN),
        rejected_alternatives=("b: rare",),
        checked=("the sum",),
    )


def test_the_title_is_the_merge_requests_where_there_is_one() -> None:
    bundle = dataclasses.replace(BUNDLE, proposal=PROPOSAL)
    published = Publication("4711", Outcome.MR_CREATED, mr_url=URL, title="[night-shift/docs] A")
    assert build_run_result(bundle, published).title == "[night-shift/docs] A"


def test_a_quiet_night_proposes_nothing() -> None:
    made = build_run_result(BUNDLE, None)
    assert (made.change, made.said, made.commands, made.attempts) == (None, None, (), ())


@each(
    ("used", "fallback", "task", "scheduled"),
    [
        ("tests", False, "", "tests"),
        ("docs (fallback from tests)", True, "", "tests"),
        ("none", False, "", ""),
        ("task", False, "Round prices", ""),
        ("odd (fallback from x)", False, "", "odd (fallback from x)"),
    ],
)
def test_the_scheduled_category_is_known(
    used: str, fallback: bool, task: str, scheduled: str
) -> None:
    bundle = dataclasses.replace(BUNDLE, category_used=used, is_fallback=fallback, task=task)
    assert build_run_result(bundle, None).scheduled == scheduled


@each("when", ["", "soon", "0001-01-01T00:00:00+00:00"])
def test_a_start_that_is_not_known_is_empty(when: str) -> None:
    assert build_run_result(dataclasses.replace(BUNDLE, created_at=when), None).started_at == ""


def test_without_publishing_the_outcome_is_the_bundles() -> None:
    result = build_run_result(BUNDLE, None)
    assert (result.outcome, result.reason) == (Outcome.MR_READY, "ready")
    assert (result.mr_url, result.branch, result.commit_sha) == ("", "", "")


def test_a_failed_publish_is_a_failed_run() -> None:
    failed = Publication("4711", Outcome.FAILED, "refused", "E_PUBLISH")
    result = build_run_result(BUNDLE, failed)
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
    assert render_dotenv(result) == "".join(lines)


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
    assert describe_bead(bead) == said
