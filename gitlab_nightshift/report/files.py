"""Everything a run leaves for people and machines, in one folder, redacted."""

import dataclasses
import gzip
import shutil
from pathlib import Path

from gitlab_nightshift.events import redacted
from gitlab_nightshift.records import Bundle, RunResult, to_json
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.report.page import page
from gitlab_nightshift.report.result import dotenv, junit

LARGE_LOG = 1_000_000


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


def move_logs(source: Path, target: Path, redact: Redactor) -> None:
    """Raw logs, whole, without secrets; large ones compressed. The source is emptied."""
    target.mkdir(parents=True, exist_ok=True)
    for log in sorted(path for path in source.iterdir() if path.is_file()):
        redact.file(log, target / log.name)
        log.unlink()
        if (target / log.name).stat().st_size > LARGE_LOG:
            compressed(target / log.name)


def compressed(path: Path) -> None:
    """Replace a file by ``<name>.gz``."""
    with path.open("rb") as plain, gzip.open(path.with_name(f"{path.name}.gz"), "wb") as packed:
        shutil.copyfileobj(plain, packed)
    path.unlink()


def named_logs(bundle: Bundle, folder: Path) -> Bundle:
    """The bundle with its beads' log paths as they are now: compressed or not."""

    def there(name: str) -> str:
        return f"{name}.gz" if (folder / f"{name}.gz").exists() else name

    beads = tuple(
        dataclasses.replace(bead, logs=tuple(there(name) for name in bead.logs))
        for bead in bundle.beads
    )
    return dataclasses.replace(bundle, beads=beads)
