"""Egress: the CONNECT proxy through which agents reach named hosts."""

from gitlab_nightshift.host.egress.onward import Onward, onward
from gitlab_nightshift.host.egress.proxy import EgressProxy, ProxyLimits, ProxyTicket
from gitlab_nightshift.host.egress.tunnel import Traffic

__all__ = ["EgressProxy", "Onward", "ProxyLimits", "ProxyTicket", "Traffic", "onward"]
