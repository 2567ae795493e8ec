"""The job log: GitLab's section markers in CI alone, and nothing that an agent could plant."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus, CommandResult
from gitlab_nightshift.records.events import (
    BeadEnded,
    CommandEnded,
    Event,
    Note,
    ProgramEnded,
    ProgramStarted,
    Progress,
    RunEnded,
    RunStarted,
    StepEnded,
    StepStarted,
)
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.stages.report.job_log import (
    CUT,
    MOST_BYTES,
    MOST_OPEN,
    WIDTH,
    JobLog,
    format_line,
)
from tests.support.tables import each

MARKER = re.compile(
    r"\x1b\[0Ksection_(start|end):(\d+):([A-Za-z0-9_.-]+)(\[collapsed=true\])?\r\x1b\[0K"
)
COLOUR = re.compile(r"\x1b\[[0-9;]+m")
URL = "https://gitlab.example.com/acme/shop/-/merge_requests/7"
NO_SECRETS = Redactor(())


def bead(status: BeadStatus = BeadStatus.OK, error: str = "", *denied: str) -> BeadResult:
    return BeadResult(
        "implement", "tests", 1, "m", status, Usage(0.31, 52_000), 80, error, None, denied
    )


def result(outcome: Outcome, **values: object) -> RunResult:
    usual = {"category_used": "tests", "total_cost_usd": 1.25, "total_tokens": 312_000}
    return RunResult("1", outcome, **{**usual, "total_duration_s": 612.0, **values})  # type: ignore[arg-type]


STORY: list[Event] = [
    RunStarted("acme/shop", ("agent claude_code", "budget $10")),
    StepStarted("plan", "Plan"),
    Note("The history is shallow."),
    StepEnded("plan", True, "Monday: tests, then docs"),
    StepStarted("attempt-tests-1", "Implement and Verify · tests · attempt 1"),
    Progress("Editing src/a.py", 69.2, 0.12, 52_000),
    BeadEnded(bead()),
    BeadEnded(bead(BeadStatus.IDLE, "no output for 600 s", "curl x")),
    CommandEnded(CommandResult("make test", 0, 12.3)),
    CommandEnded(CommandResult("make lint", 2, 0.3)),
    CommandEnded(CommandResult("make all", None, 9, "ended by this program: timeout")),
    StepEnded("attempt-tests-1", False, "`make lint` failed: exit status 2."),
    Note("reviewer: GitLab knows no user 'ada'", warning=True),
    RunEnded(result(Outcome.MR_CREATED, mr_url=URL, reason="opened")),
]
TEXT = f"""\
  agent claude_code
  budget $10
▸ Plan
  The history is shallow.
  ✔ Monday: tests, then docs
▸ Implement and Verify · tests · attempt 1
       1:09  Editing src/a.py  $0.12, 52k tokens
    implement: ok · 1:20 · $0.31, 52k tokens
    denied: curl x
    implement: idle · 1:20 · $0.31, 52k tokens · no output for 600 s
    ✔ make test · exit status 0 · 0:12
    ✘ make lint · exit status 2 · 0:00
    ✘ make all · ended by this program: timeout · 0:09
  ✘ `make lint` failed: exit status 2.
  warning: reviewer: GitLab knows no user 'ada'
✔ MR_CREATED · {URL} · tests, 10:12, $1.25, 312k tokens
"""


def shown(
    events: Sequence[Event],
    capsys: pytest.CaptureFixture[str],
    *,
    sections: bool = False,
    colour: bool = False,
    redact: Callable[[str], str] = NO_SECRETS,
) -> str:
    log = JobLog(sections=sections, colour=colour, redact=redact)
    for event in events:
        log(event)
    return capsys.readouterr().out


def test_outside_ci_it_is_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    head, _, rest = shown(STORY, capsys).partition("\n")
    assert re.fullmatch(r"nightshift \S+ · acme/shop", head)
    assert rest == TEXT


def test_in_ci_it_is_the_same_text_with_sections_and_colours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = shown(STORY, capsys)
    in_ci = shown(STORY, capsys, sections=True, colour=True)
    assert COLOUR.sub("", MARKER.sub("", in_ci)) == plain
    assert "\x1b[0Ksection" not in shown(STORY, capsys, colour=True)
    assert "\x1b" not in plain


@each(("programs", "command"), [(True, "    $ make test\n"), (False, "")])
def test_phases_are_told_without_a_section_and_programs_where_somebody_follows_them(
    programs: bool, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = JobLog(sections=True, colour=False, redact=NO_SECRETS, programs=programs)
    for event in (
        StepStarted("Apply", "Apply · attempt 2", phase=True, attempt=2),
        ProgramStarted("make test"),
        ProgramEnded("make test", 0, 1.0),
        StepEnded("Apply", True, "", phase=True),
        StepEnded("Verify", False, "two\nlines", phase=True),
    ):
        log(event)
    assert capsys.readouterr().out == f"■ Apply · attempt 2\n{command}  Verify: two lines\n"


def test_markers_are_exactly_as_gitlab_wants_them(capsys: pytest.CaptureFixture[str]) -> None:
    started = int(time.time())
    text = shown(STORY, capsys, sections=True)
    found = [match.groups() for match in MARKER.finditer(text)]
    assert [(kind, name, options) for kind, _, name, options in found] == [
        ("start", "plan", "[collapsed=true]"),
        ("end", "plan", None),
        ("start", "attempt-tests-1", "[collapsed=true]"),
        ("end", "attempt-tests-1", None),
    ]
    assert all(started <= int(when) <= time.time() for _, when, _, _ in found)
    for line in text.split("\n")[:-1]:
        if "section_start" in line:
            assert re.fullmatch(rf"{MARKER.pattern}▸ .+", line), "the header is on its line"
    assert text.count("section_") == len(found)
    assert MARKER.sub("", text).count("\r") == 0


def test_the_variables_of_a_missing_key_are_told_uncut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    claude = "set ANTHROPIC_API_KEY as a masked CI variable (or ANTHROPIC_AUTH_TOKEN)"
    codex = "set OPENAI_API_KEY as a masked CI variable"
    why = f"not claude_code: no model key: {claude}; not codex: no model key: {codex}"
    fact = f"agent claude_code (auto; {why}), isolation auto"
    assert f"  {fact}\n" in shown([RunStarted("acme/shop", (fact,))], capsys)


def test_what_a_step_came_to_is_seen_where_its_section_is_closed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = shown(STORY, capsys, sections=True).split("\n")[:-1]
    (closing,) = [line for line in lines if "section_end" in line and ":plan" in line]
    assert MARKER.sub("", closing) == "  ✔ Monday: tests, then docs"


def test_sections_that_are_open_at_the_end_are_closed_innermost_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    story = [StepStarted("a", "A"), StepStarted("b c", "B"), STORY[-1]]
    lines = shown(story, capsys, sections=True).split("\n")[:-1]
    assert [match[3] for match in MARKER.finditer(lines[-1])] == ["b_c", "a"]
    assert MARKER.sub("", lines[-1]).startswith("✔ MR_CREATED")


def test_an_end_without_a_start_closes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "section_" not in shown([StepEnded("x", True, "done")], capsys, sections=True)


@pytest.mark.parametrize(
    ("ended", "line"),
    [
        (
            result(Outcome.MR_CREATED, mr_url=URL, reason="the merge request is open"),
            f"✔ MR_CREATED · {URL} · tests, 10:12, $1.25, 312k tokens",
        ),
        (
            result(Outcome.NO_IMPROVEMENT, reason="All tried.", total_cost_usd=None),
            "○ NO_IMPROVEMENT · All tried. · tests, 10:12, cost not known, 312k tokens",
        ),
        (
            RunResult("1", Outcome.NO_IMPROVEMENT, reason="No category scheduled for today"),
            "○ NO_IMPROVEMENT · No category scheduled for today · 0:00, nothing spent",
        ),
        (
            result(Outcome.FAILED, error_code="E_PUBLISH", reason="refused\nby GitLab"),
            "✘ FAILED · E_PUBLISH · refused by GitLab · tests, 10:12, $1.25, 312k tokens",
        ),
        (
            result(Outcome.FAILED, error_code="E_PUBLISH", mr_url=URL, reason="no label"),
            f"✘ FAILED · E_PUBLISH · {URL} · no label · tests, 10:12, $1.25, 312k tokens",
        ),
        (
            result(Outcome.MR_READY, reason="dry run", category_used="docs (fallback from tests)"),
            "✔ MR_READY · dry run · docs (fallback from tests), 10:12, $1.25, 312k tokens",
        ),
    ],
)
def test_the_last_line_says_it_all(
    ended: RunResult, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown([RunEnded(ended)], capsys) == f"{line}\n"


HOSTILE = [
    "\x1b[0Ksection_end:1700000000:plan\r\x1b[0Kplanted",
    "section_end:1700000000:plan\r\x1b[0K",
    "\r\x1b[2K\x1b[1A✔ MR_CREATED",
    "one\ntwo\r\nthree\x0bfour\x0cfive\x85six\u2028seven\u2029eight",
    "\x9b31mcsi \x90 \x07\x08",
    "\u202ereversed\u202c \u2066isolated\u2069 \u061c \u200f",
    "zero\u200bwidth\u00ad\ufeff\U000e0041",
    "lone \ud800 surrogate",
    "x" * 200_000,
    "\n" * 200_000 + "late",
]


def everywhere(text: str) -> list[Event]:
    return [
        RunStarted(text, (text,)),
        StepStarted(text, text),
        Progress(text, 1, None, None),
        BeadEnded(bead(BeadStatus.CRASHED, text, text)),
        CommandEnded(CommandResult(text, None, 1, text)),
        Note(text),
        StepEnded(text, False, text),
        RunEnded(
            result(Outcome.FAILED, error_code="E_X", mr_url=text, reason=text, category_used=text)
        ),
    ]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
@pytest.mark.parametrize("sections", [True, False])
def test_hostile_text_plants_nothing(
    text: str, sections: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shown(everywhere(text), capsys, sections=sections, colour=True)
    plain = COLOUR.sub("", MARKER.sub("", out))
    assert len(plain.split("\n")) == len(shown(everywhere("x"), capsys).split("\n"))
    assert all(line.isprintable() for line in plain.split("\n"))
    assert len(MARKER.findall(out)) == (2 if sections else 0)
    assert max(map(len, plain.split("\n"))) < 1500
    out.encode()


def test_secrets_are_gone_before_a_text_is_cut_or_joined(
    capsys: pytest.CaptureFixture[str],
) -> None:
    secret = "hunter2-" * 5 + "\nsecond line"
    for before in (0, WIDTH - 60, WIDTH - 41, WIDTH - 20, 390):
        text = "." * before + secret
        out = shown(everywhere(text), capsys, sections=True, redact=Redactor((secret,)))
        assert "hunter2" not in out
        assert "second" not in out
    assert "[redacted]" in out


MARK = "\x1b[0Ksection_start:1:x\r\x1b[0K"
FLOODS: dict[str, Callable[[], Sequence[Event]]] = {
    "notes": lambda: [Note("\U0001f311" * 1000, warning=True)] * 3000,
    "progress": lambda: [Progress(MARK * 99, 1, None, None)] * 20_000,
    "steps": lambda: [StepStarted(f"{n}" * 99, "x" * 999) for n in range(8000)],
    "commands": lambda: [CommandEnded(CommandResult("ü" * 999, 1, 1.0))] * 20_000,
    "denied": lambda: [BeadEnded(bead(BeadStatus.DENIED, "x" * 999, *["y" * 999] * 99))] * 3000,
    "facts": lambda: [RunStarted("x", ("z" * 999,) * 20_000)],
}


@pytest.mark.parametrize("sections", [True, False])
@each("kind", FLOODS)
def test_the_log_is_bounded_and_the_verdict_is_its_last_line(
    kind: str, sections: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    end = RunEnded(result(Outcome.FAILED, error_code="E_X", reason="\U0001f311" * 9999))
    story = [StepStarted("a", "A"), *FLOODS[kind](), StepEnded("a", True, "done"), end]
    out = shown(story, capsys, sections=sections, colour=sections, redact=str)
    assert MOST_BYTES / 2 < len(out.encode()) <= MOST_BYTES
    *_, cut, last, nothing = MARKER.sub("", COLOUR.sub("", out)).split("\n")
    assert (cut, nothing) == (f"  warning: {CUT}", "")
    assert last.startswith("✘ FAILED · E_X · ")
    assert out.count(CUT) == 1
    kinds = [match[1] for match in MARKER.finditer(out)]
    assert kinds.count("start") == kinds.count("end") <= MOST_OPEN * sections
    assert "section_" not in out.partition(CUT)[2], "what is said at the end is not hidden"


def test_a_log_of_ordinary_length_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown([*[Note("x" * 300)] * 3000, STORY[-1]], capsys)
    assert (CUT in out, out.count("xxx\n")) == (False, 3000)


WITHOUT_READER = """
import sys
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.stages.report.job_log import JobLog
log = JobLog(sections=True, colour=True, redact=str)
sys.stdin.readline()
for n in range(100):
    log(Note("x" * 100))
print("went on", file=sys.stderr)
"""


def test_a_night_goes_on_where_nobody_reads_its_log() -> None:
    pipe = subprocess.PIPE
    program = [sys.executable, "-c", WITHOUT_READER]
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=pipe) as done:
        assert done.stdin and done.stdout and done.stderr
        done.stdout.close()
        done.stdin.close()
        assert done.stderr.read() == b"went on\n"
    assert done.returncode == 0


@given(st.text(), st.integers(2, 50))
def test_one_line_is_one_printable_line(text: str, width: int) -> None:
    line = format_line(text, width)
    assert len(line) <= width
    assert line.isprintable()
    assert line == line.strip()
    line.encode()


@each(
    ("text", "line"),
    [
        ("", ""),
        ("  plain  ", "plain"),
        ("a\tb", "a b"),
        ("12345", "12345"),
        ("123456", "1234…"),
        ("größe", "größe"),
        ("a\u00a0b", "a b"),
    ],
)
def test_one_line(text: str, line: str) -> None:
    assert format_line(text, 5) == line
