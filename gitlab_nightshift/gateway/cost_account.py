"""The cost of a bead's requests: the worst case is reserved before one is sent, and replaced by its
usage once that is known."""

import contextlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gitlab_nightshift.gateway.answer_reader import CallLog, Meter, ReportedUsage
from gitlab_nightshift.gateway.limits import (
    FRAME_TOKENS,
    LEAST_OUTPUT,
    NOTES_PER_BEAD,
    USUAL_OUTPUT,
)
from gitlab_nightshift.gateway.prices import Rates, Tokens
from gitlab_nightshift.gateway.request_body import InputTokens, RequestRefusal
from gitlab_nightshift.records.usage import SpendingLimit, Usage

NOTHING = Tokens()


@dataclass(frozen=True, eq=False)
class Reservation:
    """The tokens reserved for a request (``held``), and its worst case, billed if its answer
    reports no usage. ``max_output`` is the limit to send, in tokens."""

    model: str
    held: Tokens
    worst: Tokens
    max_output: int | None
    usd: float


@dataclass
class Budget:
    """A limit on what some accounts use together: all beads of a run, or a single one. ``on_usage``
    is called before a request is forwarded, and once its cost is known."""

    limit: SpendingLimit = SpendingLimit()
    accounts: list["Account"] = field(default_factory=list)
    on_usage: Callable[[], object] = lambda: None

    def compute_remaining(self) -> SpendingLimit:
        """The part of the limit that is neither used nor reserved."""
        return self.limit.subtract(account.compute_committed() for account in self.accounts)

    def can_exceed_reserved(self) -> bool:
        """True if a pending answer can cost more than is reserved for it."""
        return any(one.held != one.worst for a in self.accounts for one in a.reserved)


class Account:
    """The costs of one bead's requests, within the bead's own ``limit`` and the run's budget."""

    def __init__(
        self,
        bead: str,
        models: frozenset[str],
        placeholder: str,
        rates: Mapping[str, Rates],
        limit: SpendingLimit,
        run_budget: Budget | None = None,
    ) -> None:
        self.bead, self.models, self.closed = bead, models, False
        self.exhausted = False
        self.log = CallLog()
        self._placeholder = placeholder.encode()
        self._rates = rates
        self._run_budget = run_budget or Budget()
        self._run_budget.accounts.append(self)
        self._budgets = (Budget(limit, [self]), self._run_budget)
        self.reserved: list[Reservation] = []
        self._used, self._has_unpriced = Usage(), False
        self._reported_refusals: set[str] = set()

    def has_placeholder(self, given: bytes) -> bool:
        """True for this bead's placeholder. Compares in constant time."""
        # Bytes: compare_digest takes only ASCII in strings (docs.python.org, hmac).
        return hmac.compare_digest(self._placeholder, given) and not self.closed

    def read_usage(self) -> Usage:
        """The usage of all answers so far; the cost is None if a price is unknown."""
        return replace(self._used, cost_usd=None) if self._has_unpriced else self._used

    def remember_refusal(self, text: str) -> bool:
        """True for a refusal to report: a new one, within ``NOTES_PER_BEAD``."""
        if text in self._reported_refusals or len(self._reported_refusals) >= NOTES_PER_BEAD:
            return False
        self._reported_refusals.add(text)
        return True

    def has_price(self, model: str) -> bool:
        """True if the price of a model is known."""
        return model in self._rates

    def reserve(self, model: str, input_tokens: InputTokens, wanted: int | None) -> Reservation:
        """Reserve the cost of a request.

        Its input counts with the usual number of tokens; but with the highest possible number if
        another pending answer can already exceed its reservation, so that only one at a time can.
        The limit of its answer is lowered to the remaining budget, so that the budget can be used
        up. Raises RequestRefusal if less than a short answer would be left, or if no budget can be
        enforced.
        """
        if self._is_unbounded(model):
            raise RequestRefusal(f"no price is known for {model}: set `prices` or max_tokens")
        count = input_tokens.most if self._run_budget.can_exceed_reserved() else input_tokens.usual
        held = self._find_most_expensive(model, count, input_tokens.cache_1h)
        remaining = self._compute_remaining_output(model, held)
        if remaining is not None and remaining < min(LEAST_OUTPUT, wanted or LEAST_OUTPUT):
            raise self._build_budget_refusal()
        limit = wanted if remaining is None else min(wanted or USUAL_OUTPUT, remaining)
        held = replace(held, output=limit or USUAL_OUTPUT)
        worst_input = self._find_most_expensive(model, input_tokens.most, input_tokens.cache_1h)
        worst = replace(worst_input, output=held.output)
        reserved = Reservation(model, held, worst, limit, self._compute_cost(model, held))
        self.reserved.append(reserved)
        self._run_budget.on_usage()
        return reserved

    def renew(self, lost: Reservation) -> Reservation:
        """Reserve the same again for a retry: the last answer was lost, and is billed at its worst
        case. Raises :class:`RequestRefusal` if the budget no longer allows it."""
        self.settle(lost, NOTHING, lost.worst)
        remaining = self._compute_remaining_output(lost.model, replace(lost.held, output=0))
        if remaining is not None and remaining < lost.held.output:
            raise self._build_budget_refusal()
        # A copy: reservations are told apart by identity (eq=False), and this one is settled
        # already.
        again = replace(lost)
        self.reserved.append(again)
        self._run_budget.on_usage()
        return again

    def replace(self, reserved: Reservation, cost: Tokens) -> Reservation:
        """Replace the reserved worst case by the actual cost of an answer."""
        usd = self._compute_cost(reserved.model, cost)
        replaced = replace(reserved, held=cost, worst=cost, usd=usd)
        with contextlib.suppress(ValueError):  # its bead was closed, so all is billed already
            self.reserved[self.reserved.index(reserved)] = replaced
            self._run_budget.on_usage()
        return replaced

    def settle(self, reserved: Reservation, reported: Tokens, assumed: Tokens = NOTHING) -> None:
        """Replace a reservation by the usage of its answer, once.

        ``reported`` comes from the endpoint; ``assumed`` is the worst case of what it left out.
        """
        with contextlib.suppress(ValueError):
            self.reserved.remove(reserved)
            total = reported + assumed
            usd = self._compute_cost(reserved.model, total)
            known_usd = self._compute_cost(reserved.model, reported) if assumed.total else usd
            self._used += Usage(usd, total.total, max(usd - known_usd, 0.0), assumed.total)
            self._has_unpriced = self._has_unpriced or self._is_unpriced(reserved.model, total)
            self._run_budget.on_usage()

    def settle_rest(self) -> None:
        """Bill all reservations at their worst case: no more reports will come."""
        for reserved in tuple(self.reserved):
            self.settle(reserved, NOTHING, reserved.worst)

    def compute_committed(self) -> Usage:
        """The usage and all that is reserved, in USD as far as prices are known."""
        usd, tokens = (sum(r.usd for r in self.reserved), sum(r.held.total for r in self.reserved))
        return self._used + Usage(usd, tokens)

    def compute_most(self) -> Usage:
        """The usage if no pending request reports any: each at its worst case."""
        usd = sum(self._compute_cost(r.model, r.worst) for r in self.reserved)
        tokens = sum(r.worst.total for r in self.reserved)
        unpriced = any(self._is_unpriced(r.model, r.worst) for r in self.reserved)
        return self.read_usage() + Usage(None if unpriced else usd, tokens, usd, tokens)

    def _is_unbounded(self, model: str) -> bool:
        """True if the only budget is in dollars and the model's price is unknown."""
        limits = [budget.limit for budget in self._budgets]
        alone = any(limit.usd is not None and limit.tokens is None for limit in limits)
        return alone and model not in self._rates

    def _is_unpriced(self, model: str, tokens: Tokens) -> bool:
        return model not in self._rates and tokens.total > 0

    def _build_budget_refusal(self) -> RequestRefusal:
        self.exhausted = True
        return RequestRefusal("the night's budget is reached: this request does not fit into it")

    def _find_most_expensive(self, model: str, count: int, cache_1h: bool) -> Tokens:
        """So many input tokens, as the most expensive kind that they can become."""
        # Nobody knows before the answer how much of it the endpoint will cache.
        kinds = [Tokens(written=count), Tokens(input=count)]
        kinds += [Tokens(written_1h=count)] if cache_1h else []
        return max(kinds, key=lambda kind: self._compute_cost(model, kind))

    def _compute_cost(self, model: str, tokens: Tokens) -> float:
        rates = self._rates.get(model)
        return rates.compute_cost(tokens) if rates else 0.0

    def _compute_remaining_output(self, model: str, held_input: Tokens) -> int | None:
        """Output tokens that the remaining budget allows after the input; None: no limit."""
        limits, rates = [], self._rates.get(model)
        for remaining in (budget.compute_remaining() for budget in self._budgets):
            if remaining.usd is not None and rates:
                left_usd = remaining.usd - rates.compute_cost(held_input)
                # Free output has no limit by price.
                if output := rates.pick_rates(held_input).output:
                    limits.append(int(left_usd * 1_000_000 / output))
                elif left_usd < 0:
                    limits.append(0)
            if remaining.tokens is not None:
                limits.append(remaining.tokens - held_input.total)
        return min(limits, default=None)


def compute_billed_tokens(worst: Tokens, metered: ReportedUsage) -> tuple[Tokens, Tokens]:
    """The usage that an answer has reported, and the worst case of what it has not.

    A complete answer without any usage has at most as many tokens as bytes of text, plus
    ``FRAME_TOKENS``.
    """
    worst_input = replace(worst, output=0)
    reported, assumed = metered.tokens, NOTHING
    if reported.total == reported.output:
        assumed = worst_input
    if metered.unreported:
        assumed = replace(assumed, output=min(worst.output, metered.text_bytes + FRAME_TOKENS))
    elif not metered.final:
        assumed = replace(assumed, output=max(worst.output - reported.output, 0))
    return reported, assumed


@dataclass
class Bill:
    """The bill of a request with all its tries. ``reserved`` is None if nothing is billed, and once
    it is settled. ``assumed`` becomes true if a worst case was billed, ``unreported`` if a whole
    answer reported no usage."""

    account: Account
    reserved: Reservation | None
    meter: Meter | None = None
    assumed: bool = False
    unreported: bool = False
    _owed: bool = False

    def begin(self) -> None:
        """Start a try, which is billed from here on. Raises :class:`RequestRefusal` if an earlier
        try was lost and the budget does not allow another."""
        if self._owed and self.reserved:
            lost, self.reserved, self.assumed = self.reserved, None, True
            self.reserved = self.account.renew(lost)
        self._owed = True

    def forgive(self) -> None:
        """The try has cost nothing: it was not sent, or the endpoint refused it."""
        self._owed = False

    def reserve_cost(self) -> None:
        """Reserve the actual cost once an answer's last event is read: the agent may then send its
        next request, while the endpoint still keeps the connection open."""
        if self.reserved and self.meter and self.meter.ended:
            billed = compute_billed_tokens(self.reserved.worst, self.meter.read_usage())
            self.reserved = self.account.replace(self.reserved, sum(billed, NOTHING))

    def settle(self) -> None:
        """Bill the request, once; before the agent sees the end of its answer."""
        if self.reserved is None:
            return
        reserved, self.reserved = self.reserved, None
        reported = assumed = NOTHING
        if self._owed:
            metered = self.meter.end() if self.meter else ReportedUsage(NOTHING, final=False)
            reported, assumed = compute_billed_tokens(reserved.worst, metered)
            self.unreported = metered.unreported
        self.assumed = self.assumed or assumed.total > 0
        self.account.settle(reserved, reported, assumed)
