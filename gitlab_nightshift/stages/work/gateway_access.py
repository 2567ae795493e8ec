"""What agents and the team's commands reach through the gateway: the model, whose key it holds, and
the hosts of ``policy.egress_hosts``."""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.agents.agent import AgentProvider
from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.gateway.anthropic import list_plain_models
from gitlab_nightshift.gateway.control_messages import BeadState, BeadTicket
from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.gateway.gateway_config import GatewayConfig, build_gateway_config
from gitlab_nightshift.gateway.prices import merge_rates
from gitlab_nightshift.records.events import Emit, Note
from gitlab_nightshift.records.usage import SpendingLimit, ToolUse, Usage
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd
from gitlab_nightshift.sandbox.tiers import ServicePort
from gitlab_nightshift.settings.model import Settings

COMMANDS = "verify_commands"
"""The team's own commands, as the log of their traffic names them."""
LOCAL = "localhost,127.0.0.1,::1"
"""Hosts reached without the proxy: the gateway, and servers that tests start."""

OpenProxy = Callable[[str], contextlib.AbstractContextManager[Mapping[str, str]]]
"""Opens the proxy under a name for the log; the block gets the variables by which tools find it."""


@dataclass(frozen=True)
class RunEgress:
    """A run's access to the hosts of ``policy.egress_hosts``; without hosts, no ``services``.
    The team's own commands find the proxy by ``commands_env``, a bead by its own variables."""

    commands_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    services: tuple[ServicePort, ...] = ()
    open_bead_proxy: OpenProxy = lambda _name: contextlib.nullcontext({})


@contextlib.contextmanager
def open_egress(
    settings: Settings, gateway: RemoteGateway | None, socket: Path, emit: Emit
) -> Iterator[RunEgress]:
    """Open the gateway's proxy for the block, if any host is allowed. It listens on loopback and,
    for processes without a network, on ``socket``."""
    if not settings.policy.egress_hosts or gateway is None:
        yield RunEgress()
        return
    service = gateway.listen("egress", socket)
    open_proxy = functools.partial(_open_proxy, gateway, emit)
    with open_proxy(COMMANDS) as env:
        yield RunEgress(env, (service,), open_proxy)


@contextlib.contextmanager
def _open_proxy(gateway: RemoteGateway, emit: Emit, name: str) -> Iterator[Mapping[str, str]]:
    """Yield the variables by which tools find the proxy. At the end its connections are cut, and
    its traffic is logged under ``name``."""
    ticket = gateway.open_egress(name)
    try:
        # curl reads http_proxy in lower case only (curl(1), ENVIRONMENT), other tools either form,
        # Node's own client none without NODE_USE_ENV_PROXY (Node's CLI documentation).
        names = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
        local = {"NO_PROXY": LOCAL, "no_proxy": LOCAL}
        yield {**dict.fromkeys(names, ticket.url), **local, "NODE_USE_ENV_PROXY": "1"}
    finally:
        traffic = gateway.close_egress(ticket)
        hosts = [f"{host} (sent {sent:,} bytes, got {got:,})" for host, sent, got in traffic.hosts]
        if traffic.more:
            hosts.append(f"{traffic.more} more")
        if hosts:
            emit(Note(f"egress, {name}: {', '.join(hosts)}"))


MODEL_VARIABLES = ("ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "OPENAI_BASE_URL")
"""Variables of the job with the model's address; the agent itself never gets them."""
EXITED_DRAIN_S, KILLED_DRAIN_S = 120.0, 2.0
"""Longest wait for unfinished answers after the agent exited, and after it was killed; then their
worst case is billed."""


@dataclass(frozen=True)
class BeadAccess:
    """One bead's access to the model and, by the variables ``env``, to the proxy. Without a gateway
    the CLI's own figures count."""

    env: Mapping[str, str]
    _gateway: RemoteGateway | None = None
    _ticket: BeadTicket | None = None

    @property
    def base_url(self) -> str:
        """The gateway's address, "" without one."""
        return self._ticket.base_url if self._ticket else ""

    def read_state(self) -> BeadState | None:
        """What the gateway knows of the bead so far; None without a gateway."""
        return self._gateway.read_state(self._ticket) if self._gateway and self._ticket else None

    def settle_usage(self, wait_s: float) -> Usage | None:
        """The bead's final usage, once its process is gone. Invalidates the placeholder of its key,
        and waits for unfinished answers."""
        if self._gateway is None or self._ticket is None:
            return None
        return self._gateway.close_bead(self._ticket, wait_s)

    def list_calls(self) -> ToolUse | None:
        """The tool calls in the model's answers; None if no gateway saw them."""
        if self._gateway is None or self._ticket is None:
            return None
        return self._gateway.list_calls(self._ticket)


def compute_drain_s(ended: ProgramEnd, timeout_s: float | None, run_left_s: float | None) -> float:
    """Seconds to wait for a bead's unfinished answers: the rest of its timeout if its agent exited,
    a moment if it was killed; never more than the run has left (None: no limit)."""
    most_s = KILLED_DRAIN_S
    if ended.end is EndReason.EXITED:
        timeout_left_s = math.inf if timeout_s is None else timeout_s - ended.duration_s
        most_s = max(min(EXITED_DRAIN_S, timeout_left_s), KILLED_DRAIN_S)
    return most_s if run_left_s is None else max(min(most_s, run_left_s), 0.0)


@dataclass(frozen=True)
class ModelAccess:
    """The model access of all beads of a run."""

    _provider: AgentProvider
    _egress: RunEgress
    _gateway: RemoteGateway | None = None
    services: tuple[ServicePort, ...] = ()

    @contextlib.contextmanager
    def open_bead(self, name: str, model: str, limit: SpendingLimit) -> Iterator[BeadAccess]:
        """Open a bead's access. The placeholder of its key is valid during the block."""
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
                # Closed already unless the bead was interrupted before its usage was settled.
                self._gateway.close_bead(ticket)


def open_access(
    provider: AgentProvider,
    env: Mapping[str, str],
    egress: RunEgress,
    gateway: RemoteGateway | None,
    socket: Path,
    emit: Emit,
) -> ModelAccess:
    """The run's model access, through ``gateway``, which also listens on ``socket``.

    Agents without a key (a replay) do not use the gateway. Neither do those that get a cloud's
    credentials from the team (``env``): the agent then holds them, and a warning says so. Raises
    ``E_CONFIG`` for an unusable endpoint.
    """
    if cloud_variables := provider.find_cloud_variables(env):
        names = ", ".join(cloud_variables)
        text = "the agent itself holds this cloud's credentials, and its cost is what it says"
        emit(Note(f"{names}: {text}", warning=True))
    if cloud_variables or not provider.keys or gateway is None:
        return ModelAccess(provider, egress)
    return ModelAccess(provider, egress, gateway, (gateway.listen("model", socket),))


def configure_gateway(
    settings: Settings, provider: AgentProvider, env: Mapping[str, str], limit: SpendingLimit
) -> GatewayConfig | None:
    """The gateway's configuration for the provider; None if it needs none. Raises ``E_CONFIG``."""
    keys = () if provider.find_cloud_variables(env) else provider.keys
    return build_gateway_config(settings, keys, env, limit)


def check_cost_limit(settings: Settings, provider: AgentProvider, env: Mapping[str, str]) -> None:
    """Raise ``E_CONFIG`` if ``max_budget_usd`` cannot be enforced and no other limit is set.

    Agents that do not use the gateway (a replay, a cloud's own credentials) are not checked.
    """
    if settings.max_tokens is not None or not provider.keys or provider.find_cloud_variables(env):
        return
    models = list_plain_models(filter(None, vars(settings.models).values()))
    if unpriced := sorted(models - merge_rates(settings.prices).keys()):
        names = ", ".join(unpriced)
        example = f"prices: {{{unpriced[0]}: {{input: 1.25, output: 10}}}}"
        raise build_config_error(
            f"prices: none is known for {names}, so max_budget_usd cannot hold: set it"
            f" in USD per million tokens, such as {example}, or set max_tokens"
        )
