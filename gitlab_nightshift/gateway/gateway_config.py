"""The configuration of the gateway's process: the keys, the job's proxy and the limits.

The process that has the job's environment builds it, and writes it once to a pipe that only the
gateway reads.
"""

import base64
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.gateway.prices import Rates, merge_rates
from gitlab_nightshift.gateway.upstream import ModelKey, Upstream, build_upstream
from gitlab_nightshift.records.usage import SpendingLimit
from gitlab_nightshift.settings.allowed_hosts import format_host_port, parse_egress_host
from gitlab_nightshift.system.network_settings import PROXIES, find_job_proxy

if TYPE_CHECKING:
    from gitlab_nightshift.settings.model import Settings

OVERLOAD_S = 240.0
"""Seconds that a request waits for an overloaded endpoint, at most."""


@dataclass(frozen=True)
class GatewayConfig:
    """The configuration. ``upstream`` is None if no model is used; ``limit`` is the whole run's;
    beads may use all ``models`` and reach all ``egress_hosts``; ``proxies`` are the job's proxy
    variables. ``retry_s``: seconds for which requests to an overloaded endpoint are retried."""

    upstream: Upstream | None
    rates: Mapping[str, Rates]
    retry_s: float
    limit: SpendingLimit
    models: tuple[str, ...]
    egress_hosts: tuple[str, ...] = ()
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)


def build_gateway_config(
    settings: "Settings",
    keys: Sequence[str],
    env: Mapping[str, str],
    limit: SpendingLimit,
) -> GatewayConfig | None:
    """The configuration for a run with this limit; None if it needs no gateway.

    ``keys`` are the variables that may hold the model key, empty if no agent gets one; ``env`` has
    them and the proxy settings. Raises ``E_CONFIG`` for an endpoint or a proxy that cannot be used.
    """
    hosts = tuple(settings.policy.egress_hosts)
    if not keys and not hosts:
        return None
    choose_proxy = make_proxy_chooser(env)
    for host in map(parse_egress_host, hosts):
        choose_proxy(host.host, host.port)  # raises for a proxy that cannot be used
    models = filter(None, vars(settings.models).values())
    return GatewayConfig(
        upstream=_choose_upstream(settings, keys, env) if keys else None,
        rates=merge_rates(settings.prices),
        retry_s=min(OVERLOAD_S, settings.idle_timeout / 2),
        limit=limit,
        models=tuple(sorted(set(models))),
        egress_hosts=hosts,
        proxies={name: env[name] for name in PROXIES if env.get(name)} if hosts else {},
    )


def _choose_upstream(settings: "Settings", keys: Sequence[str], env: Mapping[str, str]) -> Upstream:
    """The endpoint for the first key that is set, else for a dummy key, which a local model server
    does not check."""
    variable = next((name for name in keys if env.get(name)), keys[0])
    value = env.get(variable) or f"no-key-{secrets.token_hex(16)}"
    key = ModelKey(variable, value, settings.model_key_header or "")
    endpoint = settings.model_endpoint or env.get(f"{key.api.name}_BASE_URL", "")
    return build_upstream(key, endpoint, env, settings.model_options)


# --- the job's proxy ------------------------------------------------------------------------------


@dataclass(frozen=True)
class JobProxy:
    """The job's proxy. ``credential`` is what follows ``Basic``, "" for none; agents never see
    it."""

    host: str
    port: int
    credential: str = field(repr=False)


def parse_proxy(url: str) -> JobProxy:
    """The proxy of a URL. Raises ``ValueError`` for one that does not speak plain HTTP."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # the error's text may contain a part of the password
        host, port = None, None
    if not host or parts.scheme != "http":
        raise ValueError("expected a proxy such as http://proxy.example:3128")
    user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    # Basic authentication: RFC 7617
    credential = base64.b64encode(user.encode()).decode() if user != ":" else ""
    return JobProxy(host, port or 80, credential)


ChooseProxy = Callable[[str, int], JobProxy | None]


def make_proxy_chooser(env: Mapping[str, str]) -> ChooseProxy:
    """A function that finds the job's proxy for a host and port, by the job's variables. It raises
    ``E_CONFIG`` for a proxy that cannot be used."""

    def choose(host: str, port: int) -> JobProxy | None:
        scheme = "http" if port == 80 else "https"
        url = find_job_proxy(f"{scheme}://{format_host_port(host, port)}", env)
        try:
            return parse_proxy(url) if url else None
        except ValueError as error:
            text = f"{scheme.upper()}_PROXY: {error} where policy.egress_hosts is set"
            raise build_config_error(text) from None

    return choose
