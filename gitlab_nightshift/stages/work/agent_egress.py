"""Network access of agents and the team's commands: ``policy.egress_hosts``, through a proxy."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.records.events import Emit, Note
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
