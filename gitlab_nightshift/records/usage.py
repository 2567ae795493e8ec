"""What agents use of their models, in dollars and tokens: one record, one sum, one way to say it.

The gateway counts what agents use through it; without one the agent's own figures count. Each
bead's usage is in its result; a run's is their sum.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self, TypeVar

Bound = Literal["", "at least", "at most"]
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Usage:
    """What a bead or a run has used. None is unknown, and so is a sum with an unknown part.

    ``assumed_usd`` and ``assumed_tokens`` are the part that no endpoint has reported: the worst
    case of answers whose end did not arrive. With it the sum is the most that can have been used.
    """

    cost_usd: float | None = 0.0
    tokens: int | None = 0
    assumed_usd: float = 0.0
    assumed_tokens: int = 0

    @property
    def bound(self) -> Bound:
        """What to print before the sums."""
        # Tokens, as the assumed cost is 0 for a model without a price.
        return "at most" if self.assumed_tokens else ""

    def __add__(self, other: Self) -> "Usage":
        return Usage(
            _add_amounts(self.cost_usd, other.cost_usd),
            _add_amounts(self.tokens, other.tokens),
            self.assumed_usd + other.assumed_usd,
            self.assumed_tokens + other.assumed_tokens,
        )


UNKNOWN_USAGE = Usage(None, None)


def add_usage(parts: Iterable[Usage]) -> Usage:
    """The sum over requests, beads or runs."""
    return sum(parts, Usage())


def _add_amounts(left: Number | None, right: Number | None) -> Number | None:
    return None if left is None or right is None else left + right


@dataclass(frozen=True)
class SpendingLimit:
    """USD and tokens that may be used; None: no limit."""

    usd: float | None = None
    tokens: int | None = None

    def subtract(self, used: Iterable[Usage]) -> "SpendingLimit":
        """What is left of it, at least 0. Unknown usage counts as none: no limit can be enforced
        on it."""
        parts = tuple(used)
        return SpendingLimit(
            _subtract(self.usd, [part.cost_usd or 0.0 for part in parts]),
            _subtract(self.tokens, [part.tokens or 0 for part in parts]),
        )


def _subtract(limit: Number | None, amounts: Iterable[Number]) -> Number | None:
    return None if limit is None else max(limit - sum(amounts), type(limit)(0))


# --- words ----------------------------------------------------------------------------------------


def format_usd(usd: float | None, bound: Bound = "") -> str:
    """``at least $1.20``. A cost below a cent has four decimals, as ``$0.00`` would mean none."""
    if usd is None:
        return "not known"
    return f"{bound} ${usd:.{4 if 0 < usd < 0.01 else 2}f}".lstrip()


def format_cost(usage: Usage) -> str:
    """Cost and tokens for a log line, with the part that is assumed."""
    if usage == Usage():
        return "nothing spent"
    known = usage.cost_usd is not None
    money = format_usd(usage.cost_usd, usage.bound) if known else "cost not known"
    if usage.tokens is None:
        return money
    tokens = _format_tokens(usage.tokens)
    text = f"{money}, {tokens}" if known else f"{money}, {usage.bound} {tokens}".replace("  ", " ")
    if not usage.bound:
        return text
    guess = format_usd(usage.assumed_usd) if known else _format_tokens(usage.assumed_tokens)
    return f"{text} ({guess} of it assumed: the end of an answer was not seen)"


def _format_tokens(tokens: int) -> str:
    return f"{tokens / 1000:.0f}k tokens" if tokens >= 1000 else f"{tokens} tokens"
