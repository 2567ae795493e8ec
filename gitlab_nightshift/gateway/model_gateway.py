"""The model gateway: holds the key, serves the agent's base URL, counts and bounds what is used.

Imports aiohttp: only the gateway's own process reads this module.
"""

import socket
from collections.abc import Collection, Mapping

from gitlab_nightshift.gateway.answered_calls import CallLog
from gitlab_nightshift.gateway.cost_account import Account, Budget
from gitlab_nightshift.gateway.endpoint_state import EndpointState
from gitlab_nightshift.gateway.keys import BeadTicket, make_placeholder
from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.prices import KNOWN, Rates
from gitlab_nightshift.gateway.request_service import GatewayService
from gitlab_nightshift.gateway.upstream import Upstream
from gitlab_nightshift.records.events import Emit
from gitlab_nightshift.records.usage import SpendingLimit, Usage


class Gateway:
    """The gateway within an event loop, from ``start`` to ``stop``.

    ``emit`` gets what is worth a line; ``rates`` are prices by model (:func:`merge_rates`),
    ``purse`` what all beads together may use.
    """

    def __init__(
        self,
        upstream: Upstream,
        emit: Emit,
        *,
        rates: Mapping[str, Rates] = KNOWN,
        limits: GatewayLimits | None = None,
        purse: Budget | None = None,
    ) -> None:
        self._upstream, self._rates, self._purse = upstream, rates, purse or Budget()
        self._endpoint = EndpointState(emit)
        self._accounts: dict[str, Account] = {}
        self._service = GatewayService(upstream, self._endpoint, limits or GatewayLimits())
        self._port = 0

    @property
    def url(self) -> str:
        """The base URL for agents."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def unusable(self) -> str:
        """Why no bead can go on: the endpoint refuses the key, or stays overloaded; else ""."""
        return self._endpoint.unusable

    async def start(self, unix: socket.socket | None = None) -> int:
        """Listen on loopback, and on a UNIX socket that is bound; the port. Its requests name any
        host. Raises ``E_CONFIG`` where a CA file cannot be read, ``OSError``."""
        self._port = await self._service.start(unix)
        return self._port

    async def stop(self) -> None:
        """End all beads and connections; what is not known yet is billed at its worst."""
        for account in self._accounts.values():
            self._endpoint.close(account)
        await self._service.stop()
        for account in self._accounts.values():
            account.settle_rest()

    def open_bead(
        self,
        bead: str,
        models: Collection[str],
        *,
        budget_usd: float | None,
        budget_tokens: int | None = None,
    ) -> BeadTicket:
        """Let a bead use these models, as far as the budget goes (what is left of the run's)."""
        placeholder = make_placeholder(self._upstream.api)
        account = Account(
            bead,
            frozenset(models),
            placeholder,
            self._rates,
            SpendingLimit(budget_usd, budget_tokens),
            self._purse,
        )
        self._accounts[placeholder] = account
        self._endpoint.open(account)
        return BeadTicket(bead, placeholder, self.url)

    async def drain_bead(self, placeholder: str, wait_s: float) -> bool:
        """Refuse a bead's later requests. Answers that are still on their way have ``wait_s``
        seconds to come to their end; True where all have."""
        account = self._accounts[placeholder]
        self._endpoint.close(account)
        return await self._service.drain(account, wait_s)

    async def close_bead(self, placeholder: str) -> Usage:
        """End a bead's requests and return what it has used; what is not known is billed at its
        worst."""
        await self.drain_bead(placeholder, 0)
        account = self._accounts[placeholder]
        await self._service.end(account)
        account.settle_rest()
        return account.read_usage()

    def read_usage(self, placeholder: str) -> Usage:
        """What a bead has used so far; also after it was closed."""
        return self._accounts[placeholder].read_usage()

    def exhausted(self, placeholder: str) -> bool:
        """True where a request of the bead did not fit into its budget."""
        return self._accounts[placeholder].exhausted

    def read_calls(self, placeholder: str) -> CallLog:
        """The tools that the model called in a bead's answers; also after it was closed."""
        return self._accounts[placeholder].log

    def has_served(self, placeholder: str) -> bool:
        """True for a bead of this gateway, also once it is closed."""
        return placeholder in self._accounts

    def list_accounts(self) -> tuple[Account, ...]:
        """All beads, in the order of their beginning."""
        return tuple(self._accounts.values())
