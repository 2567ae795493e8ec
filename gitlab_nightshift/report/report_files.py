"""Everything a run leaves for people and machines, in one folder, redacted."""

from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.events import redact_record
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import LARGEST_PATCH, to_json
from gitlab_nightshift.report.annotations import render_annotations
from gitlab_nightshift.report.junit import render_junit
from gitlab_nightshift.report.page import render_page
from gitlab_nightshift.report.run_result import render_dotenv

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
    files = render_result_files(redact_record(result, redact), redact(patch), report_url)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def render_result_files(result: RunResult, patch: str, report_url: str = "") -> dict[str, str]:
    """What people and machines read of a run, by the files' names. ``report_url`` is where the page
    will be, "" where nobody knows."""
    return {
        "result.json": to_json(result),
        "report.html": render_page(result, patch),
        "junit.xml": render_junit(result),
        "nightshift.env": render_dotenv(result),
        "annotations.json": render_annotations(result, report_url),
    }
