"""The job's own proxy to the internet: for this program's connections, never for an agent's."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


def find_job_proxy(url: str, env: Mapping[str, str]) -> str:
    """The proxy for a URL by ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY``; "" if none.

    An entry of ``NO_PROXY`` is a host, a domain (and all below it), a network, or ``*``.
    """
    parts = urlsplit(url)
    names = (f"{parts.scheme}_proxy", f"{parts.scheme}_proxy".upper())
    no = env.get("no_proxy") or env.get("NO_PROXY") or ""
    host = parts.hostname or ""
    if _is_this_machine(host) or any(_matches(entry.strip(), host) for entry in no.split(",")):
        return ""
    proxy = next((env[name] for name in names if env.get(name)), "")
    return proxy if "://" in proxy or not proxy else f"http://{proxy}"


def _matches(entry: str, host: str) -> bool:
    """True if an entry of ``NO_PROXY`` names the host, or a domain or network around it."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        name = entry.lower().partition(":")[0].lstrip(".")
        return name == "*" or (name != "" and (host == name or host.endswith(f".{name}")))


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
