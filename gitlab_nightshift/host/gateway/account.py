"""What a bead may ask and has used: reserved before a request goes on, settled after it."""

import hmac
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gitlab_nightshift.host.gateway.limits import (
    LEAST_OUTPUT,
    NOTES_PER_BEAD,
    USUAL_OUTPUT,
)
from gitlab_nightshift.host.gateway.prices import Rates, Tokens
from gitlab_nightshift.host.gateway.refusal import Refusal
from gitlab_nightshift.records import Usage


@dataclass(frozen=True)
class Reserved:
    """What a request may cost at most; ``max_output`` is the limit to send, in tokens."""

    model: str
    input: int
    max_output: int | None
    tokens: int
    usd: float


class Account:
    """One bead's requests. Asked from the gateway's thread and from the caller's.

    ``budget_usd`` and ``budget_tokens`` are what is left of the run, None without a limit.
    """

    def __init__(
        self,
        bead: str,
        models: frozenset[str],
        placeholder: str,
        rates: Mapping[str, Rates],
        budget_usd: float | None,
        budget_tokens: int | None,
    ) -> None:
        self.bead, self.models, self.closed = bead, models, False
        self.exhausted = False
        self._placeholder = placeholder.encode()
        self._rates = rates
        self._budget_usd, self._budget_tokens = budget_usd, budget_tokens
        self._lock = threading.Lock()
        self._reserved: list[Reserved] = []
        self._usd, self._tokens, self._unknown = 0.0, 0, False
        self._told: set[str] = set()

    def opens(self, given: bytes) -> bool:
        """True for this bead's placeholder, in a time that tells nothing of it."""
        return hmac.compare_digest(self._placeholder, given) and not self.closed

    def usage(self) -> Usage:
        """What all answers so far have used; a cost without a price is unknown."""
        with self._lock:
            return Usage(None if self._unknown else self._usd, self._tokens)

    def tells(self, text: str) -> bool:
        """True for a refusal worth an event: new, and not one of very many."""
        with self._lock:
            if text in self._told or len(self._told) >= NOTES_PER_BEAD:
                return False
            self._told.add(text)
            return True

    def priced(self, model: str) -> bool:
        """True where the price of a model is known."""
        return model in self._rates

    def reserve(self, model: str, asked: int, wanted: int | None) -> Reserved:
        """Set aside the worst case of a request of ``asked`` tokens.

        The limit of its answer is lowered to what is left, so that the budget can be used up to its
        end. Raises :class:`Refusal` where less than a short answer would be left.
        """
        with self._lock:
            room = self._room(model, asked)
            if room is not None and room < min(LEAST_OUTPUT, wanted or LEAST_OUTPUT):
                self.exhausted = True
                raise Refusal("the night's budget is reached: this request does not fit into it")
            limit = wanted if room is None else min(wanted or USUAL_OUTPUT, room)
            rates = self._rates.get(model)
            worst = Tokens(written=asked, output=limit or 0)
            usd = rates.cost(worst) if rates else 0.0
            reserved = Reserved(model, asked, limit, worst.total, usd)
            self._reserved.append(reserved)
            return reserved

    def settle(self, reserved: Reserved, used: Tokens) -> None:
        """Put what was used in the place of what was reserved."""
        with self._lock:
            self._reserved = [r for r in self._reserved if r is not reserved]
            rates = self._rates.get(reserved.model)
            self._tokens += used.total
            self._usd += rates.cost(used) if rates else 0.0
            self._unknown = self._unknown or (rates is None and used.total > 0)

    def _room(self, model: str, asked: int) -> int | None:
        """Tokens of output that fit into what is left after ``asked`` tokens of input."""
        rooms = []
        rates = self._rates.get(model)
        if self._budget_usd is not None and rates and rates.output:
            left = self._budget_usd - self._usd - sum(r.usd for r in self._reserved)
            left -= rates.cost(Tokens(written=asked))
            rooms.append(int(left * 1_000_000 / rates.output))
        if self._budget_tokens is not None:
            held = self._tokens + sum(r.tokens for r in self._reserved)
            rooms.append(self._budget_tokens - held - asked)
        return min(rooms, default=None)


def billed(reserved: Reserved, seen: Tokens) -> Tokens:
    """The tokens of an answer; one that did not tell its input is billed as it was reserved."""
    told = seen.input or seen.cached or seen.written or seen.written_1h
    return seen if told else replace(seen, input=reserved.input)
