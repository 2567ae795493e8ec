"""What a bead's process is watched for while it runs, and how often its progress is told."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.events import Progress, now_s
from gitlab_nightshift.records import BeadStatus, Usage
from gitlab_nightshift.work.access import BeadAccess
from gitlab_nightshift.work.agents.base import Reader, Report

if TYPE_CHECKING:
    from gitlab_nightshift.work.bead import Bench

PACE_S = 2.0
HEARTBEAT_S = 60.0
LONGEST_TEXT = 500
"""Seconds between two lines at least, and at most; characters of one."""


@dataclass
class Pace:
    """The first text is due at once, then the newest after ``PACE_S``; "…" where there is none."""

    clock: Callable[[], float] = now_s
    _newest: str = ""
    _told_at: float | None = None
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def note(self, text: str) -> None:
        """Remember what the agent does now."""
        self._newest = text[:LONGEST_TEXT]

    def due(self) -> str:
        """The text to tell now; "" where it is not yet time for one."""
        now = self.clock()
        passed = now - (self._began if self._told_at is None else self._told_at)
        early = passed < PACE_S and self._told_at is not None
        text = self._newest or ("…" if passed >= HEARTBEAT_S else "")
        if early or not text:
            return ""
        self._newest, self._told_at = "", now
        return text


class Watch:
    """Shows what a bead is doing, and ends it where the tokens or the provider are gone."""

    def __init__(self, bench: "Bench", reader: Reader, access: BeadAccess) -> None:
        self._bench, self._reader, self._access = bench, reader, access
        self._started, self._pace = now_s(), Pace()
        self._tokens = 0
        self._spent = False
        self._full: Path | None = None

    def line(self, raw: bytes) -> bool:
        """Look at a line of output; True ends the bead."""
        progress = self._reader.line(raw)
        if progress is None:
            return False
        self._tokens = self._tokens if progress.tokens is None else progress.tokens
        if progress.text:
            self._pace.note(progress.text)
            self._show()
        left = self._bench.ledger.left_tokens()
        self._spent = self._spent or (left is not None and (self._used().tokens or 0) >= left)
        return self._spent or bool(progress.unusable)

    def tick(self) -> bool:
        """What has to be done however little is printed; True ends the bead."""
        self._show()
        self._spent = self._spent or self._access.exhausted()
        self._full = self._full or self._bench.disks.full()
        return self._spent or bool(self._full or self._access.unusable())

    def judged(self, report: Report) -> Report:
        """What this program knows stands above what the CLI says of its own failure.

        A full disk fails the bead whatever its agent says: it may be half of what it wrote.
        """
        if full := self._full or self._bench.disks.full():
            error = f"the disk of {full} was full"
            return dataclasses.replace(report, status=BeadStatus.DISK_FULL, error=error)
        if report.status is BeadStatus.OK:
            return report
        if self._spent or self._access.exhausted():
            return dataclasses.replace(report, status=BeadStatus.BUDGET, error="it is spent")
        if why := self._access.unusable():
            return dataclasses.replace(report, status=BeadStatus.UNAVAILABLE, error=why)
        return report

    def _used(self) -> Usage:
        return self._access.usage() or Usage(0.0, self._tokens)

    def _show(self) -> None:
        if text := self._pace.due():
            total = self._bench.ledger.usage() + self._used()
            text = text.replace(f"{self._bench.checkout}/", "")
            elapsed = now_s() - self._started
            self._bench.emit(Progress(text, elapsed, total.cost_usd, total.tokens))
