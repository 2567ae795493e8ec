"""Replies in a thread: they say what happened, and trigger nothing."""

import dataclasses
import difflib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.gitlab.threads import (
    ReplyMarker,
    UpkeepMarker,
    read_reply_marker,
    read_upkeep_marker,
    write_reply_marker,
)
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.bead_results import (
    AnalysisResult,
    CommandResult,
    Draft,
    ThreadAnswer,
    Verdict,
)
from gitlab_nightshift.records.notary_records import NotarizedCommand, NotaryRecord
from gitlab_nightshift.records.products import (
    Bundle,
    Outcome,
    Proposal,
    ProposedChange,
    Publication,
)
from gitlab_nightshift.records.request import CommentAddress, DiffSpot, TaskRequest
from gitlab_nightshift.stages.publish import thread_reply
from gitlab_nightshift.stages.publish.thread_reply import render_suggestion
from gitlab_nightshift.stages.report.run_result import build_run_result
from tests.support.notaries import PASSED, seen

JOB = JobFacts(run_id="4711", pipeline_url="https://gitlab.example/acme/shop/-/pipelines/4711")
ISSUE, MERGE_REQUEST = CommentAddress("issues", 3, 301), CommentAddress("merge_requests", 5, 301)
REQUEST = TaskRequest(ISSUE, "Do it", author="Ada")
PROPOSAL = Proposal(
    change=ProposedChange(("a.py",), 3, 1, "t"),
    category="task",
    is_fallback=False,
    analysis=AnalysisResult("IMPROVEMENT_FOUND"),
    draft=Draft("A title", "A summary"),
    verdict=Verdict(True),
    commands=(CommandResult("make test", 0, 1.0), CommandResult("make lint", 2, 1.0)),
)
BUNDLE = Bundle("4711", "", "b", "main", Outcome.MR_READY, proposal=PROPOSAL)
DONE = Publication("4711", Outcome.MR_CREATED, mr_iid=7, mr_url="u", commit_sha="c" * 40)
NASTY = (
    "/close\n/merge @all #1 !2 ~bug Closes #3 <!-- x --> ![i](http://x/y.png) https://evil.example"
)


def ended(
    place: CommentAddress = ISSUE,
    published: Publication | None = DONE,
    proposal: dict[str, Any] | None = None,
    patch: str = "",
    notary: NotaryRecord | None = None,
    **bundle: Any,
) -> str:
    changed = dataclasses.replace(PROPOSAL, **(proposal or {}))
    made = dataclasses.replace(BUNDLE, **{"proposal": changed, **bundle})
    result = build_run_result(made, published, notary=notary)
    run = thread_reply.RunEnding(result, made, published, patch)
    asked = dataclasses.replace(REQUEST, place=place)
    return thread_reply.render_result_reply(run, asked, place, JOB)


def harmless(text: str) -> None:
    """Nothing of it acts or refers; the links are this program's own."""
    told, _, mark = text.rpartition("\n\n")
    assert read_reply_marker(mark)
    assert "<!--" not in told
    told = re.sub(r"(`+).+?\1", "", told)  # code neither acts nor refers
    assert not re.search(r"@\w", told)
    assert not re.search(r"(?<![&\w])[#!~]\w", told.replace("!7", ""))
    assert not any(line.startswith("/") for line in told.splitlines())
    assert set(re.findall(r"https?://[^\s)]+", told)) <= {JOB.pipeline_url}


def test_it_has_begun() -> None:
    text = thread_reply.render_started_reply(REQUEST, ISSUE, JOB)
    assert text.startswith(
        "The night shift is working on this for Ada, in [this pipeline](https://"
    )
    assert read_reply_marker(text) == ReplyMarker("started", 301, "4711")


def test_what_this_program_does_unasked_is_counted() -> None:
    place = CommentAddress("merge_requests", 5, 0)
    request = TaskRequest(place, "Repair it", upkeep="repair")
    begun = thread_reply.render_started_reply(request, place, JOB)
    assert begun.startswith(
        "The night shift is looking into the failed pipeline, in [this pipeline]("
    )
    run = thread_reply.RunEnding(build_run_result(BUNDLE, DONE), BUNDLE, DONE)
    for text in (begun, thread_reply.render_result_reply(run, request, place, JOB)):
        assert read_upkeep_marker(text) == UpkeepMarker("repair", "4711")
    assert read_upkeep_marker(thread_reply.render_started_reply(REQUEST, ISSUE, JOB)) is None


def test_a_merge_request_was_opened() -> None:
    text = ended()
    assert text.startswith("The night shift has opened !7.")
    assert "- `make test`: passed\n- `make lint`: failed" in text
    assert f"[Log and report]({JOB.pipeline_url})." in text
    assert read_reply_marker(text) == ReplyMarker("done", 301, "4711")


def test_a_commit_was_added() -> None:
    assert ended(MERGE_REQUEST).startswith(f"The night shift has added the commit {'c' * 12}.")


def test_each_thread_is_told_what_is_for_it() -> None:
    """Files that did not change are not named; words of an agent neither act nor refer."""
    there = [CommentAddress("merge_requests", 5, note) for note in (301, 302, 303)]
    request = dataclasses.replace(REQUEST, place=there[0], also=tuple(there[1:]), upkeep="review")
    said = ThreadAnswer(1, "Done.", ("a.py", "b.py")), ThreadAnswer(3, NASTY)
    made = dataclasses.replace(BUNDLE, answers=said)
    run = thread_reply.RunEnding(build_run_result(made, DONE), made, DONE)
    texts = [thread_reply.render_result_reply(run, request, place, JOB) for place in there]
    commit = f"The night shift has added the commit {'c' * 12}"
    assert texts[0].startswith(f"{commit}, for this thread in `a.py`.\n\nDone.\n\nRun on")
    assert texts[1].startswith(f"{commit}.\n\nRun on the change, as the work job reports:")
    assert texts[2].startswith(f"{commit}, none of it for this thread.\n\n\\/close\n")
    for text in texts:
        harmless(text)


@pytest.mark.parametrize(
    ("outcome", "code", "said"),
    [
        (Outcome.NO_IMPROVEMENT, "", "done"),
        (Outcome.FAILED, "E_TIMEOUT", "failed"),
        (Outcome.SKIPPED, "", "failed"),
    ],
)
def test_an_answer_without_a_commit(outcome: Outcome, code: str, said: str) -> None:
    """It is told only where the run came to its own end."""
    answers = (ThreadAnswer(1, "It is a sum."),)
    text = ended(published=None, outcome=outcome, error_code=code, answers=answers)
    begun = text.startswith("The night shift has changed nothing.\n\nIt is a sum.")
    assert begun == ("It is a sum." in text) == (said == "done")
    assert read_reply_marker(text) == ReplyMarker(said, 301, "4711")  # type: ignore[arg-type]


def test_a_dry_run_is_done() -> None:
    text = ended(published=None)
    assert "nothing was pushed. The night shift would propose this: A title (`a.py`, +3 -1)" in text
    assert read_reply_marker(text) == ReplyMarker("done", 301, "4711")


def test_a_dry_run_shows_its_patch_and_nothing_else_does() -> None:
    patch = "+@ada see #1\n+/close\n+```\n+<!-- x -->"
    dry = ended(published=None, patch=patch)
    assert "````diff\n+@ada see #1\n" in dry and "\n+/close\n" in dry
    assert dry.endswith(ended(published=None).rpartition("\n\n")[2])
    assert "too long for a comment" in ended(published=None, patch="+x\n" * 20_000)
    failed = ended(published=None, patch=patch, error_code="E_VERIFY", outcome=Outcome.FAILED)
    for text in (ended(patch=patch), failed):
        assert "diff" not in text, text


def test_no_test_was_run() -> None:
    assert "No test was run on the change." in ended(proposal={"commands": ()})


def test_whose_word_it_is_that_a_test_ran() -> None:
    record = seen(BUNDLE, NotarizedCommand("make test", (PASSED,)))
    assert "Run on the change:\n\n- `make test`: passed\n" in ended(notary=record)
    assert "as the work job reports:\n\n- `make test`: passed\n- `make lint`: failed" in ended()


def test_a_change_that_waits_is_no_dry_run() -> None:
    waits = dataclasses.replace(
        DONE, outcome=Outcome.MR_READY, error_code="E_INCOMPLETE", reason="nobody has seen it run"
    )
    text = ended(published=waits)
    assert text.startswith("The night shift could not do this (`E_INCOMPLETE`): nobody has seen")
    assert read_reply_marker(text) == ReplyMarker("failed", 301, "4711")


@pytest.mark.parametrize(
    ("outcome", "code"), [(Outcome.FAILED, "E_TIMEOUT"), (Outcome.SKIPPED, ""), (None, "E_PUBLISH")]
)
def test_it_was_not_done(outcome: Outcome | None, code: str) -> None:
    published = dataclasses.replace(
        DONE, outcome=outcome or Outcome.FAILED, error_code=code, reason="it was late.\nSecond line"
    )
    text = ended(published=published)
    assert text.startswith("The night shift could not do this")
    assert "it was late.\n" in text
    assert "Second" not in text
    assert (f"`{code}`" in text) == bool(code)
    assert read_reply_marker(text) == ReplyMarker("failed", 301, "4711")


def test_hostile_words_stay_words() -> None:
    failed = dataclasses.replace(DONE, outcome=Outcome.FAILED, reason=NASTY, error_code="E_X")
    harmless(ended(published=failed))
    draft = Draft(NASTY, NASTY)
    change = ProposedChange((NASTY.replace("\n", " "),), 1, 0, "t")
    commands = (CommandResult(NASTY, 0, 1.0),)
    harmless(ended(published=None, proposal={"draft": draft, "change": change}))
    harmless(ended(published=None, proposal={"commands": commands}))
    harmless(thread_reply.render_declined_reply(NASTY, ISSUE, JOB))
    nasty = dataclasses.replace(REQUEST, author=NASTY)
    harmless(thread_reply.render_started_reply(nasty, ISSUE, JOB))


def test_a_server_without_a_name_is_linked() -> None:
    url = "http://[::1]:8080/acme/shop/-/pipelines/4711"
    job = JobFacts(run_id="4711", pipeline_url=url)
    assert f"in [this pipeline]({url})" in thread_reply.render_started_reply(REQUEST, ISSUE, job)


def test_an_address_that_is_none_is_no_link() -> None:
    job = JobFacts(run_id="4711", pipeline_url="javascript:alert(1)")
    assert "javascript" not in thread_reply.render_started_reply(REQUEST, ISSUE, job)


@given(st.text())
def test_any_reason_leaves_the_marker_alone(why: str) -> None:
    forged = f"{why}<!-- nightshift-reply: done note 1 run 1 -->{why}"
    text = thread_reply.render_declined_reply(forged, ISSUE, JOB)
    assert read_reply_marker(text) == ReplyMarker("declined", 301, "4711")


@pytest.mark.parametrize("text", ["", "<!-- nightshift-reply: x note 1 run 1 -->", "note 1 run 1"])
def test_no_marker(text: str) -> None:
    assert read_reply_marker(text) is None


def test_a_marker_is_read_as_it_was_written() -> None:
    made = ReplyMarker("started", 2**62, "4711")
    assert read_reply_marker(f"text\n\n{write_reply_marker(made)}") == made


OLD = [f"line {number}" for number in range(1, 301)]
SPOT = DiffSpot("a.py", 150, 20, 290)


def diff(new: list[str], around: int = 100, path: str = "a.py") -> str:
    """As git writes it."""
    lines = difflib.unified_diff(OLD, new, f"a/{path}", f"b/{path}", n=around, lineterm="")
    return "\n".join([f"diff --git a/{path} b/{path}", "index 1..2 100644", *lines, ""])


def suggested(new: list[str], spot: DiffSpot | None = SPOT) -> str:
    return render_suggestion(diff(new, 3), diff(new), spot)


def applied(text: str, line: int = SPOT.line) -> list[str]:
    """What GitLab makes of the file."""
    head, *lines, end = text.split("\n")
    above, below = head.removeprefix("```suggestion:-").split("+")
    assert end == "```"
    return [*OLD[: line - int(above) - 1], *lines, *OLD[line + int(below) :]]


@pytest.mark.parametrize(
    "new",
    [
        [*OLD[:149], "other", *OLD[150:]],
        [*OLD[:149], *OLD[150:]],
        [*OLD[:150], "more", "\tand more", *OLD[150:]],
        [*OLD[:99], "x", *OLD[99:199], *OLD[202:]],
        [*OLD[:60], *OLD[65:240], "y", *OLD[240:]],
    ],
)
def test_what_gitlab_makes_of_a_suggestion_is_the_change(new: list[str]) -> None:
    assert applied(suggested(new)) == new


@pytest.mark.parametrize(
    "new",
    [
        [*OLD[:10], "not shown", *OLD[10:]],
        [*OLD[:40], "too far above", *OLD[40:]],
        [*OLD[:149], "```", *OLD[150:]],
        [*OLD[:149], "/close", *OLD[150:]],
        [*OLD[:149], "<!-- nightshift-upkeep: repair run 1 -->", *OLD[150:]],
        [*OLD[:149], "zero\u200bwidth", *OLD[150:]],
    ],
)
def test_what_cannot_be_one_is_a_folded_patch(new: list[str]) -> None:
    """Of lines that the diff does not show, or with text that would act or hide."""
    text = suggested(new)
    assert "suggestion:" not in text
    assert text.startswith("<details><summary>The patch is in the artifacts: bundle/change.patch<")
    assert "<!--" not in text
    assert not any(line.startswith("/") for line in text.split("\n"))


def test_a_thread_elsewhere_and_a_long_patch() -> None:
    new = [*OLD[:149], "other", *OLD[150:]]
    assert "```diff\ndiff --git" in suggested(new, None)
    assert "```diff\ndiff --git" in suggested(new, DiffSpot("b.py", 150, 20, 290))
    assert "artifacts" in suggested([f"{line * 20}" for line in OLD], None).split("\n")[0]
    assert len(suggested([line * 50 for line in OLD], None)) < 200


def test_a_change_of_two_files_is_none_although_the_first_is_the_commented_one() -> None:
    new = [*OLD[:149], "other", *OLD[150:]]
    both = diff(new, 3) + diff(new, 3, "b.py")
    assert "```diff\ndiff --git" in render_suggestion(both, both, SPOT)
