"""The run's limits: the ledger of what is spent and left, checked before every bead, and the watch
that ends a bead when it reaches one.

The gateway enforces the same budget for each request (``gateway/cost_account.py``).
"""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from gitlab_nightshift.agents.agent import BeadReport, OutputReader
from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus, CommandResult
from gitlab_nightshift.records.events import Progress, read_clock
from gitlab_nightshift.records.products import FailedAttemptRecord, Outcome, Plan
from gitlab_nightshift.records.usage import SpendingLimit, Usage, add_usage
from gitlab_nightshift.repository.disk_space import Disks, DiskWatch
from gitlab_nightshift.stages.work.gateway_access import BeadAccess
from gitlab_nightshift.stages.work.work_context import WorkContext

SMALLEST_USD = 0.01
"""With less than a cent left no bead starts."""
NOTARY_FACTOR = 2
"""The notary's reserved time, as a multiple of the baseline's: it runs the commands on the change,
and those that fail there also without it."""


class Stop(Exception):
    """Ends the run: a limit is reached, or the provider is unusable."""

    def __init__(self, outcome: Outcome, reason: str, code: Code | None = None) -> None:
        super().__init__(reason)
        self.outcome, self.reason, self.code = outcome, reason, code


@dataclass
class Ledger:
    """What the run may spend, and what it has done so far, for the bundle.

    ``deadline`` is a monotonic time in seconds (None: no deadline). ``results`` are those of
    the beads, ``isolation`` describes their boundary, ``baseline`` are the results of the commands
    before the change.
    """

    limit: SpendingLimit
    deadline: float | None
    results: list[BeadResult] = field(default_factory=list)
    failed_attempts: list[FailedAttemptRecord] = field(default_factory=list)
    isolation: str = "not started"
    baseline: tuple[CommandResult, ...] = ()

    def note_failed_attempt(self, category: str, code: Code, why: str) -> None:
        """Record why an attempt at a category's change failed."""
        number = 1 + [each.category for each in self.failed_attempts].count(category)
        self.failed_attempts.append(FailedAttemptRecord(category, number, code.value, why))

    def note_baseline(self, results: tuple[CommandResult, ...]) -> None:
        """Record the commands' results before the change, and bring the deadline forward by at most
        half of the time left, so that the notary has time to run them again."""
        self.baseline = tuple(replace(each, output="") for each in results)
        left_s = self.compute_left_s()
        if self.deadline is not None and left_s is not None:
            needed_s = NOTARY_FACTOR * sum(each.duration_s for each in results)
            self.deadline -= max(min(needed_s, left_s / 2), 0.0)

    def list_usage(self) -> list[Usage]:
        """What each bead has used, failed ones too."""
        return [result.usage for result in self.results]

    def compute_budget_left(self) -> SpendingLimit:
        """USD and tokens left of the run's limits."""
        return self.limit.subtract(self.list_usage())

    def compute_left_s(self) -> float | None:
        """Seconds until the run's deadline; None without one."""
        return None if self.deadline is None else self.deadline - read_clock()

    def is_late(self) -> bool:
        """True once the run's deadline has passed."""
        seconds = self.compute_left_s()
        return seconds is not None and seconds <= 0

    def check(self) -> None:
        """Raise :class:`Stop` if a limit is reached."""
        left = self.compute_budget_left()
        if (left.usd is not None and left.usd < SMALLEST_USD) or left.tokens == 0:
            raise self.build_budget_stop()
        if self.is_late():
            raise self.build_deadline_stop()

    def build_budget_stop(self) -> Stop:
        """The stop for a used-up budget, which is not an error."""
        # The gateway refuses a request that does not fit, while some money and some tokens are
        # left. The reason names the limit of which the smaller share is left.
        limit, left = self.limit, self.compute_budget_left()
        budget = f"${limit.usd:g}"
        if limit.tokens and left.tokens is not None:
            usd_share = (left.usd or 0.0) / limit.usd if limit.usd else 0.0
            if usd_share > left.tokens / limit.tokens:
                budget = f"{limit.tokens} tokens"
        return Stop(Outcome.NO_IMPROVEMENT, f"budget of {budget} reached")

    def build_deadline_stop(self) -> Stop:
        """The stop at the run's deadline."""
        return Stop(Outcome.FAILED, "the run's deadline is reached", Code.TIMEOUT)


def open_ledger(
    plan: Plan, seconds: float | None, earlier_beads: Iterable[BeadResult] = ()
) -> Ledger:
    """The ledger of a run that may take ``seconds`` (None: no deadline), and has already run
    ``earlier_beads``."""
    deadline = None if seconds is None else read_clock() + seconds
    return Ledger(plan.limit, deadline, results=list(earlier_beads))


PACE_S, HEARTBEAT_S = 2.0, 60.0
"""Least and most seconds between two lines of progress."""
LONGEST_TEXT = 500
"""Characters of such a line."""


@dataclass
class Pace:
    """Limits lines of progress: the first text is due at once, then the newest one every
    ``PACE_S``. After ``HEARTBEAT_S`` without a text, "…" is due."""

    clock: Callable[[], float] = read_clock
    _newest: str = ""
    _shown_at: float | None = None
    _started_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._started_at = self.clock()

    def note(self, text: str) -> None:
        """Remember what the agent is doing now."""
        self._newest = text[:LONGEST_TEXT]

    def take_due_text(self) -> str:
        """The text to log now; "" if none is due."""
        now = self.clock()
        passed_s = now - (self._started_at if self._shown_at is None else self._shown_at)
        if self._shown_at is not None and passed_s < PACE_S:
            return ""
        text = self._newest or ("…" if passed_s >= HEARTBEAT_S else "")
        if not text:
            return ""
        self._newest, self._shown_at = "", now
        return text


@dataclass
class Watch:
    """Shows a bead's progress, and ends the bead once the budget is spent, the provider unusable or
    a disk full."""

    work: WorkContext
    ledger: Ledger
    disks: Disks
    reader: OutputReader
    access: BeadAccess
    _started: float = field(default_factory=read_clock)
    _pace: Pace = field(default_factory=Pace)
    _tokens: int = 0
    _spent: bool = False
    _full: Path | None = None

    def __post_init__(self) -> None:
        self._disk_watch = DiskWatch(self.disks)

    def handle_line(self, raw: bytes) -> bool:
        """Read a line of output; True ends the bead."""
        progress = self.reader.read_line(raw)
        if progress is None:
            return False
        self._tokens = self._tokens if progress.tokens is None else progress.tokens
        if progress.text:
            self._pace.note(progress.text)
            self._show()
        left = self.ledger.compute_budget_left().tokens
        self._spent = self._spent or (left is not None and (self._read_usage().tokens or 0) >= left)
        # At once: a CLI might retry until its time limit although the provider refuses the key.
        return self._spent or bool(progress.unusable)

    def tick(self) -> bool:
        """Check limits even while nothing is printed; True ends the bead."""
        self._show()
        state = self.access.read_state()
        self._spent = self._spent or bool(state and state.exhausted)
        self._full = self._full or self._disk_watch.find_full()
        return self._spent or bool(self._full or (state and state.unusable))

    def override_report(self, report: BeadReport) -> BeadReport:
        """The report, with the status corrected where this program knows better than the CLI.

        A full disk fails the bead whatever its agent reports: its files may be truncated.
        """
        if full := self._full or self.disks.find_full():
            error = f"the disk of {full} was full"
            return dataclasses.replace(report, status=BeadStatus.DISK_FULL, error=error)
        if report.status is BeadStatus.OK:
            return report
        state = self.access.read_state()
        if self._spent or (state and state.exhausted):
            return dataclasses.replace(report, status=BeadStatus.BUDGET, error="it is spent")
        if state and state.unusable:
            return dataclasses.replace(report, status=BeadStatus.UNAVAILABLE, error=state.unusable)
        return report

    def _read_usage(self) -> Usage:
        """The bead's usage so far, by the gateway's figures or, without one, the agent's."""
        if state := self.access.read_state():
            return state.usage
        # An agent reports its cost only at the end. With 0 until then the total shows what earlier
        # beads cost; during the first bead it is unknown.
        return Usage(0.0 if self.ledger.results else None, self._tokens)

    def _show(self) -> None:
        if text := self._pace.take_due_text():
            total = add_usage([*self.ledger.list_usage(), self._read_usage()])
            text = text.replace(f"{self.work.checkout}/", "")
            elapsed = read_clock() - self._started
            self.work.emit(Progress(text, elapsed, total.cost_usd, total.tokens))
