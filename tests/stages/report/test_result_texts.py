"""What people are told of a run, and whether they are."""

from dataclasses import replace

from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.stages.report.result_texts import build_notification, is_wanted
from tests.support.tables import each

URL = "https://gitlab.example.com/acme/shop/-/merge_requests/7"
OPENED = RunResult(
    "4711",
    Outcome.MR_CREATED,
    mr_url=URL,
    category_used="refactoring (fallback from tests)",
    is_fallback=True,
    total_cost_usd=0.42,
    total_tokens=81_000,
    total_duration_s=725.0,
    project="acme/shop",
    pipeline_url="https://gitlab.example.com/acme/shop/-/pipelines/4711",
    title="Read prices once",
)
FAILED = replace(OPENED, outcome=Outcome.FAILED, error_code="E_TIMEOUT", reason="late", mr_url="")
QUIET = RunResult("4711", Outcome.NO_IMPROVEMENT, reason="All categories exhausted.")
SKIPPED = RunResult("4711", Outcome.SKIPPED, reason="a quiet date")


def test_a_merge_request_is_told_in_words() -> None:
    told = build_notification(OPENED)
    assert (told.title, told.tone) == ("acme/shop: A merge request is open", "success")
    assert told.body.splitlines() == [
        "refactoring (fallback from tests): Read prices once",
        "$0.42, 81k tokens, 12 min",
        URL,
    ]


def test_a_failure_says_why_and_links_to_the_pipeline() -> None:
    told = build_notification(FAILED)
    assert (told.title, told.tone) == ("acme/shop: The night failed", "failure")
    assert told.body.splitlines()[1:] == [
        "E_TIMEOUT: late",
        "$0.42, 81k tokens, 12 min",
        OPENED.pipeline_url,
    ]


def test_an_unknown_cost_is_not_shown_as_zero() -> None:
    assert "cost not known" in build_notification(replace(OPENED, total_cost_usd=None)).body
    assert build_notification(QUIET).body == "All categories exhausted.\nnothing spent, 0 s"


def test_an_incomplete_night_warns() -> None:
    told = build_notification(replace(QUIET, error_code="E_INCOMPLETE", reason="2 of 4 analysed"))
    assert (told.tone, told.body.splitlines()[0]) == ("warning", "E_INCOMPLETE: 2 of 4 analysed")


def test_the_words_of_an_agent_mention_nobody_and_link_nowhere() -> None:
    hostile = "@everyone <!channel> [click](https://evil.example) a\nb\x1b[31m &lt;"
    told = build_notification(replace(OPENED, title=hostile, mr_url=""))
    line = told.body.splitlines()[0]
    for active in ("@e", "<!", "](", "://", "&l", "\x1b"):
        assert active not in line
    assert "everyone" in line and len(told.body.splitlines()) == 3


def test_a_long_title_is_cut() -> None:
    assert len(build_notification(replace(OPENED, title="x" * 5000)).body) < 400


@each(
    ("result", "before", "expected"),
    [
        (OPENED, "", True),
        (FAILED, "FAILED", True),
        (QUIET, "", False),
        (QUIET, "NO_IMPROVEMENT", False),
        (QUIET, "FAILED", True),
        (replace(QUIET, error_code="E_INCOMPLETE"), "NO_IMPROVEMENT", True),
        (SKIPPED, "NO_IMPROVEMENT", True),
        (SKIPPED, "SKIPPED", False),
        (replace(FAILED, error_code="E_TERMINATED", reason="stopped by a signal"), "", False),
        (replace(FAILED, error_code="E_TERMINATED", reason="killed by SIGSEGV; …"), "", True),
        (replace(FAILED, error_code="E_TERMINATED", reason="killed by SIGKILL, …"), "", True),
        (replace(FAILED, error_code="E_TERMINATED", reason="work was killed"), "", True),
    ],
)
def test_changes_are_what_is_worth_a_look(result: RunResult, before: str, expected: bool) -> None:
    assert is_wanted(result, ["changes"], before) is expected


def test_outcomes_are_told_as_asked_for() -> None:
    assert is_wanted(QUIET, ["NO_IMPROVEMENT"])
    assert not is_wanted(QUIET, ["FAILED"])
    stopped = replace(FAILED, error_code="E_INTERRUPTED", reason="stopped by a signal. Go on")
    assert not is_wanted(stopped, ["FAILED"])
