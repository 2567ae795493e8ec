"""Egress: the CONNECT proxy through which agents reach named hosts."""

from gitlab_nightshift.host.egress.proxy import EgressProxy, ProxyLimits, ProxyTicket
from gitlab_nightshift.host.egress.targets import entries
from gitlab_nightshift.host.egress.tunnel import Traffic

__all__ = ["EgressProxy", "ProxyLimits", "ProxyTicket", "Traffic", "entries"]
