"""The files that a run leaves for people and programs, redacted, in one folder."""

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from gitlab_nightshift.records.bead_results import BeadResult
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import LARGEST_PATCH, map_texts, to_json
from gitlab_nightshift.stages.report.job_log import format_line
from gitlab_nightshift.stages.report.page import render_page
from gitlab_nightshift.stages.report.result_texts import describe_command
from gitlab_nightshift.stages.report.run_result import describe_bead, render_dotenv

PAGE = "report.html"

if TYPE_CHECKING:
    from gitlab_nightshift.redaction.redactor import Redactor


def read_patch(bundle: Path) -> str:
    """The patch in a bundle's folder; "" if it cannot be read."""
    try:
        with (bundle / "change.patch").open("rb") as file:
            return file.read(LARGEST_PATCH).decode("utf-8", "replace")
    except OSError:
        return ""


def write_results(
    folder: Path, result: RunResult, patch: str, redact: "Redactor", report_url: str = ""
) -> None:
    """Write the redacted files of a run."""
    files = render_result_files(map_texts(result, redact), redact(patch), report_url)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def render_result_files(result: RunResult, patch: str, report_url: str = "") -> dict[str, str]:
    """The files by name. ``report_url`` is where the page will be, "" if unknown."""
    return {PAGE: render_page(result, patch), **render_data_files(result, report_url)}


def render_data_files(result: RunResult, report_url: str = "") -> dict[str, str]:
    """The files that programs read."""
    return {
        "result.json": to_json(result),
        "junit.xml": render_junit(result),
        "nightshift.env": render_dotenv(result),
        "annotations.json": render_annotations(result, report_url),
    }


def is_reported(folder: Path, result: RunResult, redact: "Redactor", report_url: str = "") -> bool:
    """True if the report process, which agents may control, has written a page, and the files for
    programs from exactly this result. The page may have any text of an agent."""
    # The page is not compared: it takes long to render, and no program reads it.
    files = render_data_files(map_texts(result, redact), report_url)
    try:
        equal = all((folder / name).read_bytes() == text.encode() for name, text in files.items())
        return equal and (folder / PAGE).is_file()
    except OSError:
        return False


# --- junit.xml ----------------------------------------------------------------------------------


def render_junit(result: RunResult) -> str:
    """A test case per bead, attempt, command, piece of evidence and flag, and one for the night."""
    cases = [*map(_render_bead_case, result.beads), *_render_attempts(result)]
    cases += _render_findings(result)
    failed = result.outcome is Outcome.FAILED
    why = f"{result.error_code}: {result.reason}" if failed else ""
    cases.append(_render_case("night", result.outcome.value, result.total_duration_s, why))
    failures = sum("<failure" in case for case in cases)
    head = f'<testsuite name="nightshift" tests="{len(cases)}" failures="{failures}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>", ""])


def _render_bead_case(bead: BeadResult) -> str:
    name = f"{bead.bead} {bead.category} attempt {bead.attempt}"
    why = "" if bead.ok else f"{bead.status}: {bead.error}"
    return _render_case(bead.bead, name, bead.duration_s, why, describe_bead(bead))


def _render_attempts(result: RunResult) -> Iterator[str]:
    for each in result.attempts:
        why = "" if each.passed else f"sent back: {each.why}"
        yield _render_case("attempt", f"{each.category} attempt {each.number}", 0, why)


def _render_findings(result: RunResult) -> Iterator[str]:
    for command in result.commands or result.reported:
        text = describe_command(command)
        why = text if command.level == "fail" else ""
        yield _render_case("command", command.command, command.duration_s, why, text)
    for evidence in result.evidence:
        why = evidence.detail if evidence.level == "fail" else ""
        yield _render_case("evidence", evidence.title, 0, why, evidence.detail)
    for flag in result.flags:
        text = f"{flag.file}:{flag.line}: {flag.detail}"
        why = text if flag.level == "fail" else ""
        yield _render_case("flag", flag.name, 0, why, text)


def _render_case(group: str, name: str, seconds: float, why: str, output: str = "") -> str:
    """A test case; ``why`` is its failure, "" if it passed. Names are the same every night."""
    names = f"classname={_quote_attribute(f'nightshift.{group}')} name={_quote_attribute(name)}"
    start = f'  <testcase {names} time="{seconds:.1f}"'
    if why:
        # GitLab shows the text of the element, other readers its message.
        text = escape(format_line(why, 500), quote=False)
        return f"{start}><failure message={_quote_attribute(why)}>{text}</failure></testcase>"
    text = escape(format_line(output, 500), quote=False)
    return f"{start}><system-out>{text}</system-out></testcase>" if text else f"{start}/>"


def _quote_attribute(text: str) -> str:
    return f'"{escape(format_line(text, 500))}"'


# --- annotations.json ---------------------------------------------------------------------------


ANNOTATION_GROUP = "Night shift"


def build_report_url(project_url: str, job_id: str, folder: str) -> str:
    """The URL of the page in ``folder`` of this job's artifacts; "" outside CI."""
    if not (project_url and job_id):
        return ""
    return f"{project_url}/-/jobs/{job_id}/artifacts/file/{quote(folder)}/report.html"


def render_annotations(result: RunResult, report_url: str) -> str:
    """The links to the report and the merge request, if they exist."""
    links = {"Report of the night": report_url, "Merge request": result.mr_url}
    annotations = [
        {"external_link": {"label": label, "url": url}}
        for label, url in links.items()
        if url.startswith(("https://", "http://"))
    ]
    return json.dumps({ANNOTATION_GROUP: annotations}, indent=2) + "\n"
