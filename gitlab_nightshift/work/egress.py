"""The hosts that agents and the team's commands may reach: ``policy.egress_hosts``, by a proxy."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.errors import config_error
from gitlab_nightshift.events import Emit, Note
from gitlab_nightshift.host.job_proxy import job_proxy
from gitlab_nightshift.host.sandbox.records import Gate
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.settings.hosts import egress_host, joined

if TYPE_CHECKING:
    from gitlab_nightshift.host.egress import EgressProxy, Onward, Traffic

COMMANDS = "verify_commands"
LOCAL = "localhost,127.0.0.1,::1"
"""Reached without the proxy: the gateway, and servers of tests."""
MOST_TOLD = 20
"""Hosts that are told for each bead, those to which most was sent."""


@dataclass(frozen=True)
class Egress:
    """The way of a whole run; ``commands_env`` is what the team's own commands get of it."""

    commands_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    gates: tuple[Gate, ...] = ()
    _proxy: "EgressProxy | None" = None
    _emit: Emit | None = None

    @contextlib.contextmanager
    def bead(self, name: str) -> Iterator[Mapping[str, str]]:
        """A bead's proxy variables; its connections are cut at the end, and its traffic is told."""
        if self._proxy is None or self._emit is None:
            yield {}
            return
        with _opened(self._proxy, name, self._emit) as env:
            yield env


@contextlib.contextmanager
def open_egress(
    settings: Settings, job_env: Mapping[str, str], socket: Path, emit: Emit
) -> Iterator[Egress]:
    """The proxy for as long as agents and commands run, where any host is open; it listens on
    ``socket``, too. ``job_env`` holds the job's own proxies, through which it goes on.

    Raises ``E_CONFIG`` for a proxy of the job that cannot be used.
    """
    hosts = settings.policy.egress_hosts
    if not hosts:
        yield Egress()
        return
    from gitlab_nightshift.host.egress import EgressProxy

    onward = _onward(job_env)
    through = [host for host in map(egress_host, hosts) if onward(host.host, host.port)]
    if through:
        names = ", ".join(map(str, through))
        text = f"{names}: through the job's own proxy, which looks names up: no address is checked"
        emit(Note(text, warning=True))
    with (
        EgressProxy(hosts, emit, socket=socket, onward=onward) as proxy,
        _opened(proxy, COMMANDS, emit) as env,
    ):
        yield Egress(env, (Gate(proxy.port, socket),), proxy, emit)


def _onward(env: Mapping[str, str]) -> "Callable[[str, int], Onward | None]":
    """Which proxy of the job is asked for a host and port, by its variables."""
    from gitlab_nightshift.host.egress import onward

    def choose(host: str, port: int) -> "Onward | None":
        scheme = "http" if port == 80 else "https"
        url = job_proxy(f"{scheme}://{joined(host, port)}", env)
        try:
            return onward(url) if url else None
        except ValueError as error:
            name = f"{scheme}_proxy".upper()
            raise config_error(f"{name}: {error} where policy.egress_hosts is set") from None

    return choose


@contextlib.contextmanager
def _opened(proxy: "EgressProxy", name: str, emit: Emit) -> Iterator[Mapping[str, str]]:
    ticket = proxy.open_bead(name)
    try:
        yield proxy_env(ticket.url)
    finally:
        if traffic := proxy.close_bead(ticket):
            emit(Note(f"egress, {name}: {_told(traffic)}"))


def proxy_env(url: str) -> dict[str, str]:
    """The variables by which tools find the proxy; Node's own client needs to be asked to."""
    names = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
    local = {"NO_PROXY": LOCAL, "no_proxy": LOCAL}
    return {**dict.fromkeys(names, url), **local, "NODE_USE_ENV_PROXY": "1"}


def _told(traffic: "Mapping[str, Traffic]") -> str:
    rows = sorted(traffic.items(), key=lambda row: row[1].sent, reverse=True)
    shown = [f"{name} (sent {t.sent:,} bytes, got {t.received:,})" for name, t in rows[:MOST_TOLD]]
    more = [f"{len(rows) - MOST_TOLD} more"] if len(rows) > MOST_TOLD else []
    return ", ".join([*shown, *more])
