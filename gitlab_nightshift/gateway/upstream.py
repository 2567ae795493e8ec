"""The model endpoint behind the gateway: its key, its URL, and how to connect to it.

An agent gets a placeholder instead of the key, from ``model_gateway.py: open_bead``.
"""

import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.system.network_settings import find_job_proxy
from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    import ssl


class Api(StrEnum):
    """The provider whose interface an endpoint has."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"


OAUTH = "CLAUDE_CODE_OAUTH_TOKEN"
_VARIABLE_APIS = {
    "ANTHROPIC_API_KEY": Api.ANTHROPIC,
    "ANTHROPIC_AUTH_TOKEN": Api.ANTHROPIC,
    OAUTH: Api.ANTHROPIC,
    "OPENAI_API_KEY": Api.OPENAI,
}
_PLACEHOLDER_PREFIXES = {Api.ANTHROPIC: "sk-ant-placeholder-", Api.OPENAI: "sk-placeholder-"}


@dataclass(frozen=True)
class ModelKey:
    """A key and its variable, which determines the header that carries it, unless ``header_name``
    is set. Its repr hides the key."""

    variable: str
    value: str
    header_name: str = ""

    def __post_init__(self) -> None:
        """Raise ``E_CONFIG`` if it cannot be sent in a header."""
        object.__setattr__(self, "value", self.value.strip())
        if self.variable not in _VARIABLE_APIS:
            raise build_config_error(f"{self.variable} is not a variable for a model key")
        if not self.value or not self.value.isascii() or not self.value.isprintable():
            raise build_config_error(f"{self.variable} is empty or has characters that no key has")

    def __repr__(self) -> str:
        return f"ModelKey({self.variable})"

    @property
    def api(self) -> Api:
        """The interface that the key is for."""
        return _VARIABLE_APIS[self.variable]

    @property
    def header(self) -> tuple[str, str]:
        """The header that carries the key to the endpoint."""
        # Anthropic takes API keys in X-Api-Key, other tokens as Bearer, as OpenAI does its keys.
        name = self.header_name or (
            "X-Api-Key" if self.variable == "ANTHROPIC_API_KEY" else "Authorization"
        )
        if name.lower() != "authorization":
            return name, self.value
        return "Authorization", f"Bearer {self.value}"


def make_placeholder(api: Api) -> str:
    """A random placeholder: CLIs accept it as a key, and people see that it is none."""
    return _PLACEHOLDER_PREFIXES[api] + secrets.token_hex(24)


# --- the endpoint ---------------------------------------------------------------------------------

DEFAULTS = {Api.ANTHROPIC: "https://api.anthropic.com", Api.OPENAI: "https://api.openai.com"}
SHORTEST_SECRET = 8
"""Characters of a header's value: shorter ones are no secrets, and would occur in many answers."""
# Azure's base URL names a version of its API in the query.
_API_VERSION = compile_lazily(r"(?P<url>[^?#]+)\?(?P<query>api-version=[\w.-]{1,40})")
_OWN_VERSION = compile_lazily(r"/v\d+\w*(/openai)?$|/deployments/[^/]+$")
"""Base URLs with a version of their own, to which ``/chat/completions`` is added directly: Gemini's
``/v1beta/openai``, ``/api/paas/v4``, a deployment of Azure."""
OAUTH_BETA = "oauth-2025-04-20"
ANTHROPIC_VERSION = "2023-06-01"
"""The only ``anthropic-version`` that Anthropic's interface has now."""
_CA_FILES = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_RESERVED_HEADERS = frozenset(
    {
        *("authorization", "x-api-key"),  # the key's
        *("anthropic-beta", "anthropic-version"),  # checked, and set for each request
        *("host", "content-length", "content-type", "content-encoding", "transfer-encoding"),
        *("accept", "accept-encoding"),  # what the answer's reader understands
        # Those of one hop: RFC 9110, 7.6.1 and 10.1.1.
        *("connection", "te", "trailer", "upgrade", "expect"),
    }
)
"""Headers that teams cannot set."""


@dataclass(frozen=True)
class Upstream:
    """Where requests are forwarded to; :func:`build_upstream` makes and checks it.

    ``base_url`` has no slash at its end and no ``/v1``; ``version`` comes between it and a path, ""
    if the URL has a version of its own (Gemini, Azure's deployments), and ``query`` after the path.
    ``options`` are the team's fields for requests of Chat Completions, ``headers`` the team's
    headers (for a company's gateway), ``proxy`` is the URL of the proxy to the internet, "" for
    none; ``ca_files`` and ``ca_dir`` add to the system's certificates.
    """

    key: ModelKey
    base_url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    proxy: str = field(default="", repr=False)
    ca_files: tuple[Path, ...] = ()
    ca_dir: Path | None = None
    version: str = "/v1"
    query: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def build_url(self, path: str, query: str = "") -> str:
        """The endpoint's URL for a path such as ``/v1/models``."""
        url = f"{self.base_url}{self.version}{path.removeprefix('/v1')}"
        queries = "&".join(filter(None, (query, self.query)))
        return f"{url}?{queries}" if queries else url

    @property
    def api(self) -> Api:
        """The interface that the endpoint speaks."""
        return self.key.api

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """Values that an answer must not contain."""
        values = [self.key.value, *(v for _, v in self.headers if len(v) >= SHORTEST_SECRET)]
        return tuple(value.encode() for value in values)

    @property
    def has_tls(self) -> bool:
        """True if certificates are needed. Loading the system's takes longer than the start."""
        return any(url.startswith("https:") for url in (self.base_url, self.proxy))

    def build_tls_context(self) -> "ssl.SSLContext":
        """A context that checks certificates. Raises ``E_CONFIG`` if a CA file cannot be read."""
        import ssl  # 10 ms: only where a connection is made

        context = ssl.create_default_context()
        for file in self.ca_files:
            try:
                context.load_verify_locations(file)
            except (OSError, ssl.SSLError) as error:
                raise build_config_error(f"the CA file {file} cannot be used: {error}") from None
        if self.ca_dir:
            context.load_verify_locations(capath=self.ca_dir)
        return context

    def build_headers(self, betas: str) -> dict[str, str]:
        """The headers with the key, the team's, and those that the kind of key needs."""
        names = [name for name in betas.split(",") if name]
        if self.key.variable == OAUTH and OAUTH_BETA not in names:
            names.append(OAUTH_BETA)
        beta = [("anthropic-beta", ",".join(names))] if names else []
        return dict([*beta, *self.headers, self.key.header])


def build_upstream(
    key: ModelKey, base_url: str, env: Mapping[str, str], options: Mapping[str, Any] | None = None
) -> Upstream:
    """The endpoint for a key; the provider's own if ``base_url`` is "".

    ``env`` may have ``HTTPS_PROXY`` and ``NO_PROXY``, ``SSL_CERT_DIR``, the variables of
    ``_CA_FILES``, and ``ANTHROPIC_CUSTOM_HEADERS``. Raises ``E_CONFIG`` for an address or header
    that cannot be used.
    """
    # OpenAI's clients are given a URL with /v1, Anthropic's a URL without it: either form will do.
    url, query = (base_url or DEFAULTS[key.api]).rstrip("/"), ""
    if key.api is Api.OPENAI and (match := _API_VERSION.fullmatch(url)):
        url, query = match["url"].rstrip("/"), match["query"]
    own_version = key.api is Api.OPENAI and _OWN_VERSION.search(url)
    version = "" if own_version and not url.endswith("/v1") else "/v1"
    url = url.removesuffix("/v1")
    variable = f"{key.api.name}_BASE_URL"
    _check_base_url(url, variable if env.get(variable) == base_url else "model_endpoint")
    header_lines = env.get("ANTHROPIC_CUSTOM_HEADERS", "") if key.api is Api.ANTHROPIC else ""
    ca_files = dict.fromkeys(Path(env[name]) for name in _CA_FILES if env.get(name))
    ca_dir = env.get("SSL_CERT_DIR")
    return Upstream(
        key,
        url,
        _parse_headers(header_lines),
        find_job_proxy(url, env),
        tuple(ca_files),
        Path(ca_dir) if ca_dir else None,
        version,
        query,
        options or {},
    )


def _check_base_url(url: str, source: str) -> None:
    """``source`` names the setting or variable with the address."""
    try:
        parts = urlsplit(url)
        # Reading an invalid port raises ValueError.
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise build_config_error(f"{source}: not an address") from None
    if parts.scheme not in ("http", "https") or not host or not url.isprintable():
        raise build_config_error(
            f"{source}: expected an address such as https://models.example.org"
        )
    # A password in a URL would end up in logs.
    if parts.username is not None or parts.query or parts.fragment:
        raise build_config_error(f"{source}: must not contain a user, password, query or fragment")
    if parts.scheme == "http" and not _is_local(host):
        raise build_config_error(
            f"{source}: use https, otherwise anyone on the way can read the key"
        )


def _is_local(host: str) -> bool:
    """True for this machine, a private address, or a name of the job's own network (a service)."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host
    # Link-local addresses are private, too, and lead to the metadata services of clouds.
    return address.is_loopback or (address.is_private and not address.is_link_local)


def _parse_headers(text: str) -> tuple[tuple[str, str], ...]:
    """``Name: value`` lines, as the CLI reads them."""
    headers = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, value = map(str.strip, line.partition(":"))
        # A subset of what RFC 9110, 5.6.2 calls a token.
        token = name.replace("-", "").replace("_", "")
        if not (colon and token.isalnum() and name.isascii()) or not value.isprintable():
            raise build_config_error(
                "ANTHROPIC_CUSTOM_HEADERS: expected lines such as `Name: value`"
            )
        if name.lower() in _RESERVED_HEADERS:
            raise build_config_error(f"ANTHROPIC_CUSTOM_HEADERS: {name} is set by this program")
        headers.append((name, value))
    return tuple(headers)
