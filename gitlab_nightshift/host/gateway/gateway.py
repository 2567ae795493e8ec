"""The model gateway: holds the key, serves the agent's base URL, counts and bounds what is used."""

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from gitlab_nightshift.events import Emit
from gitlab_nightshift.host.gateway.account import Account
from gitlab_nightshift.host.gateway.keys import new_placeholder
from gitlab_nightshift.host.gateway.limits import Limits
from gitlab_nightshift.host.gateway.prices import KNOWN, Rates
from gitlab_nightshift.host.gateway.standing import Standing
from gitlab_nightshift.host.gateway.upstream import Upstream
from gitlab_nightshift.records import Usage

START_S = 10.0


@dataclass(frozen=True)
class BeadTicket:
    """What a bead's agent gets in the place of a key.

    ``base_url`` has no ``/v1``. ``socket`` is the gateway's UNIX socket, where it has one; its
    requests name any host.
    """

    bead: str
    placeholder: str = field(repr=False)
    base_url: str
    socket: Path | None


class Gateway:
    """Runs between ``with`` and its end, in a thread of its own.

    ``emit`` is called from that thread. ``rates`` are prices by model (:func:`all_rates`);
    ``socket`` is the path of a UNIX socket to listen on, too. Entering raises ``E_CONFIG`` where a
    CA file cannot be read, ``OSError`` where the socket cannot be made.
    """

    def __init__(
        self,
        upstream: Upstream,
        emit: Emit,
        *,
        rates: Mapping[str, Rates] = KNOWN,
        socket: Path | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._upstream, self._rates, self._socket = upstream, rates, socket
        self._limits = limits or Limits()
        self._standing = Standing(emit)
        self._tickets: dict[str, Account] = {}
        self._port = 0

    @property
    def url(self) -> str:
        """The base URL for agents."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def unusable(self) -> str:
        """Why no bead can go on: the endpoint refuses the key, or stays overloaded; else ""."""
        return self._standing.unusable

    def __enter__(self) -> "Gateway":
        from gitlab_nightshift.host.gateway.loop_thread import LoopThread
        from gitlab_nightshift.host.gateway.service import Service

        fault = "the model gateway failed: {}".format
        self._thread = LoopThread(
            "model-gateway", lambda name: self._standing.tell(None, fault(name))
        )
        try:
            self._service = Service(self._upstream, self._standing, self._limits)
            self._port = self._thread.run(self._service.start(self._socket), START_S)
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for account in self._tickets.values():
            self._standing.close(account)
        try:
            self._thread.run(self._service.stop(), 3 * self._limits.stop_s)
        finally:
            self._thread.stop()

    def open_bead(
        self,
        bead: str,
        models: Collection[str],
        *,
        budget_usd: float | None,
        budget_tokens: int | None = None,
    ) -> BeadTicket:
        """Let a bead use these models, as far as the budget goes (what is left of the run's)."""
        placeholder = new_placeholder(self._upstream.api)
        account = Account(
            bead, frozenset(models), placeholder, self._rates, budget_usd, budget_tokens
        )
        self._tickets[placeholder] = account
        self._standing.open(account)
        return BeadTicket(bead, placeholder, self.url, self._socket)

    def close_bead(self, ticket: BeadTicket, wait_s: float = 0.0) -> Usage:
        """End a bead's requests, refuse later ones, and tell what it has used.

        Answers that are still on their way have ``wait_s`` seconds to come to their end; what is
        not known then is billed at its worst.
        """
        account = self._tickets[ticket.placeholder]
        self._standing.close(account)
        with contextlib.suppress(TimeoutError):
            self._thread.run(self._service.end(account, wait_s), wait_s + START_S)
        account.settle_rest()
        return account.usage()

    def usage(self, ticket: BeadTicket) -> Usage:
        """What a bead has used so far; also after it was closed."""
        return self._tickets[ticket.placeholder].usage()

    def exhausted(self, ticket: BeadTicket) -> bool:
        """True where a request of the bead did not fit into its budget."""
        return self._tickets[ticket.placeholder].exhausted
