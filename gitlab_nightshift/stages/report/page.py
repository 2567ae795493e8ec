"""``report.html``: one self-contained page, without scripts or anything that a browser would fetch.

It is also well-formed XML, so that a test can see if a text breaks out of its element.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.records.bead_results import BeadResult
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.usage import format_cost
from gitlab_nightshift.stages.report.result_texts import (
    build_headline,
    describe_attempt,
    describe_command,
    format_duration,
    is_incomplete,
    list_proofs,
)
from gitlab_nightshift.stages.report.run_result import describe_bead
from gitlab_nightshift.text.diff_rows import DiffRow, read_rows
from gitlab_nightshift.text.printable_text import count_words, make_printable

# --- the patch ----------------------------------------------------------------------------------
# Its names and lines come from an agent's files, so they are hostile data. They are only shortened
# here; the template escapes them.


MOST_LINES = 3_000
LONGEST_LINE = 2_000
"""Limits of the shown patch: lines, and characters of a line."""


@dataclass(frozen=True)
class PatchFile:
    """The rows of a changed file; a note has the sign ``\\``, as in git's own notes."""

    name: str
    rows: tuple[DiffRow, ...]


def parse_patch(patch: str) -> tuple[PatchFile, ...]:
    """The files of a git patch; a note replaces what exceeds ``MOST_LINES``."""
    lines = patch.split("\n")
    files: list[PatchFile] = []
    starts = [index for index, line in enumerate(lines) if line.startswith("diff --git ")]
    lines_left = MOST_LINES
    for start, end in itertools.pairwise([*starts, len(lines)]):
        rows = tuple(_read_rows(lines[start + 1 : min(end, start + lines_left)]))
        if end - start > lines_left:
            rows = (*rows, DiffRow("\\", "The rest is in bundle/change.patch."))
        files.append(PatchFile(_read_name(lines[start:end]), rows))
        lines_left -= end - start
        if lines_left <= 0:
            break
    return tuple(files)


def _read_name(lines: list[str]) -> str:
    """The file's new name, or a deleted file's old one, as git writes it: quoted if it has special
    characters."""
    # git-diff(1), "Generating patch text with -p": a/ and b/ before names, /dev/null for a missing
    # file, a tab after a name with a space. Renames, modes and binary files lack these lines.
    for line in lines[1:]:
        if line.startswith("@@"):
            break
        for sign, prefix in (("+++ ", "b/"), ("--- ", "a/")):
            if line.startswith(sign) and "/dev/null" not in line:
                name = line.removeprefix(sign).rstrip("\t")
                if sign == "+++ " or "+++ /dev/null" in lines:
                    return name.removeprefix(prefix)
    return lines[0].removeprefix("diff --git ").partition(" b/")[2] or lines[0]


def _read_rows(lines: list[str]) -> Iterator[DiffRow]:
    for row in read_rows(lines):
        if row.sign:
            yield replace(row, line=row.line[:LONGEST_LINE])
        elif row.line.startswith(("new file", "deleted file", "rename ", "old mode", "new mode")):
            yield DiffRow("\\", row.line[:LONGEST_LINE])
        elif row.line.startswith("GIT binary patch"):
            yield DiffRow("\\", "A binary file.")


if TYPE_CHECKING:
    from jinja2 import Environment, Template

# --- the page -----------------------------------------------------------------------------------


TEMPLATE = Path(__file__).with_name("page.html.j2")
STYLE = Path(__file__).with_name("page.css")
_TONES = {
    Outcome.MR_CREATED: "good",
    Outcome.MR_READY: "good",
    Outcome.FAILED: "bad",
    Outcome.APPROVAL_REQUIRED: "warned",
}
_ROW_KINDS = {"+": "added", "-": "deleted", " ": "same", "@": "hunk", "\\": "note"}
_LEVELS = {"pass": "Passed", "warn": "Look at", "fail": "Failed", "not_known": "Not judged"}
_BEAD_TITLES = {
    "analyze": "Look for an improvement",
    "implement": "Make the change",
    "verify": "Review the change",
    "mr": "Describe the change",
}
_ATTEMPT_BEADS = ("implement", "verify")


@dataclass(frozen=True)
class _TimelineRow:
    """A bead; ``sent_back`` is why the attempt that it ended was rejected, "" for other beads."""

    bead: BeadResult
    title: str
    sent_back: str


def render_page(result: RunResult, patch: str) -> str:
    """The page of a run; ``patch`` is its change, "" if there is none."""
    tone = "warned" if is_incomplete(result) else _TONES.get(result.outcome, "quiet")
    return load_template().render(
        result=result,
        headline=build_headline(result),
        tone=tone,
        date=_format_date(result.started_at),
        why=": ".join(part for part in (result.error_code, result.reason) if part),
        proofs=list_proofs(result),
        refused=[each for each in result.attempts if not each.passed],
        timeline=_build_timeline(result),
        tried=[line for line in result.summary.splitlines() if line.strip()],
        diff=parse_patch(patch) if result.change else (),
        kinds=_ROW_KINDS,
        levels=_LEVELS,
        link=find_link(result.mr_url),
        pipeline=find_link(result.pipeline_url),
    )


@cache
def read_beginning() -> str:
    """The beginning of every page, with the Content-Security-Policy that allows no script."""
    return TEMPLATE.read_text(encoding="utf-8").partition("<title>")[0]


@cache
def load_template() -> "Template":
    """The page's template, compiled."""
    environment = build_environment()
    environment.filters |= {
        "attempt": describe_attempt,
        "command": describe_command,
        "said": describe_bead,
        "files": _format_files_scanned,
    }
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8"))


def build_environment() -> "Environment":
    """The template environment of all pages: every value is escaped, ``style`` is the CSS."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True,
        finalize=_clean_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["style"] = Markup(STYLE.read_text(encoding="utf-8"))  # noqa: S704 - ours
    environment.filters |= {
        "duration": format_duration,
        "cost": format_cost,
        "count": count_words,
    }
    return environment


def _clean_value(value: Any) -> Any:
    """Replace control and bidirectional characters in a text by spaces."""
    if type(value) is not str:  # the subclass Markup is this program's own HTML
        return value
    return make_printable(value, keep="\n\t")


def _format_files_scanned(result: RunResult) -> str:
    if result.files_scanned is None:
        return "not known"
    return f"{'at least ' if result.files_scanned_at_least else ''}{result.files_scanned}"


def find_link(url: str) -> str:
    """The URL if it may be a link, else ""."""
    return url if url.startswith(("https://", "http://")) else ""


def _format_date(started_at: str) -> str:
    """Day and time, such as ``Tuesday 17 November 2026, 02:00 UTC``."""
    try:
        start = datetime.fromisoformat(started_at)
    except ValueError:
        return ""
    return f"{start:%A} {start.day} {start:%B %Y, %H:%M} {start.tzname() or ''}".strip()


def _build_timeline(result: RunResult) -> list[_TimelineRow]:
    """The beads; the last bead of an attempt that was sent back says why."""
    last_beads = {
        (bead.category, bead.attempt): index
        for index, bead in enumerate(result.beads)
        if bead.bead in _ATTEMPT_BEADS
    }
    reasons = {
        last_beads.get((attempt.category, attempt.number)): attempt.why
        for attempt in result.attempts
        if not attempt.passed
    }
    return [
        _TimelineRow(bead, _format_title(bead), reasons.get(index, ""))
        for index, bead in enumerate(result.beads)
    ]


def _format_title(bead: BeadResult) -> str:
    title = _BEAD_TITLES.get(bead.bead, bead.bead)
    attempt = f", attempt {bead.attempt}" if bead.bead in _ATTEMPT_BEADS else ""
    return f"{title}: {bead.category}{attempt}"
