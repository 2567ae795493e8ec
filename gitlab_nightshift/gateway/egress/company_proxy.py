"""Finds the proxy that the job itself needs to reach a target, if any."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.settings.allowed_hosts import format_host_port
from gitlab_nightshift.system.network_settings import find_job_proxy


@dataclass(frozen=True)
class JobProxy:
    """The job's own proxy. ``credential`` is what follows ``Basic``, "" for none; agents never see
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
    ``E_CONFIG`` for one that cannot be used."""

    def choose(host: str, port: int) -> JobProxy | None:
        scheme = "http" if port == 80 else "https"
        url = find_job_proxy(f"{scheme}://{format_host_port(host, port)}", env)
        try:
            return parse_proxy(url) if url else None
        except ValueError as error:
            name = f"{scheme}_proxy".upper()
            raise build_config_error(f"{name}: {error} where policy.egress_hosts is set") from None

    return choose
