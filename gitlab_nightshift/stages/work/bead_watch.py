"""Watches a bead's process: ends it at a limit, and logs its progress at intervals."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.agents.agent import BeadReport, OutputReader
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.events import Progress, read_clock
from gitlab_nightshift.records.usage import Usage, add_usage
from gitlab_nightshift.repository.disk_space import Disks, DiskWatch
from gitlab_nightshift.stages.work.gateway_access import BeadAccess
from gitlab_nightshift.stages.work.run_budget import Ledger
from gitlab_nightshift.stages.work.work_context import WorkContext

PACE_S = 2.0
HEARTBEAT_S = 60.0
LONGEST_TEXT = 500
"""Least and most seconds between two lines; characters of one line."""


@dataclass
class Pace:
    """Paces progress: the first text is due at once, then the newest every ``PACE_S``; after
    ``HEARTBEAT_S`` without a text, "…"."""

    clock: Callable[[], float] = read_clock
    _newest: str = ""
    _noted_at: float | None = None
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def note(self, text: str) -> None:
        """Remember what the agent is doing now."""
        self._newest = text[:LONGEST_TEXT]

    def take_due_text(self) -> str:
        """The text to log now; "" if none is due."""
        now = self.clock()
        passed = now - (self._began if self._noted_at is None else self._noted_at)
        early = passed < PACE_S and self._noted_at is not None
        text = self._newest or ("…" if passed >= HEARTBEAT_S else "")
        if early or not text:
            return ""
        self._newest, self._noted_at = "", now
        return text


class Watch:
    """Shows what a bead is doing, and ends it when tokens, provider or disk run out."""

    def __init__(
        self,
        work: WorkContext,
        ledger: Ledger,
        disks: Disks,
        reader: OutputReader,
        access: BeadAccess,
    ) -> None:
        self._work, self._ledger = work, ledger
        self._disks, self._watch = disks, DiskWatch(disks)
        self._reader, self._access = reader, access
        self._started, self._pace = read_clock(), Pace()
        self._tokens = 0
        self._spent = False
        self._full: Path | None = None

    def handle_line(self, raw: bytes) -> bool:
        """Read a line of output; True ends the bead."""
        progress = self._reader.read_line(raw)
        if progress is None:
            return False
        self._tokens = self._tokens if progress.tokens is None else progress.tokens
        if progress.text:
            self._pace.note(progress.text)
            self._show()
        left = self._ledger.compute_left().tokens
        self._spent = self._spent or (left is not None and (self._read_usage().tokens or 0) >= left)
        # Ended at once: a CLI may retry a provider that refuses the key until its time limit.
        return self._spent or bool(progress.unusable)

    def tick(self) -> bool:
        """Check limits even while nothing is printed; True ends the bead."""
        self._show()
        self._spent = self._spent or self._access.exhausted()
        self._full = self._full or self._watch.find_full()
        return self._spent or bool(self._full or self._access.describe_stop_reason())

    def override_report(self, report: BeadReport) -> BeadReport:
        """The report, corrected by what this program knows better than the CLI.

        A full disk fails the bead whatever its agent reports: its files may be truncated.
        """
        if full := self._full or self._disks.find_full():
            error = f"the disk of {full} was full"
            return dataclasses.replace(report, status=BeadStatus.DISK_FULL, error=error)
        if report.status is BeadStatus.OK:
            return report
        if self._spent or self._access.exhausted():
            return dataclasses.replace(report, status=BeadStatus.BUDGET, error="it is spent")
        if why := self._access.describe_stop_reason():
            return dataclasses.replace(report, status=BeadStatus.UNAVAILABLE, error=why)
        return report

    def _read_usage(self) -> Usage:
        """Without a gateway, what its agent reports: no cost before its end, so until then that of
        the beads before it is told, where there are any."""
        before = 0.0 if self._ledger.results else None
        return self._access.read_usage() or Usage(before, self._tokens)

    def _show(self) -> None:
        if text := self._pace.take_due_text():
            total = add_usage([*self._ledger.list_usage(), self._read_usage()])
            text = text.replace(f"{self._work.checkout}/", "")
            elapsed = read_clock() - self._started
            self._work.emit(Progress(text, elapsed, total.cost_usd, total.tokens))
