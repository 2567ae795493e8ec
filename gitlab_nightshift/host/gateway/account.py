"""What a bead may ask and has used: reserved before a request goes on, settled after it."""

import contextlib
import hmac
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gitlab_nightshift.host.gateway.limits import (
    LEAST_OUTPUT,
    NOTES_PER_BEAD,
    USUAL_OUTPUT,
)
from gitlab_nightshift.host.gateway.meter import Metered
from gitlab_nightshift.host.gateway.prices import Rates, Tokens
from gitlab_nightshift.host.gateway.refusal import Refusal
from gitlab_nightshift.host.gateway.shape import Input
from gitlab_nightshift.records import Usage

NOTHING = Tokens()


@dataclass(frozen=True, eq=False)
class Reserved:
    """What is set aside for a request, and the worst case that is billed where nothing is told of
    its answer; ``max_output`` is the limit to send, in tokens."""

    model: str
    held: Tokens
    worst: Tokens
    max_output: int | None
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
        self._lock = threading.RLock()
        self._reserved: list[Reserved] = []
        self._used, self._unknown = Usage(), False
        self._told: set[str] = set()

    def opens(self, given: bytes) -> bool:
        """True for this bead's placeholder, in a time that tells nothing of it."""
        return hmac.compare_digest(self._placeholder, given) and not self.closed

    def usage(self) -> Usage:
        """What all answers so far have used; a cost without a price is unknown."""
        with self._lock:
            return replace(self._used, cost_usd=None) if self._unknown else self._used

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

    def reserve(self, model: str, asked: Input, wanted: int | None) -> Reserved:
        """Set aside the worst case of a request.

        Its input is what such text usually has, and what it can have at most where another request
        is on its way: however dense the text is, only one answer at a time can cost more than was
        set aside for it. The limit of its answer is lowered to what is left, so that the budget can
        be used up to its end. Raises :class:`Refusal` where less than a short answer would be left,
        and where no budget could hold.
        """
        with self._lock:
            if self._unbounded(model):
                raise Refusal(f"no price is known for {model}: set `prices` or max_tokens")
            sent = self._dearest(model, asked.most if self._reserved else asked.usual, asked.hour)
            room = self._room(model, sent)
            if room is not None and room < min(LEAST_OUTPUT, wanted or LEAST_OUTPUT):
                raise self._spent()
            limit = wanted if room is None else min(wanted or USUAL_OUTPUT, room)
            held, most = replace(sent, output=limit or USUAL_OUTPUT), asked.most
            worst = replace(self._dearest(model, most, asked.hour), output=held.output)
            reserved = Reserved(model, held, worst, limit, self._cost(model, held))
            self._reserved.append(reserved)
            return reserved

    def renew(self, lost: Reserved) -> Reserved:
        """Set the same aside once more, for another try: the answer to the last one was lost, and
        is billed at its worst. Raises :class:`Refusal` where that does not fit any more."""
        with self._lock:
            self.settle(lost, NOTHING, lost.worst)
            room = self._room(lost.model, replace(lost.held, output=0))
            if room is not None and room < lost.held.output:
                raise self._spent()
            again = replace(lost)
            self._reserved.append(again)
            return again

    def settle(self, reserved: Reserved, told: Tokens, assumed: Tokens = NOTHING) -> None:
        """Put what an answer has used in the place of what was reserved, once.

        ``told`` is the endpoint's word, ``assumed`` the worst case of what it did not tell.
        """
        with self._lock, contextlib.suppress(ValueError):
            self._reserved.remove(reserved)
            whole = told + assumed
            usd = self._cost(reserved.model, whole)
            guess = usd - self._cost(reserved.model, told) if assumed.total else 0.0
            self._used += Usage(usd, whole.total, guess, assumed.total)
            unpriced = reserved.model not in self._rates and whole.total > 0
            self._unknown = self._unknown or unpriced

    def settle_rest(self) -> None:
        """Bill what is still reserved at its worst: nobody will tell any more."""
        with self._lock:
            for reserved in tuple(self._reserved):
                self.settle(reserved, NOTHING, reserved.worst)

    def _unbounded(self, model: str) -> bool:
        """True where a budget in dollars is the only one, and nothing could be held against it."""
        alone = self._budget_usd is not None and self._budget_tokens is None
        return alone and model not in self._rates

    def _spent(self) -> Refusal:
        self.exhausted = True
        return Refusal("the night's budget is reached: this request does not fit into it")

    def _dearest(self, model: str, count: int, hour: bool) -> Tokens:
        """So many tokens of input, as the dearest kind that they can become."""
        kinds = [Tokens(written=count), Tokens(input=count)]
        kinds += [Tokens(written_1h=count)] if hour else []
        return max(kinds, key=lambda kind: self._cost(model, kind))

    def _cost(self, model: str, tokens: Tokens) -> float:
        rates = self._rates.get(model)
        return rates.cost(tokens) if rates else 0.0

    def _room(self, model: str, sent: Tokens) -> int | None:
        """Tokens of output that fit into what is left after what is sent; None without a limit."""
        rooms = []
        rates = self._rates.get(model)
        if self._budget_usd is not None and rates:
            left = self._budget_usd - (self._used.cost_usd or 0.0) - rates.cost(sent)
            left -= sum(r.usd for r in self._reserved)
            if output := rates.at(sent).output:
                rooms.append(int(left * 1_000_000 / output))
            elif left < 0:
                rooms.append(0)
        if self._budget_tokens is not None:
            held = (self._used.tokens or 0) + sum(r.held.total for r in self._reserved)
            rooms.append(self._budget_tokens - held - sent.total)
        return min(rooms, default=None)


def billed(worst: Tokens, seen: Metered) -> tuple[Tokens, Tokens]:
    """What an answer has told of its usage, and the worst case of what it has not."""
    sent = replace(worst, output=0)
    told, assumed = seen.tokens, NOTHING
    if told.total == told.output:
        assumed = sent
    if not seen.final:
        assumed = replace(assumed, output=max(worst.output - told.output, 0))
    return told, assumed
