"""How an agent reaches its model: through the gateway, which holds the key."""

import contextlib
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

if TYPE_CHECKING:
    from gitlab_nightshift.host.gateway import BeadTicket, Gateway

MODEL_VARIABLES = ("ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "OPENAI_BASE_URL")
"""Variables of the job that say where the model is; the agent itself never gets them."""
OVERLOAD_S = 240.0


@dataclass(frozen=True)
class BeadAccess:
    """One bead's way to its model, until ``close``. Without a gateway the CLI's own word counts."""

    env: Mapping[str, str]
    _gateway: "Gateway | None" = None
    _ticket: "BeadTicket | None" = None

    def usage(self) -> Usage | None:
        """What the gateway has seen so far; None without one."""
        if self._gateway is None or self._ticket is None:
            return None
        return self._gateway.usage(self._ticket)

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
    _gateway: "Gateway | None"
    gates: tuple[Gate, ...] = ()

    @contextlib.contextmanager
    def bead(
        self, name: str, model: str, budget_usd: float, budget_tokens: int | None
    ) -> Iterator[BeadAccess]:
        """Open a bead's way; its placeholder opens nothing after the end of the block."""
        if self._gateway is None:
            yield BeadAccess({})
            return
        ticket = self._gateway.open_bead(
            name, {model}, budget_usd=budget_usd, budget_tokens=budget_tokens
        )
        env = self._provider.access_env(ticket.base_url, ticket.placeholder)
        try:
            yield BeadAccess(env, self._gateway, ticket)
        finally:
            self._gateway.close_bead(ticket)


@contextlib.contextmanager
def open_access(
    settings: Settings,
    provider: Provider,
    model_env: Mapping[str, str],
    socket: Path,
    emit: Emit,
) -> Iterator[ModelAccess]:
    """The gateway for as long as agents run; it listens on ``socket``, too.

    There is none for an agent that needs no key (a replay), and where the team passes a cloud's own
    credentials by name: then the agent holds these, which is said aloud. Raises ``E_CONFIG`` for an
    endpoint that cannot be used.
    """
    key = next((name for name in provider.keys if model_env.get(name)), None)
    direct = provider.direct(model_env)
    if direct:
        text = f"{', '.join(direct)}: the agent itself holds this cloud's credentials"
        emit(Note(text, warning=True))
    if direct or key is None:
        yield ModelAccess(provider, None)
        return
    from gitlab_nightshift.host.gateway import Gateway, Limits, ModelKey, all_rates, upstream

    endpoint = settings.model_endpoint or model_env.get("ANTHROPIC_BASE_URL", "")
    way = upstream(ModelKey(key, model_env[key]), endpoint, model_env)
    limits = Limits(retry_s=min(OVERLOAD_S, settings.idle_timeout / 2))
    rates = all_rates(settings.prices)
    with Gateway(way, emit, rates=rates, limits=limits, socket=socket) as gateway:
        port = urlsplit(gateway.url).port
        assert port, "the gateway listens on a port"
        yield ModelAccess(provider, gateway, (Gate(port, socket),))
