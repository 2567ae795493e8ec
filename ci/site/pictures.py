"""The pictures of README, drawn from a demo that is run: `make pictures`.

``docs/night.svg`` is the job log as GitLab shows it with its sections collapsed, and
``docs/merge-request.svg`` what the reviewer finds first. The site draws its own at each build; a
test holds the words of those in the repository to it.
"""

import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gitlab_nightshift.records.codec import make_older_record
from gitlab_nightshift.stages.report.job_log import JobLog
from gitlab_nightshift.wire.channel import EVENT_CLASSES

DOCS = Path(__file__).parents[2] / "docs"
WIDTH = 108
_MARKER = re.compile(r"\x1b\[0Ksection_(start|end):[^\r]*\r\x1b\[0K")
_STYLE = r"(?:\x1b\[[\d;]*m)*"
_REQUEST = re.compile(rf"{_STYLE}\[night-shift/.*?(?=\n{_STYLE}Reasoning)", re.DOTALL)
_OF_THIS_MACHINE = re.compile("isolation:|sandbox was tried")
_STANDIN = re.compile(r"http://127\.0\.0\.1:\d+")


@dataclass(frozen=True)
class DemoRun:
    """What a demo printed to a terminal, its ``events.jsonl`` and its ``report.html``."""

    printed: str
    events: str
    report: bytes


def run_demo() -> DemoRun:
    """Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", "-m", "gitlab_nightshift", "demo", folder]
        printed = _run_in_terminal(command)
        events = next(Path(folder).rglob("events.jsonl")).read_text(encoding="utf-8")
        return DemoRun(printed, events, next(Path(folder).rglob("report.html")).read_bytes())


def _run_in_terminal(command: list[str]) -> str:
    """What a command prints where it may print in colour."""
    ours, its = os.openpty()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=its) as process:
        os.close(its)
        parts = []
        try:
            while part := os.read(ours, 1 << 16):
                parts.append(part)
        except OSError:  # EIO: the terminal's last user has closed it
            pass
        os.close(ours)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return b"".join(parts).decode().replace("\r\n", "\n")


def draw_pictures(demo: DemoRun) -> dict[str, str]:
    """The pictures of a demo, by file name."""
    shown = _REQUEST.search(demo.printed)
    log = "\n".join(collapse(format_log(demo.events)))
    return {
        "night.svg": _draw("the job log of a demo: answers by hand, no model", log),
        "merge-request.svg": _draw("the merge request of a demo", shown[0] if shown else ""),
    }


def format_log(events: str) -> str:
    """The job log in GitLab that these lines of ``events.jsonl`` become."""
    stream = io.StringIO()
    log = JobLog(True, True, str, stream=stream)
    for line in events.splitlines():
        record = {k: v for k, v in json.loads(line).items() if k not in ("time", "run_id")}
        if kind := EVENT_CLASSES.get(record.pop("event")):  # not a program's start or end
            log(make_older_record(kind, record))
    return stream.getvalue()


def collapse(log: str) -> Iterator[str]:
    """The lines that GitLab shows while all sections are closed: of each section its title."""
    depth = 0
    for line in log.split("\n"):
        parts = _MARKER.split(line)  # text, then by turns: start or end, the text after it
        shown = parts[0] if not depth else ""
        for what, text in zip(parts[1::2], parts[2::2], strict=True):
            depth += 1 if what == "start" else -1
            shown += text if not depth or what == "start" else ""
        if shown:
            yield shown


_OF_THIS_RUN = re.compile(
    r"Planted faults \(canaries\): .*?(?=•|▸|✔|The )|✔ `make test`: .*?(?=▸)", re.DOTALL
)


def list_words(picture: str) -> list[str]:
    """What a picture says. Numbers (times, commits) and planted faults differ from run to run, and
    the isolation from machine to machine."""
    parts = [
        each.replace("&#160;", " ") for each in re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    ]
    said = " ".join(each for each in parts if not _OF_THIS_MACHINE.search(each))
    said = _OF_THIS_RUN.sub("", said)
    return re.sub(r"\b[0-9a-f]{8,40}\b|\d+", "0", said).split()


def _draw(title: str, text: str) -> str:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(_STANDIN.sub("https://gitlab.example.com", text)))
    return console.export_svg(title=title, unique_id=re.sub(r"\W+", "-", title))


if __name__ == "__main__":
    for name, picture in draw_pictures(run_demo()).items():
        (DOCS / name).write_text(picture, encoding="utf-8")
        sys.stdout.write(f"{DOCS / name}\n")
