"""The run's spending and remaining time, checked before every bead.

During one, ``bead_watch.py`` watches it, and the gateway refuses each request that exceeds it
(``gateway/cost_account.py``).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.bead_results import BeadResult, CommandResult
from gitlab_nightshift.records.events import read_clock
from gitlab_nightshift.records.products import FailedAttemptRecord, Outcome, Plan
from gitlab_nightshift.records.usage import SpendingLimit, Usage

SMALLEST_USD = 0.01
"""With less than a cent left no bead starts."""
NOTARY_SHARE = 2
"""Time reserved for the notary, in durations of the baseline."""


class Stop(Exception):
    """Ends the run: a limit is reached, or the provider is unusable."""

    def __init__(self, outcome: Outcome, reason: str, code: Code | None = None) -> None:
        super().__init__(reason)
        self.outcome, self.reason, self.code = outcome, reason, code


@dataclass
class Ledger:
    """The beads so far, the failed attempts, and the boundary they run in.

    ``deadline`` is a monotonic time in seconds, None without one. ``baseline`` are the results of
    the commands before the change.
    """

    limit: SpendingLimit
    deadline: float | None
    started: float = field(default_factory=read_clock)
    results: list[BeadResult] = field(default_factory=list)
    failed_attempts: list[FailedAttemptRecord] = field(default_factory=list)
    isolation: str = "not started"
    baseline: tuple[CommandResult, ...] = ()

    def note_failed_attempt(self, category: str, code: Code, why: str) -> None:
        """Record why an attempt at a category's change failed."""
        number = 1 + sum(each.category == category for each in self.failed_attempts)
        self.failed_attempts.append(FailedAttemptRecord(category, number, code.value, why))

    def note_baseline(self, results: tuple[CommandResult, ...]) -> None:
        """Record the commands' results before the change, and reserve time for the notary to run
        them again after the work: at most half of what is left."""
        self.baseline = tuple(replace(each, output="") for each in results)
        left_s = self.compute_left_s()
        if self.deadline is not None and left_s is not None:
            needed_s = NOTARY_SHARE * sum(each.duration_s for each in results)
            self.deadline -= max(min(needed_s, left_s / 2), 0.0)

    def list_usage(self) -> list[Usage]:
        """What each bead has used, failed ones too."""
        return [result.usage for result in self.results]

    def compute_left(self) -> SpendingLimit:
        """USD and tokens left of the run's limits."""
        return self.limit.subtract(self.list_usage())

    def compute_left_s(self) -> float | None:
        """Seconds until the run's deadline; None without one."""
        return None if self.deadline is None else self.deadline - read_clock()

    def late(self) -> bool:
        """True once the run's deadline has passed."""
        seconds = self.compute_left_s()
        return seconds is not None and seconds <= 0

    def check(self) -> None:
        """Raise :class:`Stop` if a limit is reached."""
        left = self.compute_left()
        if (left.usd is not None and left.usd < SMALLEST_USD) or left.tokens == 0:
            raise self.build_budget_stop()
        if self.late():
            raise self.build_deadline_stop()

    def build_budget_stop(self) -> Stop:
        """The stop for a used-up budget, which is not an error.

        A request that does not fit stops the run while something of each limit is left: the one
        with less left is named.
        """
        limit, left = self.limit, self.compute_left()
        budget = f"${limit.usd:g}"
        if limit.tokens and left.tokens is not None:
            usd_part = (left.usd or 0.0) / limit.usd if limit.usd else 0.0
            budget = budget if usd_part <= left.tokens / limit.tokens else f"{limit.tokens} tokens"
        return Stop(Outcome.NO_IMPROVEMENT, f"budget of {budget} reached")

    def build_deadline_stop(self) -> Stop:
        """The stop at the run's deadline."""
        return Stop(Outcome.FAILED, "the run's deadline is reached", Code.TIMEOUT)


def open_ledger(plan: Plan, seconds: float | None, before: Iterable[BeadResult] = ()) -> Ledger:
    """A ledger for a run that may take ``seconds`` (None: no deadline), after the beads
    ``before``."""
    deadline = None if seconds is None else read_clock() + seconds
    return Ledger(plan.limit, deadline, results=list(before))
