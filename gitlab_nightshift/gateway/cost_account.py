"""The cost of a bead's requests: before one is sent, its expected cost is reserved; once its usage
is known, that is billed instead."""

import contextlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

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

NO_TOKENS = Tokens()


@dataclass(frozen=True, eq=False)
class Reservation:
    """The ``tokens`` reserved for a request and their cost (``usd``), and its worst case, billed if
    its answer reports no usage. ``max_output`` is the limit to send, in tokens."""

    model: str
    tokens: Tokens
    worst_case: Tokens
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
        reservations = chain.from_iterable(account.reservations for account in self.accounts)
        return any(each.tokens != each.worst_case for each in reservations)


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
        self.reservations: list[Reservation] = []
        self._used, self._has_unpriced = Usage(), False
        self._noted: set[str] = set()

    def has_placeholder(self, key: bytes) -> bool:
        """True for the placeholder of this bead, until it is closed. Compares in constant time."""
        # Bytes: compare_digest takes only ASCII in strings (docs.python.org, hmac).
        return hmac.compare_digest(self._placeholder, key) and not self.closed

    def read_usage(self) -> Usage:
        """The usage of all answers so far; the cost is None if a price is unknown."""
        return replace(self._used, cost_usd=None) if self._has_unpriced else self._used

    def remember_note(self, text: str) -> bool:
        """True for a new text within ``NOTES_PER_BEAD``, which is to be reported."""
        if text in self._noted or len(self._noted) >= NOTES_PER_BEAD:
            return False
        self._noted.add(text)
        return True

    def has_price(self, model: str) -> bool:
        """True if the price of a model is known."""
        return model in self._rates

    def reserve(self, model: str, input_tokens: InputTokens, max_output: int | None) -> Reservation:
        """Reserve the cost of a request, whose client limits the answer to ``max_output`` tokens.

        Its input counts with the usual number of tokens; but with the highest possible number if
        another pending answer can already exceed its reservation, so that only one at a time can.
        The limit of its answer is lowered to what the remaining budget allows. Raises
        RequestRefusal if that is less than a short answer, or if no budget can be enforced.
        """
        if self._is_unbounded(model):
            raise RequestRefusal(f"no price is known for {model}: set `prices` or max_tokens")
        count = input_tokens.most if self._run_budget.can_exceed_reserved() else input_tokens.usual
        tokens = self._find_most_expensive(model, count, input_tokens.cache_1h)
        remaining = self._compute_remaining_output(model, tokens)
        if remaining is not None and remaining < min(LEAST_OUTPUT, max_output or LEAST_OUTPUT):
            raise self._build_budget_refusal()
        limit = max_output if remaining is None else min(max_output or USUAL_OUTPUT, remaining)
        tokens = replace(tokens, output=limit or USUAL_OUTPUT)
        worst_input = self._find_most_expensive(model, input_tokens.most, input_tokens.cache_1h)
        worst_case = replace(worst_input, output=tokens.output)
        usd = self._compute_cost(model, tokens)
        return self._add_reservation(Reservation(model, tokens, worst_case, limit, usd))

    def renew(self, lost: Reservation) -> Reservation:
        """Reserve the same again for a retry: the last answer was lost, and is billed at its worst
        case. Raises :class:`RequestRefusal` if the budget no longer allows it."""
        self.settle(lost, NO_TOKENS, lost.worst_case)
        remaining = self._compute_remaining_output(lost.model, replace(lost.tokens, output=0))
        if remaining is not None and remaining < lost.tokens.output:
            raise self._build_budget_refusal()
        # A copy, as reservations are compared by identity (eq=False), and this one is settled.
        return self._add_reservation(replace(lost))

    def _add_reservation(self, reservation: Reservation) -> Reservation:
        self.reservations.append(reservation)
        self._run_budget.on_usage()
        return reservation

    def update_reservation(self, reservation: Reservation, used: Tokens) -> Reservation:
        """Reserve what an answer has actually used, instead of its worst case."""
        usd = self._compute_cost(reservation.model, used)
        updated = replace(reservation, tokens=used, worst_case=used, usd=usd)
        with contextlib.suppress(ValueError):  # its bead was closed, so all is billed already
            self.reservations[self.reservations.index(reservation)] = updated
            self._run_budget.on_usage()
        return updated

    def settle(
        self, reservation: Reservation, reported: Tokens, assumed: Tokens = NO_TOKENS
    ) -> None:
        """Bill the usage of an answer instead of its reservation, once.

        ``reported`` comes from the endpoint; ``assumed`` is the worst case of what it left out.
        """
        with contextlib.suppress(ValueError):
            self.reservations.remove(reservation)
            total, model = reported + assumed, reservation.model
            usd = self._compute_cost(model, total)
            reported_usd = self._compute_cost(model, reported) if assumed.total else usd
            self._used += Usage(usd, total.total, max(usd - reported_usd, 0.0), assumed.total)
            self._has_unpriced = self._has_unpriced or self._is_unpriced(model, total)
            self._run_budget.on_usage()

    def settle_all(self) -> None:
        """Bill all reservations at their worst case: no more reports will come."""
        for reservation in tuple(self.reservations):
            self.settle(reservation, NO_TOKENS, reservation.worst_case)

    def compute_committed(self) -> Usage:
        """The usage and all that is reserved, in USD as far as prices are known."""
        usd = sum(each.usd for each in self.reservations)
        return self._used + Usage(usd, sum(each.tokens.total for each in self.reservations))

    def compute_worst_case(self) -> Usage:
        """The usage if no pending request reports any: each at its worst case."""
        pending = [(each.model, each.worst_case) for each in self.reservations]
        usd = sum(self._compute_cost(model, worst_case) for model, worst_case in pending)
        tokens = sum(worst_case.total for _, worst_case in pending)
        unpriced = any(self._is_unpriced(model, worst_case) for model, worst_case in pending)
        return self.read_usage() + Usage(None if unpriced else usd, tokens, usd, tokens)

    def _is_unbounded(self, model: str) -> bool:
        """True if a budget is in dollars alone, and the model's price is unknown."""
        limits = [budget.limit for budget in self._budgets]
        usd_only = any(limit.usd is not None and limit.tokens is None for limit in limits)
        return usd_only and not self.has_price(model)

    def _is_unpriced(self, model: str, tokens: Tokens) -> bool:
        return not self.has_price(model) and tokens.total > 0

    def _build_budget_refusal(self) -> RequestRefusal:
        self.exhausted = True
        return RequestRefusal("the night's budget is reached: this request does not fit into it")

    def _find_most_expensive(self, model: str, count: int, cache_1h: bool) -> Tokens:
        """``count`` input tokens, as the most expensive kind that they can become."""
        # Nobody knows before the answer how much of the input the endpoint will cache.
        kinds = [Tokens(written=count), Tokens(input=count)]
        kinds += [Tokens(written_1h=count)] if cache_1h else []
        return max(kinds, key=lambda kind: self._compute_cost(model, kind))

    def _compute_cost(self, model: str, tokens: Tokens) -> float:
        rates = self._rates.get(model)
        return rates.compute_cost(tokens) if rates else 0.0

    def _compute_remaining_output(self, model: str, input_tokens: Tokens) -> int | None:
        """Output tokens that the remaining budget allows after the input; None: no limit."""
        limits, rates = [], self._rates.get(model)
        for remaining in (budget.compute_remaining() for budget in self._budgets):
            if remaining.usd is not None and rates:
                left_usd = remaining.usd - rates.compute_cost(input_tokens)
                # Free output has no limit by price.
                if output_rate := rates.pick_rates(input_tokens).output:
                    limits.append(int(left_usd * 1_000_000 / output_rate))
                elif left_usd < 0:
                    limits.append(0)
            if remaining.tokens is not None:
                limits.append(remaining.tokens - input_tokens.total)
        return min(limits, default=None)


def compute_billed_tokens(worst_case: Tokens, usage: ReportedUsage) -> tuple[Tokens, Tokens]:
    """The tokens that an answer has reported, and the worst case of what it has not.

    A complete answer without any usage has at most as many tokens as bytes of text, plus
    ``FRAME_TOKENS``.
    """
    reported, assumed = usage.tokens, NO_TOKENS
    if reported.total == reported.output:  # no input
        assumed = replace(worst_case, output=0)
    if usage.is_missing:
        assumed = replace(assumed, output=min(worst_case.output, usage.text_bytes + FRAME_TOKENS))
    elif not usage.final:
        assumed = replace(assumed, output=max(worst_case.output - reported.output, 0))
    return reported, assumed


@dataclass
class Bill:
    """The bill of a request with all its tries. ``reservation`` is None if nothing is billed, and
    once it is settled. ``has_worst_case`` becomes true if a worst case was billed,
    ``has_no_usage`` if a complete answer reported no usage."""

    account: Account
    reservation: Reservation | None
    meter: Meter | None = None
    has_worst_case: bool = False
    has_no_usage: bool = False
    _owed: bool = False

    def begin(self) -> None:
        """Start a try, which is billed from here on. Raises :class:`RequestRefusal` if an earlier
        try was lost and the budget does not allow another."""
        if self._owed and self.reservation:
            lost, self.reservation, self.has_worst_case = self.reservation, None, True
            self.reservation = self.account.renew(lost)
        self._owed = True

    def forgive(self) -> None:
        """The try has cost nothing: it was not sent, or the endpoint refused it."""
        self._owed = False

    def reserve_cost(self) -> None:
        """Reserve the actual cost once an answer's last event is read: the agent may then send its
        next request, while the endpoint still keeps the connection open."""
        if self.reservation and self.meter and self.meter.ended:
            usage = self.meter.read_usage()
            reported, assumed = compute_billed_tokens(self.reservation.worst_case, usage)
            self.reservation = self.account.update_reservation(self.reservation, reported + assumed)

    def settle(self) -> None:
        """Bill the request, once; before the agent sees the end of its answer."""
        if self.reservation is None:
            return
        reservation, self.reservation = self.reservation, None
        reported = assumed = NO_TOKENS
        if self._owed:
            usage = self.meter.end() if self.meter else ReportedUsage(NO_TOKENS, final=False)
            reported, assumed = compute_billed_tokens(reservation.worst_case, usage)
            self.has_no_usage = usage.is_missing
        self.has_worst_case = self.has_worst_case or assumed.total > 0
        self.account.settle(reservation, reported, assumed)
