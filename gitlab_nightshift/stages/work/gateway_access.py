"""What agents and the team's commands reach through the gateway: the model, whose key it holds, and
the hosts of ``policy.egress_hosts``."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.agents.agent import Provider
from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.gateway.anthropic import list_plain_models
from gitlab_nightshift.gateway.control_messages import BeadState, BeadTicket
from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.gateway.gateway_config import GatewayConfig, build_gateway_config
from gitlab_nightshift.gateway.prices import merge_rates
from gitlab_nightshift.records.events import Emit, Note
from gitlab_nightshift.records.tool_calls import ToolUse
from gitlab_nightshift.records.usage import SpendingLimit, Usage
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd
from gitlab_nightshift.sandbox.tiers import Gate
from gitlab_nightshift.settings.model import Settings

COMMANDS = "verify_commands"
LOCAL = "localhost,127.0.0.1,::1"
"""Hosts reached without the proxy: the gateway, and servers that tests start."""


@dataclass(frozen=True)
class RunEgress:
    """The network access of a whole run; ``commands_env`` is for the team's own commands."""

    commands_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    gates: tuple[Gate, ...] = ()
    _gateway: RemoteGateway | None = None
    _emit: Emit | None = None

    @contextlib.contextmanager
    def open_bead_proxy(self, name: str) -> Iterator[Mapping[str, str]]:
        """A bead's proxy variables. At the end its connections are cut and its traffic is
        logged."""
        if self._gateway is None or self._emit is None:
            yield {}
            return
        with _open_proxy(self._gateway, name, self._emit) as env:
            yield env


@contextlib.contextmanager
def open_egress(
    settings: Settings, gateway: RemoteGateway | None, socket: Path, emit: Emit
) -> Iterator[RunEgress]:
    """Open the gateway's proxy while agents and commands run, if any host is allowed. It also
    listens on ``socket``."""
    if not settings.policy.egress_hosts or gateway is None:
        yield RunEgress()
        return
    gate = gateway.listen("egress", socket)
    with _open_proxy(gateway, COMMANDS, emit) as env:
        yield RunEgress(env, (gate,), gateway, emit)


@contextlib.contextmanager
def _open_proxy(gateway: RemoteGateway, name: str, emit: Emit) -> Iterator[Mapping[str, str]]:
    ticket = gateway.open_egress(name)
    try:
        yield build_proxy_env(ticket.url)
    finally:
        traffic = gateway.close_egress(ticket)
        shown = [f"{host} (sent {sent:,} bytes, got {got:,})" for host, sent, got in traffic.hosts]
        if text := ", ".join([*shown, *([f"{traffic.more} more"] if traffic.more else [])]):
            emit(Note(f"egress, {name}: {text}"))


def build_proxy_env(url: str) -> dict[str, str]:
    """The variables by which tools find the proxy; Node's own client uses it only when asked to."""
    # curl reads http_proxy in lower case only (curl(1), ENVIRONMENT); other tools read either.
    names = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
    local = {"NO_PROXY": LOCAL, "no_proxy": LOCAL}
    return {**dict.fromkeys(names, url), **local, "NODE_USE_ENV_PROXY": "1"}


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
        state = self._read_state()
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
        state = self._read_state()
        return state.unusable if state else ""

    def exhausted(self) -> bool:
        """True if a request did not fit into the budget."""
        state = self._read_state()
        return bool(state and state.exhausted)

    def _read_state(self) -> BeadState | None:
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
                # Again for a bead that was interrupted before its usage was settled.
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


def check_bounds(settings: Settings, provider: Provider, env: Mapping[str, str]) -> None:
    """Raise ``E_CONFIG`` if ``max_budget_usd`` cannot be enforced and no other limit is set.

    Agents that do not use the gateway (a replay, a cloud's own credentials) are not checked.
    """
    if settings.max_tokens is not None or not provider.keys or provider.find_cloud_variables(env):
        return
    models = list_plain_models(filter(None, vars(settings.models).values()))
    if missing := sorted(models - merge_rates(settings.prices).keys()):
        example = f"prices: {{{missing[0]}: {{input: 1.25, output: 10}}}}"
        raise build_config_error(
            f"prices: none is known for {', '.join(missing)}, so max_budget_usd cannot hold: set it"
            f" in USD per million tokens, such as {example}, or set max_tokens"
        )
