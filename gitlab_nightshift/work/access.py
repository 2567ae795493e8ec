"""How an agent reaches its model: through the gateway, which holds the key; and open hosts."""

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gitlab_nightshift.events import Emit, Note
from gitlab_nightshift.host.sandbox.records import Gate
from gitlab_nightshift.records import Usage
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.work.agents.base import Provider
from gitlab_nightshift.work.egress import Egress

if TYPE_CHECKING:
    from gitlab_nightshift.host.gateway import BeadTicket, Gateway, ModelKey

MODEL_VARIABLES = ("ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "OPENAI_BASE_URL")
"""Variables of the job that say where the model is; the agent itself never gets them."""
OVERLOAD_S = 240.0
DRAIN_S = 120.0
"""Seconds that answers have to come to their end after their agent has: then their worst case is
billed."""


@dataclass(frozen=True)
class BeadAccess:
    """One bead's way to its model, until ``close``. Without a gateway the CLI's own word counts."""

    env: Mapping[str, str]
    _gateway: "Gateway | None" = None
    _ticket: "BeadTicket | None" = None

    @property
    def base_url(self) -> str:
        """The gateway's address, "" without one."""
        return self._ticket.base_url if self._ticket else ""

    def usage(self) -> Usage | None:
        """What the gateway has seen so far; None without one."""
        if self._gateway is None or self._ticket is None:
            return None
        return self._gateway.usage(self._ticket)

    def settled(self, left_s: float | None) -> Usage | None:
        """All that the bead has used, once its process is gone. Its placeholder opens nothing from
        here on; answers that it left are waited for, as long as the run's ``left_s`` allows."""
        if self._gateway is None or self._ticket is None:
            return None
        wait_s = DRAIN_S if left_s is None else max(min(DRAIN_S, left_s), 0.0)
        return self._gateway.close_bead(self._ticket, wait_s)

    def unusable(self) -> str:
        """Why no bead can go on, "" where it can."""
        return self._gateway.unusable if self._gateway else ""

    def exhausted(self) -> bool:
        """True where a request did not fit into the budget."""
        return bool(self._gateway and self._ticket and self._gateway.exhausted(self._ticket))


@dataclass(frozen=True)
class ModelAccess:
    """The way of all beads of a run."""

    _provider: Provider
    _egress: Egress
    _gateway: "Gateway | None" = None
    gates: tuple[Gate, ...] = ()

    @contextlib.contextmanager
    def bead(
        self, name: str, model: str, budget_usd: float, budget_tokens: int | None
    ) -> Iterator[BeadAccess]:
        """Open a bead's way; its placeholder opens nothing after the end of the block."""
        with self._egress.bead(name) as proxy:
            if self._gateway is None:
                yield BeadAccess(proxy)
                return
            ticket = self._gateway.open_bead(
                name, {model}, budget_usd=budget_usd, budget_tokens=budget_tokens
            )
            env = self._provider.access_env(ticket.base_url, ticket.placeholder)
            try:
                yield BeadAccess({**proxy, **env}, self._gateway, ticket)
            finally:
                self._gateway.close_bead(ticket)


@contextlib.contextmanager
def open_access(
    settings: Settings,
    provider: Provider,
    model_env: Mapping[str, str],
    egress: Egress,
    socket: Path,
    emit: Emit,
) -> Iterator[ModelAccess]:
    """The gateway for as long as agents run; it listens on ``socket``, too. Beads get ``egress``.

    There is none for an agent that knows no key (a replay), and where the team passes a cloud's own
    credentials by name: then the agent holds these, which is said aloud. Raises ``E_CONFIG`` for an
    endpoint that cannot be used.
    """
    direct = provider.direct(model_env)
    if direct:
        text = f"{', '.join(direct)}: the agent itself holds this cloud's credentials, and its"
        text += " cost is what it says"
        emit(Note(text, warning=True))
    if direct or not provider.keys:
        yield ModelAccess(provider, egress)
        return
    from gitlab_nightshift.host.gateway import Gateway, Limits, all_rates, upstream

    model_key = _key(provider, model_env)
    endpoint = settings.model_endpoint or model_env.get(f"{model_key.api.name}_BASE_URL", "")
    way = upstream(model_key, endpoint, model_env)
    limits = Limits(retry_s=min(OVERLOAD_S, settings.idle_timeout / 2))
    rates = all_rates(settings.prices)
    with Gateway(way, emit, rates=rates, limits=limits, socket=socket) as gateway:
        port = urlsplit(gateway.url).port
        assert port, "the gateway listens on a port"
        yield ModelAccess(provider, egress, gateway, (Gate(port, socket),))


def _key(provider: Provider, model_env: Mapping[str, str]) -> "ModelKey":
    """The first key that is set. Where ``check`` asked for none, one that opens nothing: a server
    of one's own does not look at it."""
    from gitlab_nightshift.host.gateway import ModelKey

    name = next((name for name in provider.keys if model_env.get(name)), provider.keys[0])
    return ModelKey(name, model_env.get(name) or f"no-key-{secrets.token_hex(16)}")
