"""What the run has spent and how long it has: asked before every bead, watched during it."""

from dataclasses import dataclass, field
from functools import reduce

from gitlab_nightshift.errors import Code
from gitlab_nightshift.events import now_s
from gitlab_nightshift.records import BeadResult, Outcome, Plan, Usage

SMALLEST_USD = 0.01
"""With less than a cent left nothing is begun."""


class Stop(Exception):
    """The run ends here: a limit, or a provider that cannot be used at all."""

    def __init__(self, outcome: Outcome, reason: str, code: Code | None = None) -> None:
        super().__init__(reason)
        self.outcome, self.reason, self.code = outcome, reason, code


@dataclass
class Ledger:
    """The beads so far, and the boundary they run in.

    ``deadline`` is a monotonic time in seconds, None without one.
    """

    max_budget_usd: float
    max_tokens: int | None
    deadline: float | None
    started: float = field(default_factory=now_s)
    results: list[BeadResult] = field(default_factory=list)
    isolation: str = "not started"

    def usage(self) -> Usage:
        """Cost and tokens of all beads, failed ones included; unknown stays unknown."""
        return reduce(lambda total, result: total + result.usage, self.results, Usage())

    def left_usd(self) -> float:
        """USD left. A cost that is unknown cannot be counted."""
        spent = sum(result.usage.cost_usd or 0.0 for result in self.results)
        return self.max_budget_usd - spent

    def left_tokens(self) -> int | None:
        """Tokens left; None without a limit."""
        if self.max_tokens is None:
            return None
        return self.max_tokens - sum(result.usage.tokens or 0 for result in self.results)

    def left_s(self) -> float | None:
        """Seconds until the run's deadline; None without one."""
        return None if self.deadline is None else self.deadline - now_s()

    def late(self) -> bool:
        """True once the run's deadline has passed."""
        seconds = self.left_s()
        return seconds is not None and seconds <= 0

    def check(self) -> None:
        """Raise :class:`Stop` where a limit is reached."""
        if self.left_usd() < SMALLEST_USD:
            raise self.budget_reached()
        if (tokens := self.left_tokens()) is not None and tokens <= 0:
            raise self.budget_reached()
        if self.late():
            raise self.deadline_reached()

    def budget_reached(self) -> Stop:
        """The end of the money, or of the tokens: no alarm."""
        tokens = self.left_tokens()
        if tokens is not None and tokens <= 0:
            return Stop(Outcome.NO_IMPROVEMENT, f"budget of {self.max_tokens} tokens reached")
        return Stop(Outcome.NO_IMPROVEMENT, f"budget of ${self.max_budget_usd:g} reached")

    def deadline_reached(self) -> Stop:
        """The run's deadline."""
        return Stop(Outcome.FAILED, "the run's deadline is reached", Code.TIMEOUT)


def open_ledger(plan: Plan, seconds: float | None) -> Ledger:
    """A ledger for a run that may take ``seconds`` (None: no deadline)."""
    deadline = None if seconds is None else now_s() + seconds
    return Ledger(plan.max_budget_usd, plan.max_tokens, deadline)
