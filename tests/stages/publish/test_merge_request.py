"""Title, description, labels and slug from a bundle alone."""

import dataclasses
import itertools
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.marker import Marker, compute_fingerprint, read_marker
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.bead_results import (
    AnalysisCandidate,
    AnalysisResult,
    CommandResult,
    Draft,
    Verdict,
)
from gitlab_nightshift.records.notary_records import NotarizedCommand, NotarizedRun, NotaryRecord
from gitlab_nightshift.records.products import (
    Bundle,
    FailedAttemptRecord,
    Outcome,
    Proposal,
    ProposedChange,
)
from gitlab_nightshift.records.usage import ToolCall, ToolUse
from gitlab_nightshift.records.verdicts import Check, CheckOutcome, Finding
from gitlab_nightshift.settings.load import build_settings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.publish import merge_request as texts
from gitlab_nightshift.stages.publish.description import render_description
from gitlab_nightshift.stages.publish.merge_request import build_subject, format_commit_message
from tests.support.notaries import FAILED, PASSED, seen

JOB = JobFacts(pipeline_url="https://gitlab.example/g/p/-/pipelines/4711")
CHOSEN = AnalysisCandidate(("src/parser.py",), "Cover the parser's errors", 1, "They matter most")
OTHER = AnalysisCandidate(("src/cache.py", "src/b.py"), "Cover the cache", 2, "Rarely used")
SYMBOLS = ("test_parse",)
PROPOSAL = Proposal(
    change=ProposedChange(("tests/test_parser.py",), 12, 3, "a" * 40),
    category="tests",
    is_fallback=False,
    analysis=AnalysisResult("IMPROVEMENT_FOUND", candidates=(OTHER, CHOSEN), selected=CHOSEN),
    draft=Draft(
        title="Cover the parser's errors",
        summary="Adds two tests.",
        branch_slug="cover-parser-errors",
        commit_message="Cover the parser's errors",
        reasoning="It had none.",
        changes="- two tests",
        rejected_alternatives=("The cache: rarely used",),
    ),
    verdict=Verdict(True, commands_run=("pytest tests/test_parser.py",)),
    commands=(CommandResult("make test", 0, 12.34), CommandResult("make slow", None, 60.0)),
    notes=("On the untouched checkout this failed already: `make x`",),
    symbols=SYMBOLS,
)
BUNDLE = Bundle(
    run_id="4711",
    created_at="2026-03-02T01:02:03+00:00",
    base_sha="b" * 40,
    target_branch="main",
    outcome=Outcome.MR_READY,
    category_used="tests",
    proposal=PROPOSAL,
)


@dataclasses.dataclass(frozen=True)
class DoubtingVerdict(Verdict):
    """A verdict of a Verify that says what it is not sure of."""

    doubts: tuple[str, ...] = ()


def drafted(**changes: Any) -> Proposal:
    return dataclasses.replace(PROPOSAL, draft=dataclasses.replace(PROPOSAL.draft, **changes))


SEEN = seen(BUNDLE, NotarizedCommand("make test", (PASSED,)), isolation="namespaces")


def body(
    proposal: Proposal = PROPOSAL,
    bundle: Bundle = BUNDLE,
    job: JobFacts = JOB,
    notary: NotaryRecord | None = SEEN,
) -> str:
    return render_description(bundle, proposal, job, texts.build_marker(bundle, proposal), notary)


def title(proposal: Proposal = PROPOSAL, **settings: Any) -> str:
    return texts.format_title(BUNDLE, proposal, build_settings(settings))


EXPECTED = """\
## Summary

Adds two tests.

**`make test` passed · 15 lines, 1 file**

## Reasoning

It had none.

<details>
<summary>Candidates considered</summary>

1. Cover the parser's errors (`src/parser.py`) **(chosen)**
2. Cover the cache (`src/cache.py`, `src/b.py`)

Why not the others:

- The cache: rarely used

</details>

## Changes

- two tests

- `tests/test_parser.py`

## Verification

- On the untouched checkout this failed already: `make x`

<details>
<summary>How it was run</summary>

The files of this change were checked when it was published.

This program ran, on commit `bbbbbbbbbbbb` with only this change applied, in a process that had \
read nothing of an agent:

- `make test`: exit 0, 12.3 s

The Verify bead, a second agent, approved the change. What it ran is unknown.

These commands ran in the sandbox namespaces.

Agents and commands ran without a sandbox (`isolation: none`).

</details>

---

Opened by the night shift in [this pipeline](https://gitlab.example/g/p/-/pipelines/4711). \
Not useful? Close it with a short reason, and it is not proposed again.

<!-- nightshift: {"run_id": "4711", "category": "tests", "idea": "IDEA", \
"symbols": ["test_parse"], "digest": ""} -->
"""


def test_the_whole_description() -> None:
    idea = compute_fingerprint("tests", PROPOSAL.change.files, SYMBOLS)
    assert body() == EXPECTED.replace("IDEA", idea)
    assert read_marker(body()) == Marker("4711", "tests", idea, SYMBOLS)


def test_nothing_ran_is_said_plainly() -> None:
    proposal = dataclasses.replace(PROPOSAL, notes=(), verdict=Verdict(True))
    text = body(proposal, notary=seen(BUNDLE))
    assert text.count("run on it") == 1
    assert "**Nothing was run on it · 15 lines, 1 file**" in text
    assert "This program ran" not in text
    assert "pytest" not in text


def list_visible(text: str) -> list[str]:
    """The lines that nobody has to unfold."""
    return re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL).splitlines()


def test_a_reviewer_reads_each_thing_once() -> None:
    checks = (
        Check("The untouched checkout", CheckOutcome.PASSED, "the same commands passed before"),
        Check("Planted faults (canaries)", CheckOutcome.NOT_CHECKED, "no fault was found"),
        Check("The tests that ran", CheckOutcome.PASSED, "`make test`: 1 before, 3 with it"),
        Check("The new tests", CheckOutcome.PASSED, "8 of 8 planted faults found"),
    )
    draft = dataclasses.replace(PROPOSAL.draft, changes="- `tests/test_parser.py`: two tests")
    text = body(dataclasses.replace(PROPOSAL, checks=checks, draft=draft))
    visible = "\n".join(list_visible(text))
    for once in ("passed", "tests/test_parser.py", "1 file", "8 of 8"):
        assert visible.count(once) == 1, once
    for folded in ("Verify bead", "namespaces", "sandbox", "canaries", "`bbbbbbbbbbbb`"):
        assert folded in text and folded not in visible, folded
    assert "- The tests that ran: `make test`: 1 before, 3 with it" in visible


@pytest.mark.parametrize(
    "path", ["a/tests/test_parser.py", "tests/test_parser.py2", "test_parser.py"]
)
def test_a_file_that_the_draft_does_not_name_is_listed(path: str) -> None:
    change = ProposedChange((path, "tests/test_parser.py"), 12, 3, "a" * 40)
    draft = dataclasses.replace(PROPOSAL.draft, changes="- `tests/test_parser.py`: two tests")
    text = body(dataclasses.replace(PROPOSAL, change=change, draft=draft))
    changes = text.partition("## Changes\n\n")[2].partition("\n\n## ")[0]
    assert changes == f"- `tests/test_parser.py`: two tests\n\nAlso changed:\n\n- `{path}`"


def test_what_did_not_simply_pass_is_not_folded() -> None:
    commands = (
        NotarizedCommand("make test", (FAILED, PASSED)),
        NotarizedCommand("make lint", (FAILED,), base=NotarizedRun(2, 1.0)),
        NotarizedCommand("make fmt", (PASSED,)),
    )
    visible = list_visible(body(notary=seen(BUNDLE, *commands)))
    rows = [line for line in visible if line.startswith("- `make ")]
    assert [row.partition(":")[0] for row in rows] == ["- `make test`", "- `make lint`"]
    assert "- `make slow`: did not end, 60.0 s" in list_visible(body(notary=None))


def test_tests_that_nothing_ran_are_not_folded() -> None:
    checks = (Check("Tests", CheckOutcome.NOT_CHECKED, "the program ran no test: there is none."),)
    visible = list_visible(body(dataclasses.replace(PROPOSAL, checks=checks)))
    assert "- Not checked: Tests: the program ran no test: there is none." in visible


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (ToolUse("gateway"), "It read the change and ran nothing."),
        (
            ToolUse("gateway", (ToolCall("Bash", "make <b>`x`", "ok"),)),
            "Its model asked for these commands: `` make <b>`x` `` (ok, as its CLI reports).",
        ),
        (
            ToolUse("cli", (ToolCall("Bash", "make"), ToolCall("Bash", "", "failed")), 4),
            "Its CLI reports these commands: `make` (without a result), `Bash` (failed), 4 more.",
        ),
    ],
)
def test_what_verify_ran_is_what_was_seen(tools: ToolUse, said: str) -> None:
    """Its own claim is not repeated."""
    text = body(dataclasses.replace(PROPOSAL, verify_tools=tools))
    assert f"approved the change. {said}\n" in text
    assert "pytest" not in text


def test_doubts_are_shown_as_text() -> None:
    """Among what the reviewer is asked to look at, before all reasoning."""
    verdict = Verdict(True, doubts=("Is <b> right?", "", "/close @all"))
    text = body(dataclasses.replace(PROPOSAL, verdict=verdict))
    listed = text.partition("Please look at:\n\n")[2].partition("\n\n")[0].split("\n")
    doubted = [line for line in listed if line.endswith(" (the second agent doubts this)")]
    assert [line[:2] for line in doubted] == ["- ", "- "]
    assert doubted[0].startswith("- Is &lt;b&gt; right? ")
    assert "@all" not in text


def test_what_was_seen_and_what_was_not() -> None:
    """Names of files and tests come from the change: they are hostile data, too."""
    checks = (
        Check("The new tests", CheckOutcome.PASSED, "7 of 8 planted mistakes found"),
        Check("Benchmark", CheckOutcome.NOT_CHECKED, "nothing was measured: there is no benchmark"),
        Check("Tests", CheckOutcome.FAILED, "`x` fails\n/merge\n@all ![](https://e.example/x.png)"),
    )
    told = (Finding("broken-link", "warn", "docs/`a`.md", 3, "No file `@all` /approve."),)
    lines = body(dataclasses.replace(PROPOSAL, checks=checks, findings=told)).splitlines()
    assert "measured independently: 7 of 8 planted mistakes found**" in lines[4]
    assert "- Not checked: Benchmark: nothing was measured: there is no benchmark" in lines
    (failed,) = [line for line in lines if line.startswith("- Failed: Tests: ")]
    assert "![" not in failed
    assert "Please look at:" in lines
    assert not [line for line in lines if line.lstrip("- ").startswith(("/merge", "/approve"))]
    assert not re.search(r"(?<!\w)@all", "\n".join(lines).replace("`@all`", ""))


def test_the_summary_says_what_proves_it_and_what_is_doubted() -> None:
    checks = (
        Check("The untouched checkout", CheckOutcome.PASSED, "the same commands passed before"),
        Check("The new tests", CheckOutcome.PASSED, "7 of 8 planted mistakes found; not: x"),
        Check("Benchmark", CheckOutcome.NOT_CHECKED, "there is none"),
    )
    verdict = DoubtingVerdict(True, doubts=("Is 10 kg right?\n/merge @all",))
    summary = body(dataclasses.replace(PROPOSAL, checks=checks, verdict=verdict))
    summary = summary.partition("## Reasoning")[0]
    said = "measured independently: 7 of 8 planted mistakes found"
    line = f"**`make test` passed · 15 lines, 1 file · {said}**"
    assert line in summary.splitlines()
    assert "- Is 10 kg right? /merge " in summary
    assert "(the second agent doubts this)" in summary
    assert not [each for each in summary.splitlines() if each.startswith("/merge")]
    none = body(dataclasses.replace(PROPOSAL, checks=()), notary=seen(BUNDLE))
    assert "**Nothing was run on it · 15 lines, 1 file**" in none.splitlines()


def test_what_only_the_work_job_says_is_called_that() -> None:
    """Nobody else has seen it: neither what ran nor the summary's line is this program's word."""
    text = body(notary=None)
    assert "The work job reports, for commit `bbbbbbbbbbbb` with only this change applied:" in text
    assert "- `make slow`: did not end, 60.0 s" in text
    assert "**15 lines, 1 file · the work job reports: `make test` passed**" in text
    assert "This program ran" not in text
    none = body(dataclasses.replace(PROPOSAL, commands=()), notary=None)
    assert "**15 lines, 1 file · the work job reports: nothing was run on it**" in none


def test_each_run_of_a_command_is_told() -> None:
    """One that was flaky, one that fails without the change as well, and what was not as before."""
    commands = (
        NotarizedCommand("make test", (FAILED, PASSED)),
        NotarizedCommand("make lint", (FAILED,), base=NotarizedRun(2, 1.0)),
    )
    text = body(notary=seen(BUNDLE, *commands, unrestored=("node_modules/x",)))
    flaky = "- `make test`: exit 1, 2.5 s, then exit 0, 12.3 s (flaky before the change)"
    assert f"{flaky}\n- `make lint`: exit 1, 2.5 s; without the change: exit 2, 1.0 s" in text
    assert "**`make test` passed · 15 lines" in text
    assert "so results that depend on those prove nothing (node\\_modules/x)." in text


def test_attempts_that_were_sent_back_are_folded() -> None:
    failed = FailedAttemptRecord("tests", 1, "E_TEST_FAILED", "Too weak: `x`\n\n</details>")
    text = body(bundle=dataclasses.replace(BUNDLE, failed_attempts=(failed,) * 20))
    fold = text.partition("<summary>Attempts that were rejected</summary>\n\n")[2]
    rows = fold.partition("\n\n</details>")[0].splitlines()
    assert rows == ["- tests, attempt 1: Too weak: `x`"] * 10
    assert body().count("<details>") == 2
    assert text.count("<details>") == text.count("</details>") == 3


def test_no_cost_is_told() -> None:
    assert not re.search(r"\$|USD|token", body())


def test_terse_draft() -> None:
    proposal = dataclasses.replace(
        PROPOSAL,
        draft=Draft(title="T", summary="S"),
        analysis=AnalysisResult("IMPROVEMENT_FOUND", selected=CHOSEN),
    )
    text = body(proposal, job=JobFacts())
    assert "They matter most" in text
    assert "Candidates considered" not in text
    assert "Why not the others" not in text
    assert "Opened by the night shift, run `4711`." in text


def test_an_agent_cannot_play_our_sections() -> None:
    lie = 'Fine.\n\n## Verification\n\nAll passed.\n\n<!-- nightshift: {"run_id": "1"} -->'
    text = body(drafted(summary=lie, reasoning=lie, changes=lie, rejected_alternatives=(lie,)))
    parsed = MarkdownIt("commonmark").parse(text)
    pairs = itertools.pairwise(parsed)
    names = [after.content for each, after in pairs if each.type == "heading_open"]
    assert names == ["Summary", "Reasoning", "Changes", "Verification"]
    assert text.count("<!--") == 1
    marker = read_marker(text)
    assert marker and marker.run_id == "4711"


def test_a_pipeline_address_that_is_none_is_not_linked() -> None:
    job = JobFacts(pipeline_url="https://e.invalid/x) [y](javascript:alert(1)")
    assert "javascript" not in body(job=job)


def test_a_server_without_a_name_is_linked() -> None:
    url = "http://[::1]:8080/acme/shop/-/pipelines/4711"
    assert f"Opened by the night shift in [this pipeline]({url})." in body(
        job=JobFacts(pipeline_url=url)
    )


def test_many_files_are_cut() -> None:
    files = tuple(f"f{n}" for n in range(60))
    proposal = dataclasses.replace(PROPOSAL, change=ProposedChange(files, 1, 1, "a" * 40))
    assert "- and 10 more" in body(proposal)


@given(st.text(min_size=1, max_size=300))
def test_any_draft_keeps_the_shape(text: str) -> None:
    proposal = drafted(title=text, summary=text, reasoning=text, changes=text)
    parsed = MarkdownIt("commonmark").parse(body(proposal))
    assert [each.type for each in parsed].count("heading_open") == 4
    done = title(proposal)
    assert done.startswith("[night-shift/tests] ")
    assert len(done.splitlines()) == 1
    assert len(done) <= 255


@pytest.mark.parametrize(
    ("drafted_title", "expected"),
    [
        ("Cover it.", "[night-shift/tests] Cover it"),
        ("[night-shift/tests] Cover it", "[night-shift/tests] Cover it"),
        ("Draft: WIP: Cover it", "[night-shift/tests] Cover it"),
        ("(draft) Cover\nit", "[night-shift/tests] Cover it"),
        ("Closes #3 for @ada", "[night-shift/tests] Closes – # 3 for @ ada"),
        ("{{run_id}}", "[night-shift/tests] {{run_id}}"),
        ("…", "[night-shift/tests] …"),
        (".", "[night-shift/tests] Improve tests/test_parser.py"),
    ],
)
def test_title(drafted_title: str, expected: str) -> None:
    assert title(drafted(title=drafted_title)) == expected


def test_title_settings() -> None:
    assert title(draft=True) == "Draft: [night-shift/tests] Cover the parser's errors"
    template = "ABC-1 {{category}}/{{run_id}}: {{title}} \\{{x}}"
    assert title(title_template=template) == "ABC-1 tests/4711: Cover the parser's errors {{x}}"
    long = title(drafted(title="x" * 300), title_template="y" * 200 + "{{title}}")
    assert len(long) == 255
    assert long.endswith("x…")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("title_template", "{{titel}}"),
        ("title_template", "{{message}}"),
        ("commit_template", "{{body}}"),
    ],
)
def test_settings_that_cannot_be_used(key: str, value: str) -> None:
    with pytest.raises(NightshiftError) as error:
        texts.check_templates(build_settings({key: value}))
    assert error.value.code is Code.CONFIG
    assert key in error.value.message


def test_commit_message_by_template() -> None:
    plain = texts.build_commit_message(BUNDLE, PROPOSAL, Settings(), ())
    assert plain == "Cover the parser's errors\n"
    template = "{{category}}: {{title}} ({{run_id}})\n\n{{message}}\n"
    done = texts.build_commit_message(BUNDLE, PROPOSAL, Settings(commit_template=template), ())
    title_line = "tests: Cover the parser's errors (4711)"
    assert done == f"{title_line}\n\nCover the parser's errors\n"


@pytest.mark.parametrize(
    ("suggestion", "expected"),
    [
        ("cover-parser-errors", "cover-parser-errors"),
        ("night-shift/cover", "cover"),
        ("", "cover-the-parser-s-errors"),
        ("///", "cover-the-parser-s-errors"),
    ],
)
def test_slug(suggestion: str, expected: str) -> None:
    assert texts.build_branch_slug(BUNDLE, drafted(branch_slug=suggestion), Settings()) == expected


def test_labels() -> None:
    default = texts.list_labels(PROPOSAL, Settings())
    assert [each.name for each in default] == ["night-shift", "tests"]
    assert all(re.fullmatch("#[0-9a-f]{6}", each.color) and each.description for each in default)
    own = texts.list_labels(PROPOSAL, Settings(labels=["bot", "bot", "docs"]))
    assert [each.name for each in own] == ["bot", "docs"]
    assert texts.list_labels(PROPOSAL, Settings(labels=[])) == ()


def test_a_sandbox_that_is_only_partly_held_is_told() -> None:
    """The text comes from the job that ran agents, and is escaped like all text from there."""
    said = "landlock (files partial as accepted, secrets held)\n/merge @all"
    text = body(bundle=dataclasses.replace(BUNDLE, isolation=said))
    assert "in the sandbox landlock (files partial as accepted, secrets held)" in text
    assert not [line for line in text.splitlines() if line.startswith("/merge")]
    assert not re.search(r"(?<![\w\\])@all", text)


PLAIN = ("Add the parser", "Mend the cache", "Bump")
TYPED = ("feat: add the parser", "fix(cache): mend", "chore: bump", "Merge something")

SIGNED = """Cover the parser's empty input

The parser took an empty file for an error.

🤖 Generated with [Claude Code](https://claude.ai/code)

Co-Authored-By: Claude <noreply@anthropic.com>
Signed-off-by: Claude <noreply@anthropic.com>
Claude-Session: https://claude.ai/code/session_1
Change-Id: I0123456789
"""


def message(drafted: str, last: tuple[str, ...] = PLAIN) -> str:
    return format_commit_message(drafted, "Cover the parser", "tests", last)


def test_signs_of_an_agent_are_gone() -> None:
    expected = "Cover the parser's empty input\n\nThe parser took an empty file for an error."
    assert message(SIGNED) == expected


@pytest.mark.parametrize(
    "line",
    [
        "Co-authored-by: X <x@example.invalid>",
        "CO-AUTHORED-BY: X <x@example.invalid>",
        "Generated with Claude Code",
        "This change was generated by Claude.",
        "_Written by an AI_",
        "🤖",
        "https://claude.ai/code/session_1",
        "Reviewed-by: nobody",
        "Tested-By : me",
    ],
)
def test_each_sign_is_gone(line: str) -> None:
    assert message(f"Subject\n\nBody.\n{line}\nMore.") == "Subject\n\nBody.\nMore."
    assert message(f"Subject\n\nBody.\n\n{line}") == "Subject\n\nBody."


@pytest.mark.parametrize(
    "text",
    [
        "Subject\n\nThe rows\ncreated by the parser are closed.",
        "Subject\n\nNote: one line\nand another that is no trailer.",
        "Subject\n\n- back-end: renamed",
    ],
)
def test_prose_stays(text: str) -> None:
    assert message(text) == text


def test_trailers_that_the_repository_uses_stay() -> None:
    text = "Subject\n\nBody.\n\nChangelog: fixed\nModel: opus"
    assert message(text) == "Subject\n\nBody."
    known = ("Add x\n\nChangelog: added",)
    assert message(text, known) == "Subject\n\nBody.\n\nChangelog: fixed"


def test_subject_is_bounded_and_nothing_is_lost() -> None:
    subject = "Cover " + "very " * 20 + "long input"
    done = message(f"{subject}\nnext line")
    first, blank, *body = done.split("\n")
    assert len(first) <= 72
    assert first.endswith("very…")
    assert blank == ""
    assert "\n".join(body) == f"{subject}\n\nnext line"


def test_second_line_becomes_a_body() -> None:
    assert message("Subject\nsecond") == "Subject\n\nsecond"


def test_code_fence_around_the_message() -> None:
    assert message("```\nSubject\n\nBody\n```") == "Subject\n\nBody"


def test_references_do_not_act() -> None:
    done = message("Fix [skip ci] of #3\n\nCloses #1, ping @ada, https://e.invalid/x")
    expected = "Fix (skip ci) of # 3\n\nCloses – # 1, ping @ ada, https: //e.invalid/x"
    assert done == expected


def test_lines_that_meet_do_not_act() -> None:
    done = message("Subject\n\nFixes\nCo-authored-by: x\nACME-12 and more")
    assert done == "Subject\n\nFixes\n– ACME-12 and more"


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (PLAIN, "Cover the parser"),
        (TYPED, "test: cover the parser"),
        (TYPED[:2], "Cover the parser"),
        ((), "Cover the parser"),
    ],
)
def test_style_of_the_repository(last: tuple[str, ...], expected: str) -> None:
    assert message("", last) == expected
    assert message("🤖 Generated with Claude\n\nCo-Authored-By: x", last) == expected


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("tests", "test"),
        ("refactoring", "refactor"),
        ("docs", "docs"),
        ("security", "fix"),
        ("performance", "perf"),
        ("i18n", "chore"),
    ],
)
def test_types(category: str, kind: str) -> None:
    assert build_subject("Do it", category, TYPED) == f"{kind}: do it"
    assert build_subject("feat: do it", category, TYPED) == "feat: do it"
    assert build_subject("JSON is read", category, TYPED) == f"{kind}: JSON is read"


@given(st.text(max_size=500))
def test_any_draft(text: str) -> None:
    done = message(text)
    subject, *rest = done.split("\n")
    assert 0 < len(subject) <= 72
    assert not rest or rest[0] == ""
    assert done.encode()
    assert "🤖" not in done
