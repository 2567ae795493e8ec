"""How an agent reaches its model: through the gateway, which holds the key."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.agents.agent import Provider
from gitlab_nightshift.gateway.control_messages import BeadState
from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.gateway.gateway_config import GatewayConfig, build_gateway_config
from gitlab_nightshift.gateway.keys import BeadTicket
from gitlab_nightshift.records.events import Emit, Note
from gitlab_nightshift.records.tool_calls import ToolUse
from gitlab_nightshift.records.usage import SpendingLimit, Usage
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd
from gitlab_nightshift.sandbox.tiers import Gate
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.agent_egress import RunEgress

MODEL_VARIABLES = ("ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "OPENAI_BASE_URL")
"""Variables of the job with the model's address; the agent itself never gets them."""
DRAIN_S, ENDED_DRAIN_S = 120.0, 2.0
"""Seconds that unfinished answers get after their agent exited, and after it was killed; then their
worst case is billed."""


@dataclass(frozen=True)
class BeadAccess:
    """One bead's model access, until ``close``. Without a gateway the CLI's own figures count."""

    env: Mapping[str, str]
    _gateway: RemoteGateway | None = None
    _ticket: BeadTicket | None = None

    @property
    def base_url(self) -> str:
        """The gateway's address, "" without one."""
        return self._ticket.base_url if self._ticket else ""

    def read_usage(self) -> Usage | None:
        """The gateway's figures so far; None without a gateway."""
        state = self._look()
        return state.usage if state else None

    def settle_usage(self, wait_s: float) -> Usage | None:
        """The bead's final usage, once its process is gone. Invalidates its placeholder, and waits
        for unfinished answers."""
        if self._gateway is None or self._ticket is None:
            return None
        return self._gateway.close_bead(self._ticket, wait_s)

    def list_calls(self) -> ToolUse | None:
        """The tool calls in the model's answers; None if no gateway saw them."""
        if self._gateway is None or self._ticket is None:
            return None
        return self._gateway.list_calls(self._ticket)

    def describe_stop_reason(self) -> str:
        """Why beads cannot continue, "" if they can."""
        state = self._look()
        return state.unusable if state else ""

    def exhausted(self) -> bool:
        """True if a request did not fit into the budget."""
        state = self._look()
        return bool(state and state.exhausted)

    def _look(self) -> BeadState | None:
        return self._gateway.read_state(self._ticket) if self._gateway and self._ticket else None


def compute_drain_s(ended: ProgramEnd, timeout_s: float | None, run_left_s: float | None) -> float:
    """Seconds to wait for a bead's unfinished answers: the rest of its timeout if its agent exited,
    a moment if it was killed; never more than the run has left (None: no limit)."""
    own_s = DRAIN_S if timeout_s is None else min(DRAIN_S, timeout_s - ended.duration_s)
    most_s = max(own_s, ENDED_DRAIN_S) if ended.end is EndReason.EXITED else ENDED_DRAIN_S
    return most_s if run_left_s is None else max(min(most_s, run_left_s), 0.0)


@dataclass(frozen=True)
class ModelAccess:
    """The model access of all beads of a run."""

    _provider: Provider
    _egress: RunEgress
    _gateway: RemoteGateway | None = None
    gates: tuple[Gate, ...] = ()

    @contextlib.contextmanager
    def open_bead(self, name: str, model: str, limit: SpendingLimit) -> Iterator[BeadAccess]:
        """Open a bead's access; its placeholder is valid during the block."""
        with self._egress.open_bead_proxy(name) as proxy:
            if self._gateway is None:
                yield BeadAccess(proxy)
                return
            ticket = self._gateway.open_bead(
                name, {model}, budget_usd=limit.usd, budget_tokens=limit.tokens
            )
            env = self._provider.build_access_env(ticket.base_url, ticket.placeholder)
            try:
                yield BeadAccess({**proxy, **env}, self._gateway, ticket)
            finally:
                self._gateway.close_bead(ticket)


def open_access(
    provider: Provider,
    env: Mapping[str, str],
    egress: RunEgress,
    gateway: RemoteGateway | None,
    socket: Path,
    emit: Emit,
) -> ModelAccess:
    """Access to the model while ``gateway`` runs, which also listens on ``socket``; beads get
    ``egress``.

    Agents without a key (a replay) do not use it, nor do those that get a cloud's own credentials
    from the team (``env``): the agent then holds these, and a warning says so. Raises ``E_CONFIG``
    for an unusable endpoint.
    """
    if direct := provider.find_cloud_variables(env):
        text = f"{', '.join(direct)}: the agent itself holds this cloud's credentials, and its"
        text += " cost is what it says"
        emit(Note(text, warning=True))
    if direct or not provider.keys or gateway is None:
        return ModelAccess(provider, egress)
    return ModelAccess(provider, egress, gateway, (gateway.listen("model", socket),))


def configure_gateway(
    settings: Settings,
    provider: Provider,
    env: Mapping[str, str],
    limit: SpendingLimit,
) -> GatewayConfig | None:
    """The gateway's configuration for this provider; None if none is needed. Raises
    ``E_CONFIG``."""
    keys = () if provider.find_cloud_variables(env) else provider.keys
    return build_gateway_config(settings, keys, env, limit)
