"""What the run has spent and how long it has: checked before every bead, watched during it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.bead_results import BeadResult, CommandResult, Usage
from gitlab_nightshift.records.events import read_clock
from gitlab_nightshift.records.products import FailedAttemptRecord, Outcome, Plan

SMALLEST_USD = 0.01
"""With less than a cent left nothing is begun."""
NEEDED = 2
"""Times the baseline's seconds that the notary may need."""


class Stop(Exception):
    """The run ends here: a limit, or a provider that cannot be used at all."""

    def __init__(self, outcome: Outcome, reason: str, code: Code | None = None) -> None:
        super().__init__(reason)
        self.outcome, self.reason, self.code = outcome, reason, code


@dataclass
class Ledger:
    """The beads so far, the attempts that were sent back, and the boundary they run in.

    ``deadline`` is a monotonic time in seconds, None without one. ``baseline`` is how the commands
    that prove a change ended before it.
    """

    max_budget_usd: float
    max_tokens: int | None
    deadline: float | None
    started: float = field(default_factory=read_clock)
    results: list[BeadResult] = field(default_factory=list)
    failed_attempts: list[FailedAttemptRecord] = field(default_factory=list)
    isolation: str = "not started"
    baseline: tuple[CommandResult, ...] = ()

    def note_failed_attempt(self, category: str, code: Code, why: str) -> None:
        """Keep why an attempt at a category's change was sent back, for the run's records."""
        number = 1 + sum(each.category == category for each in self.failed_attempts)
        self.failed_attempts.append(FailedAttemptRecord(category, number, code.value, why))

    def note_baseline(self, results: tuple[CommandResult, ...]) -> None:
        """Keep how the commands ended before the change, and back the time that running them once
        more takes, after the work: at most half of what is left."""
        self.baseline = tuple(replace(each, output="") for each in results)
        left_s = self.compute_left_s()
        if self.deadline is not None and left_s is not None:
            needed_s = NEEDED * sum(each.duration_s for each in results)
            self.deadline -= max(min(needed_s, left_s / 2), 0.0)

    def compute_usage(self) -> Usage:
        """Cost and tokens of all beads, failed ones included; unknown stays unknown."""
        return reduce(lambda total, result: total + result.usage, self.results, Usage())

    def compute_left_usd(self) -> float:
        """USD left. A cost that is unknown cannot be counted."""
        spent = sum(result.usage.cost_usd or 0.0 for result in self.results)
        return self.max_budget_usd - spent

    def compute_left_tokens(self) -> int | None:
        """Tokens left; None without a limit."""
        if self.max_tokens is None:
            return None
        return self.max_tokens - sum(result.usage.tokens or 0 for result in self.results)

    def compute_left_s(self) -> float | None:
        """Seconds until the run's deadline; None without one."""
        return None if self.deadline is None else self.deadline - read_clock()

    def late(self) -> bool:
        """True once the run's deadline has passed."""
        seconds = self.compute_left_s()
        return seconds is not None and seconds <= 0

    def check(self) -> None:
        """Raise :class:`Stop` where a limit is reached."""
        if self.compute_left_usd() < SMALLEST_USD:
            raise self.build_budget_stop()
        if (tokens := self.compute_left_tokens()) is not None and tokens <= 0:
            raise self.build_budget_stop()
        if self.late():
            raise self.build_deadline_stop()

    def build_budget_stop(self) -> Stop:
        """The stop where the budget or the tokens are used up; it is no error."""
        tokens = self.compute_left_tokens()
        if tokens is not None and tokens <= 0:
            return Stop(Outcome.NO_IMPROVEMENT, f"budget of {self.max_tokens} tokens reached")
        return Stop(Outcome.NO_IMPROVEMENT, f"budget of ${self.max_budget_usd:g} reached")

    def build_deadline_stop(self) -> Stop:
        """The stop at the run's deadline."""
        return Stop(Outcome.FAILED, "the run's deadline is reached", Code.TIMEOUT)


def open_ledger(plan: Plan, seconds: float | None, before: Iterable[BeadResult] = ()) -> Ledger:
    """A ledger for a run that may take ``seconds`` (None: no deadline), and has had beads
    ``before``."""
    deadline = None if seconds is None else read_clock() + seconds
    return Ledger(plan.max_budget_usd, plan.max_tokens, deadline, results=list(before))
