"""The model gateway: agents get a placeholder and a loopback address, never the key."""

from gitlab_nightshift.host.gateway.gateway import BeadTicket, Gateway
from gitlab_nightshift.host.gateway.keys import Api, ModelKey
from gitlab_nightshift.host.gateway.limits import Limits
from gitlab_nightshift.host.gateway.prices import Rates, all_rates
from gitlab_nightshift.host.gateway.upstream import Upstream, upstream

__all__ = [
    "Api",
    "BeadTicket",
    "Gateway",
    "Limits",
    "ModelKey",
    "Rates",
    "Upstream",
    "all_rates",
    "upstream",
]
