"""The GitLab job log: collapsible sections, live progress, one clear last line.

Outside CI the text is the same, without the section markers. Agents' texts are reduced to one line
of printable characters: they cannot contain a marker, a color or a line break. The log is bounded,
but its end is always printed.
"""

import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Literal, TextIO

from gitlab_nightshift import __version__
from gitlab_nightshift.errors import Code, is_disk_full
from gitlab_nightshift.records import events
from gitlab_nightshift.records.events import Event, RunEnded, format_elapsed
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.records.usage import Usage, format_cost
from gitlab_nightshift.registry.sandbox_guarantees import GuaranteeState
from gitlab_nightshift.text.printable_text import make_printable

WIDTH, LONGEST_KEY = 160, 100
"""Characters of a line, and of a section's name."""
MOST_BYTES, LAST_BYTES = 1_000_000, 20_000
"""The limit of a log, and how much of it is reserved for its end: the result, closed sections."""
MOST_OPEN = 50
"""Open sections; more get no markers, so that all end markers fit into ``LAST_BYTES``."""
_BEADS = ("analyze", "implement", "verify", "mr")
CUT = "the log ends here, at 1 MB: the rest is in events.jsonl, which is in the artifacts"
_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_SUCCESSFUL = {Outcome.MR_CREATED, Outcome.MR_READY}


def format_line(text: str, width: int = WIDTH) -> str:
    """A text as one printable line of at most ``width`` characters."""
    # Cut first, as an agent's text may have a megabyte; unprintable characters may be removed.
    line = make_printable(text.lstrip()[: 4 * width]).strip()
    return line if len(line) <= width else line[: width - 1] + "…"


def _describe_effort(result: RunResult) -> str:
    """Category, duration and cost."""
    category = "" if result.category_used == "none" else format_line(result.category_used)
    parts = (category, format_elapsed(result.total_duration_s), format_cost(result.usage))
    return ", ".join(filter(None, parts))


@dataclass
class JobLog:
    """A sink that prints events to ``stream``, by default stdout.

    ``sections``: each step is a collapsible section. ``programs``: each program is shown when it
    starts. ``open`` has the keys of the open sections; ``bytes_left`` may still be printed.
    """

    sections: bool
    colour: bool
    redact: Callable[[str], str]
    open: list[str] = field(default_factory=list)
    stream: TextIO | None = None
    programs: bool = False
    bytes_left: int = MOST_BYTES - LAST_BYTES

    def __call__(self, event: Event) -> None:
        """Print one event; after ``MOST_BYTES`` only the end."""
        if isinstance(event, RunEnded):
            self.bytes_left += LAST_BYTES
        if self.bytes_left:
            self._show(map_texts(event, self.redact))

    @singledispatchmethod
    def _show(self, event: Event) -> None:
        raise NotImplementedError(type(event).__name__)

    @_show.register
    def _(self, event: events.RunStarted) -> None:
        self._print(self._paint(f"nightshift {__version__} · {format_line(event.project)}", "bold"))
        for fact in event.facts:
            self._print(self._paint(f"  {format_line(fact, 400)}", "dim"))

    @_show.register
    def _(self, event: events.StepStarted) -> None:
        if event.phase:
            self._print(self._paint(f"■ {format_line(event.title)}", "bold"))
            return
        title = self._paint(f"▸ {format_line(event.title)}", "cyan", "bold")
        has_section = len(self.open) < MOST_OPEN
        # A bead's section is not collapsed: whoever watches the job sees the agent's progress.
        options = "" if event.key.partition("-")[0] in _BEADS else "[collapsed=true]"
        marker = self._format_marker("start", event.key, options) if has_section else ""
        if self._print(marker + title) and has_section:
            self.open.append(event.key)

    @_show.register
    def _(self, event: events.StepEnded) -> None:
        if event.phase:
            if not event.ok:
                text = f"  {format_line(event.key)}: {format_line(event.text, 400)}"
                self._print(self._paint(text, "yellow"))
            return
        if event.key in self.open:
            self.open.remove(event.key)
            if self.sections:
                self._print(self._format_marker("end", event.key), end="")
        mark = self._paint("✔", "green") if event.ok else self._paint("✘", "yellow")
        self._print(f"  {mark} {format_line(event.text, 400)}")

    @_show.register
    def _(self, event: events.Progress) -> None:
        cost = self._paint(format_cost(Usage(event.cost_usd, event.tokens)), "dim")
        text = format_line(event.text, WIDTH - 40)
        self._print(f"    {format_elapsed(event.elapsed_s):>7}  {text}  {cost}")

    @_show.register
    def _(self, event: events.BeadEnded) -> None:
        result = event.result
        for denied in result.denied[:10]:
            self._print(self._paint(f"    denied: {format_line(denied)}", "yellow"))
        duration, cost = format_elapsed(result.duration_s), format_cost(result.usage)
        text = f"    {result.bead}: {result.status.value} · {duration} · {cost}"
        error = "" if result.ok else f" · {format_line(result.error)}".rstrip(" ·")
        self._print(self._paint(text + error, "dim" if result.ok else "yellow"))

    @_show.register
    def _(self, event: events.CommandEnded) -> None:
        result = event.result
        ending = format_line(result.error or f"exit status {result.exit_status}")
        mark = self._paint("✔", "green") if result.ok else self._paint("✘", "red")
        duration = format_elapsed(result.duration_s)
        self._print(f"    {mark} {format_line(result.command)} · {ending} · {duration}")

    @_show.register
    def _(self, event: events.Note) -> None:
        style = ("yellow",) if event.warning else ()
        prefix = "warning: " if event.warning else ""
        self._print(self._paint(f"  {prefix}{format_line(event.text, 400)}", *style))

    @_show.register
    def _(self, event: events.BoundaryChosen) -> None:
        for tier, why in event.passed_over:
            self._print(f"  {tier} does not work here: {format_line(why, 400)}")
        for guarantee in event.guarantees:
            style = () if guarantee.state is GuaranteeState.HELD else ("yellow",)
            self._print(self._paint(f"  {format_line(str(guarantee), 400)}", *style))

    @_show.register
    def _(self, event: events.BoundaryProven) -> None:
        count = sum(row.attempts for row in event.rows)
        broken = [row.title for row in event.rows if row.state is GuaranteeState.BROKEN]
        result = f"through: {', '.join(broken)}" if broken else "it held"
        self._print(f"  sandbox attacked from inside in {count} ways: {result}")

    @_show.register
    def _(self, event: RunEnded) -> None:
        self._write(self._close_sections())
        result = event.result
        style = "green" if result.outcome in _SUCCESSFUL else "cyan"
        if result.error_code:
            style = "yellow" if result.error_code == Code.INCOMPLETE else "red"
        mark = {"green": "✔", "cyan": "○", "yellow": "⚠", "red": "✘"}[style]
        reason = format_line(result.reason, 400)
        if result.outcome is Outcome.MR_READY and result.change and not result.error_code:
            reason += f": {format_line(result.title)} ({result.change})"
        # The URL of a new merge request says enough.
        if result.outcome is Outcome.MR_CREATED and result.mr_url and not result.error_code:
            reason = ""
        parts = [
            f"{mark} {result.outcome.value}",
            result.error_code,
            format_line(result.mr_url),
            reason,
            _describe_effort(result),
        ]
        self._print(self._paint(" · ".join(part for part in parts if part), style, "bold"))

    def close(self) -> None:
        """Close the sections that a killed run left open: they would contain all later output."""
        self._write(self._close_sections())

    @_show.register
    def _(self, event: events.ProgramStarted) -> None:
        if self.programs:
            self._print(self._paint(f"    $ {format_line(event.command)}", "dim"))

    @_show.register
    def _(self, event: events.ProgramEnded) -> None:
        """Print nothing: the ends of beads and commands have events of their own."""

    @_show.register
    def _(self, event: events.ArtifactWritten) -> None:
        self._print(self._paint(f"  {event.kind}: {format_line(event.path, 400)}", "dim"))

    @_show.register
    def _(self, event: events.GateRequired) -> None:
        self._print(f"  gate {event.gate}: an approval is needed: {format_line(event.why, 400)}")

    @_show.register
    def _(self, event: events.GateApproved) -> None:
        self._print(f"  gate {event.gate}: approved by {format_line(event.by)}")

    @_show.register
    def _(self, event: events.GateDenied) -> None:
        self._print(self._paint(f"  gate {event.gate}: {format_line(event.why, 400)}", "yellow"))

    def _format_marker(self, kind: Literal["start", "end"], key: str, options: str = "") -> str:
        if not self.sections:
            return ""
        # docs.gitlab.com/ci/jobs/job_logs, custom collapsible sections: a name has only letters,
        # digits, "_", "." and "-", and the markers of one section must have the same name.
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", key[:LONGEST_KEY])
        return f"\x1b[0Ksection_{kind}:{int(time.time())}:{name}{options}\r\x1b[0K"

    def _paint(self, text: str, *styles: str) -> str:
        if not self.colour or not styles:
            return text
        return f"\x1b[{';'.join(_COLOURS[style] for style in styles)}m{text}\x1b[0m"

    def _close_sections(self) -> str:
        """The markers that close all open sections."""
        ends = "".join(self._format_marker("end", key) for key in reversed(self.open))
        self.open.clear()
        return ends

    def _print(self, text: str, end: str = "\n") -> bool:
        """Print a text if it fits; if not, say once that the log ends here, and return False."""
        size = len((text + end).encode("utf-8", "backslashreplace"))
        if size >= self.bytes_left:
            if self.bytes_left:
                warning = self._paint(f"  warning: {CUT}", "yellow")
                self._write(f"{self._close_sections()}{warning}\n")
            self.bytes_left = 0
            return False
        self.bytes_left -= size
        self._write(text + end)
        return True

    def _write(self, text: str) -> None:
        stream = self.stream or sys.stdout
        try:
            print(text, end="", flush=True, file=stream)
        except BrokenPipeError:  # the reader has ended, as with `| head`: the night goes on
            # Otherwise the flush at exit fails, too (Python's module signal, Note on SIGPIPE).
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except OSError as error:  # a file on a full disk: the night goes on, too
            if not is_disk_full(error):
                raise
