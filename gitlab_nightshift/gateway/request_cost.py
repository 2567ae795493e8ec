"""The bill of one request: nothing before it is sent, its worst case until its usage is known."""

from dataclasses import dataclass

from gitlab_nightshift.gateway.cost_account import (
    NOTHING,
    Account,
    Reservation,
    compute_billed_tokens,
)
from gitlab_nightshift.gateway.usage_meter import Meter, MeteredUsage


@dataclass
class Bill:
    """One request, over all its tries. ``reserved`` is None where nothing is billed, and once it is
    settled; ``assumed`` becomes true where a worst case was billed, ``untold`` where a whole answer
    has reported no usage."""

    account: Account
    reserved: Reservation | None
    meter: Meter | None = None
    assumed: bool = False
    untold: bool = False
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
        """Once; before the agent sees the end of its answer."""
        if self.reserved is None:
            return
        reserved, self.reserved = self.reserved, None
        reported = assumed = NOTHING
        if self._owed:
            metered = self.meter.end() if self.meter else MeteredUsage(NOTHING, final=False)
            reported, assumed = compute_billed_tokens(reserved.worst, metered)
            self.untold = metered.untold
        self.assumed = self.assumed or assumed.total > 0
        self.account.settle(reserved, reported, assumed)
