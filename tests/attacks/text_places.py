"""The places where an agent's words end up, and what they must not do there.

Each detector takes a finished text and names what GitLab or a reader would do with it.
"""

import contextlib
import io
import re
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from gitlab_nightshift.gitlab.marker import Marker, write_marker
from gitlab_nightshift.job.job_facts import read_job
from gitlab_nightshift.records.bead_results import (
    AnalysisCandidate,
    AnalysisResult,
    BeadResult,
    BeadStatus,
    CommandResult,
    Draft,
    Verdict,
)
from gitlab_nightshift.records.events import (
    BeadEnded,
    CommandEnded,
    Event,
    Note,
    Progress,
    RunEnded,
    RunStarted,
    StepEnded,
    StepStarted,
)
from gitlab_nightshift.records.products import Bundle, Outcome, Proposal, ProposedChange
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.settings.load import build_settings
from gitlab_nightshift.stages.publish import merge_request
from gitlab_nightshift.stages.publish.description import render_description
from gitlab_nightshift.stages.publish.escaping import LANGUAGES
from gitlab_nightshift.stages.report.job_log import JobLog
from gitlab_nightshift.stages.report.page import render_page
from gitlab_nightshift.stages.report.report_files import render_junit
from gitlab_nightshift.stages.report.run_result import render_dotenv
from tests.support.pages import build_full_result, build_patch

READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
OWN_MARKER = write_marker(Marker("1", "tests", "0"))
OWN_FOLD = re.compile(
    r"<details>\n<summary>(?:Candidates considered|Attempts that were rejected|How it was run)"
    r"</summary>\n\n"
)
CLOSES = re.compile(
    r"\b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?):?\s+"
    r"(?:issues?\s+)?(?:[\w./-]*[#!]\d|https?://)",
    re.I,
)
REFERENCE = re.compile(
    r"(?<!\w)@\w|[#!&$]\d|(?<![\w/])~[\w\"]|(?<!\w)%(?:[\d\"]|\w\w)|\[vulnerability:\d|\^alert#\d|\bGL-\d",
    re.I,
)
SECTION = re.compile(r"section_(?:start|end):\d+:[\w.-]+(?:\[[^\]]*\])?\r\x1b\[0K")
CI_DIRECTIVE = re.compile(r"\[(?:(?:skip|no)[ _-](?:ci|pipelines?)|ci[ _-]skip)\]", re.I)
TRAILER = re.compile(r"(?mi)^(?:[a-z]+-)+by\s*:")


# --- what a text would do -------------------------------------------------------------------------


def in_markdown(text: str) -> set[str]:
    """What GitLab does with a description; its own marker at the end may be there."""
    text = text.replace(OWN_MARKER, "")
    folds = [len(re.findall(f"(?m)^{each}$", text)) for each in ("<details>", "</details>")]
    if folds == [len(OWN_FOLD.findall(text))] * 2:
        text = OWN_FOLD.sub("", text).replace("\n\n</details>\n", "")
    lines = re.split("[\n\r\u2028]", _without_blocks(text))
    environment: dict[str, Any] = {}
    READER.parse(text, environment)
    tokens = list(_tokens(text))
    addresses = [
        *environment.get("references", {}),
        *(t.type for t in tokens if "://" in f"{t.attrs}"),
    ]
    kinds = {token.type for token in tokens}
    shown, outside = _shown(text), _source_outside_code(text)
    fences = [token.info.partition(":")[0] for token in tokens if token.type == "fence"]
    found = {
        "quick action": any(re.match(r"\s*(?:(?:[-+*>]|\d+[.)])\s+)*/\w", line) for line in lines),
        "reference": bool(REFERENCE.search(shown)),
        "closes": bool(CLOSES.search(text)),
        "address": bool(re.search(r"://|\bwww\.", shown) or addresses),
        "image": "image" in kinds,
        "link": "link_open" in kinds,
        "HTML": bool({"html_block", "html_inline"} & kinds),
        "comment": "<!--" in text,
        "heading": "heading_open" in kinds,
        "ruler": "hr" in kinds,
        "table": "table_open" in kinds,
        "task": bool(re.search(r"(?m)^\s*(?:[-+*]|\d+[.)])\s+\[[ xX~]\]", _without_blocks(text))),
        "open block": "inline" not in {token.type for token in READER.parse(f"{text}\n\nx")[-2:]},
        "drawn block": any(info and info not in LANGUAGES for info in fences),
        "contents": bool(re.search(r"(?mi)^\s*\[\[?_?TOC_?\]\]?\s*$", text)),
        "footnote": bool(re.search(r"(?<!\\)\[\^", outside)),
        "hidden": _hides(text),
    }
    return {name for name, true in found.items() if true}


def _tokens(text: str) -> Iterator[Token]:
    for token in READER.parse(text):
        yield from (token, *(token.children or ()))


def _shown(text: str) -> str:
    """What a reader sees outside of code."""
    seen = (token.content for token in _tokens(text) if token.type == "text")
    return "\n".join(seen)


def _source_outside_code(text: str) -> str:
    return re.sub(r"(?<![`\\])(`+)(?!`).+?(?<!`)\1(?!`)", "", _without_blocks(text))


def _without_blocks(text: str) -> str:
    return re.sub(r"(?ms)^(```+)[^`\n]*\n.*?^\1$", "", text)


def in_commit(text: str) -> set[str]:
    """What GitLab does with a commit's message, or a title."""
    found = {
        "reference": bool(REFERENCE.search(text)),
        "closes": bool(CLOSES.search(text)),
        "address": bool(re.search(r"://", text)),
        "ci directive": bool(CI_DIRECTIVE.search(text)),
        "trailer": bool(TRAILER.search(text)),
        "signature": bool(re.search("\U0001f916|generated (?:with|by)", text, re.I)),
        "hidden": _hides(text),
    }
    return {name for name, true in found.items() if true}


def in_title(text: str) -> set[str]:
    """The same on one line, and what makes a draft of a merge request."""
    found = {
        "line": len(text.splitlines()) > 1,
        "draft": bool(re.match(r"(?i)\s*(?:[\[(](?:draft|wip)[\])]|(?:draft|wip)\s*:)", text)),
    }
    done = in_commit(text) - {"signature"}
    return done | {name for name, true in found.items() if true}


def in_name(text: str) -> set[str]:
    """A branch's name that means something to git."""
    return set() if re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", text) else {"name"}


def in_log(text: str) -> set[str]:
    """What GitLab's viewer or a terminal does with a job log without our own markers."""
    found = {
        "section": bool(SECTION.search(text)),
        "escape": "\x1b" in text,
        "return": "\r" in text,
        "hidden": not all(c.isprintable() for c in text.replace("\n", "")),
    }
    return {name for name, true in found.items() if true}


def in_dotenv(text: str) -> set[str]:
    """More variables than the four."""
    names = [line.partition("=")[0] for line in text.splitlines()]
    known = ["NIGHT_OUTCOME", "NIGHT_MR_URL", "NIGHT_CATEGORY", "NIGHT_COST_USD"]
    return set() if names == known else {"variable"}


def in_xml(text: str) -> set[str]:
    """The elements with their attributes' names; one word where it is no XML."""
    try:
        return {f"{e.tag} {sorted(e.attrib)}" for e in ET.fromstring(text.encode()).iter()}
    except (ET.ParseError, ValueError):
        return {"broken"}


def _hides(text: str) -> bool:
    kinds = ("Cc", "Cf", "Cs", "Co")
    return any(
        (unicodedata.category(c) in kinds and c not in "\n\r\t") or 0xE0100 <= ord(c) <= 0xE01EF
        for c in text
    )


# --- where an agent's words go --------------------------------------------------------------------


def proposal(text: str) -> Proposal:
    """A proposal in which every word is the agent's."""
    words = text[:500] or "x"
    candidate = AnalysisCandidate((words,), words, 1, words)
    return Proposal(
        change=ProposedChange(("src/a.py",), 3, 4, "a" * 40),
        category="tests",
        is_fallback=False,
        analysis=AnalysisResult("IMPROVEMENT_FOUND", words, words, 3, (candidate,), candidate),
        draft=Draft(words, words, words, words, words, words, (words,)),
        verdict=Verdict(True, words, (words,)),
        commands=(CommandResult("make test", 0, 1.0),),
        notes=(words,),
    )


def bundle(text: str) -> Bundle:
    """Its bundle."""
    made = proposal(text)
    return Bundle(
        "1", "2025", "b" * 40, "main", Outcome.MR_READY, proposal=made, category_used=text
    )


def result(text: str) -> RunResult:
    """A result in which every word is the agent's."""
    bead = BeadResult(
        "verify", "tests", 1, text, BeadStatus.CRASHED, Usage(0.1, 5), 6, text, None, (text,)
    )
    return RunResult(
        "1", Outcome.FAILED, "E_PUBLISH", text, text, category_used=text, beads=(bead,)
    )


SETTINGS = build_settings({})
JOB = read_job({})


def body(text: str) -> str:
    """The merge request's description."""
    made = bundle(text)
    return render_description(made, proposal(text), JOB, Marker("1", "tests", "0"), None)


def title(text: str) -> str:
    """Its title without this program's prefix."""
    made = merge_request.format_title(bundle(text), proposal(text), SETTINGS)
    return made.removeprefix("[night-shift/tests] ")


def message(text: str) -> str:
    """The commit's message."""
    return merge_request.build_commit_message(bundle(text), proposal(text), SETTINGS, ())


def branch(text: str) -> str:
    """The branch's name without its prefix."""
    return merge_request.build_branch_slug(bundle(text), proposal(text), SETTINGS)


def log(text: str) -> str:
    """The job log, without the sections and the marks that this program makes itself."""
    done = result(text)
    events: list[Event] = [
        RunStarted(text, (text,)),
        StepStarted(f"step {text}", text),
        Progress(text, 1, 0.1, 5),
        BeadEnded(done.beads[0]),
        CommandEnded(CommandResult(text, None, 1.0, text)),
        Note(text, warning=True),
        StepEnded(f"step {text}", False, text),
        RunEnded(done),
    ]
    printed = io.StringIO()
    sink = JobLog(sections=True, colour=False, redact=lambda each: each)
    with contextlib.redirect_stdout(printed):
        for event in events:
            sink(event)
    markers = SECTION.findall(printed.getvalue())
    assert len(markers) == 2, "one section, opened and closed"
    return re.sub(r"\x1b\[0K" + SECTION.pattern, "", printed.getvalue())


Place = tuple[Callable[[str], str], Callable[[str], set[str]]]
PLACES: dict[str, Place] = {
    "title": (title, in_title),
    "commit": (message, in_commit),
    "branch": (branch, in_name),
    "job log": (log, in_log),
    "dotenv": (lambda text: render_dotenv(result(text)), in_dotenv),
}
PAGES: dict[str, Callable[[str], str]] = {
    "report.html": lambda text: render_page(build_full_result(text), build_patch(text)),
    "junit.xml": lambda text: render_junit(build_full_result(text)),
}
OWN_HEADINGS = {"heading", "ruler"}


def careless(text: str) -> set[str]:
    """What the text does where it is put as it is."""
    variables = "".join(
        f"NIGHT_{name}={value}\n"
        for name, value in (("OUTCOME", "x"), ("MR_URL", ""), ("CATEGORY", text), ("COST_USD", ""))
    )
    found = in_markdown(text) | in_title(text) | in_commit(text) | in_name(text) | in_log(text)
    page = {"page"} if in_xml(f"<p>{text}</p>") != {"p []"} else set()
    return found | in_dotenv(variables) | page
