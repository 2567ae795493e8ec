"""Everything a run leaves for people and machines, in one folder, redacted."""

from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import LARGEST_PATCH, map_texts, to_json
from gitlab_nightshift.stages.report.annotations import render_annotations
from gitlab_nightshift.stages.report.junit import render_junit
from gitlab_nightshift.stages.report.page import render_page
from gitlab_nightshift.stages.report.run_result import render_dotenv

PAGE = "report.html"

if TYPE_CHECKING:
    from gitlab_nightshift.redaction.redactor import Redactor


def read_patch(bundle: Path) -> str:
    """The patch of a bundle's folder; "" where there is none that can be read."""
    try:
        with (bundle / "change.patch").open("rb") as file:
            return file.read(LARGEST_PATCH).decode("utf-8", "replace")
    except OSError:
        return ""


def write_results(
    folder: Path, result: RunResult, patch: str, redact: "Redactor", report_url: str = ""
) -> None:
    """Write the files that ``render_result_files`` makes."""
    files = render_result_files(map_texts(result, redact), redact(patch), report_url)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def render_result_files(result: RunResult, patch: str, report_url: str = "") -> dict[str, str]:
    """What people and machines read of a run, by the files' names. ``report_url`` is where the page
    will be, "" where nobody knows."""
    return {PAGE: render_page(result, patch), **render_data_files(result, report_url)}


def render_data_files(result: RunResult, report_url: str = "") -> dict[str, str]:
    """What programs read of it."""
    return {
        "result.json": to_json(result),
        "junit.xml": render_junit(result),
        "nightshift.env": render_dotenv(result),
        "annotations.json": render_annotations(result, report_url),
    }


def is_reported(folder: Path, result: RunResult, redact: "Redactor", report_url: str = "") -> bool:
    """True where a process that read an agent's work has written of this result what programs read
    of it, and a page. The page's words may be an agent's."""
    files = render_data_files(map_texts(result, redact), report_url)
    try:
        same = all((folder / name).read_bytes() == text.encode() for name, text in files.items())
        return same and (folder / PAGE).is_file()
    except OSError:
        return False
