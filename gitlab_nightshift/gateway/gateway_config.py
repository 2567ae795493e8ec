"""The configuration of the gateway's process: the keys, the proxies and the limits.

It is built by the process that has the job's environment, and written once to a pipe that only the
gateway reads.
"""

import dataclasses
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.gateway.egress.company_proxy import make_proxy_chooser
from gitlab_nightshift.gateway.keys import ModelKey
from gitlab_nightshift.gateway.prices import Rates, merge_rates
from gitlab_nightshift.gateway.upstream import Upstream, build_upstream
from gitlab_nightshift.records.usage import SpendingLimit
from gitlab_nightshift.settings.allowed_hosts import parse_egress_host
from gitlab_nightshift.system.job_proxy import PROXIES

if TYPE_CHECKING:
    from gitlab_nightshift.settings.model import Settings

OVERLOAD_S = 240.0


@dataclass(frozen=True)
class GatewayConfig:
    """``upstream`` is None if no model is used. ``limit`` is that of the whole run. ``models`` and
    ``egress_hosts`` are all that beads may use and reach, ``proxies`` the job's own proxy
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
    """The configuration for a run with this limit; None where nothing is asked of a gateway.

    ``keys`` are the variables that may hold the model key, none where no agent is given one;
    ``env`` holds them, and the way to the internet. Raises ``E_CONFIG`` for an endpoint or a proxy
    that cannot be used.
    """
    hosts = tuple(settings.policy.egress_hosts)
    if not keys and not hosts:
        return None
    choose = make_proxy_chooser(env)
    for each in map(parse_egress_host, hosts):
        choose(each.host, each.port)
    names = filter(None, vars(settings.models).values())
    return GatewayConfig(
        upstream=_choose_upstream(settings, keys, env) if keys else None,
        rates=merge_rates(settings.prices),
        retry_s=min(OVERLOAD_S, settings.idle_timeout / 2),
        limit=limit,
        models=tuple(sorted(set(names))),
        egress_hosts=hosts,
        proxies={name: env[name] for name in PROXIES if env.get(name)} if hosts else {},
    )


def _choose_upstream(settings: "Settings", keys: Sequence[str], env: Mapping[str, str]) -> Upstream:
    """The endpoint for the first key that is set. Without one, for a dummy key: a local model
    server does not check it."""
    name = next((name for name in keys if env.get(name)), keys[0])
    value = env.get(name) or f"no-key-{secrets.token_hex(16)}"
    key = ModelKey(name, value, settings.model_key_header or "")
    endpoint = settings.model_endpoint or env.get(f"{key.api.name}_BASE_URL", "")
    return build_upstream(key, endpoint, env, settings.model_options)


def to_bytes(config: GatewayConfig) -> bytes:
    """As JSON, for the process."""
    return json.dumps(dataclasses.asdict(config), default=str).encode()


def from_bytes(data: bytes) -> GatewayConfig:
    """What :func:`to_bytes` was given. Raises ``ValueError``, ``KeyError`` or ``TypeError``."""
    values: dict[str, Any] = json.loads(data)
    way = values["upstream"]
    return GatewayConfig(
        **{
            **values,
            "upstream": _read_upstream(way) if way else None,
            "rates": {model: _read_rates(rates) for model, rates in values["rates"].items()},
            "limit": SpendingLimit(**values["limit"]),
            "models": tuple(values["models"]),
            "egress_hosts": tuple(values["egress_hosts"]),
        }
    )


def _read_upstream(values: dict[str, Any]) -> Upstream:
    return Upstream(
        **{
            **values,
            "key": ModelKey(**values["key"]),
            "headers": tuple((name, value) for name, value in values["headers"]),
            "ca_files": tuple(map(Path, values["ca_files"])),
            "ca_dir": Path(values["ca_dir"]) if values["ca_dir"] else None,
        }
    )


def _read_rates(values: dict[str, Any]) -> Rates:
    return Rates(**{**values, "long": _read_rates(values["long"]) if values["long"] else None})
