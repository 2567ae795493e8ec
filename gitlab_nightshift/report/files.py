"""Everything a run leaves for people and machines, in one folder, redacted."""

from pathlib import Path

from gitlab_nightshift.events import redacted
from gitlab_nightshift.records import Bundle, RunResult, to_json
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.report.page import page
from gitlab_nightshift.report.result import dotenv, junit


def write_results(folder: Path, result: RunResult, bundle: Bundle, redact: Redactor) -> None:
    """Write ``result.json``, ``report.html``, ``junit.xml`` and ``nightshift.env``."""
    result, bundle = redacted(result, redact), redacted(bundle, redact)
    files = {
        "result.json": to_json(result),
        "report.html": page(result, bundle),
        "junit.xml": junit(result),
        "nightshift.env": dotenv(result),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def move_logs(source: Path, target: Path) -> None:
    """Put raw logs among the results; the source is emptied."""
    target.mkdir(parents=True, exist_ok=True)
    for log in source.iterdir():
        log.rename(target / log.name)
