"""The certificates and the proxy of this program's own connections, never of an agent's.

A company's certificate may lie in the repository, where an agent could replace it: such a file is
copied before the first agent, and only the copy is used. Agents keep the job's own variables.

GitLab, git, the gateway and notifications share one bundle: the machine's certificates, those of
``SSL_CERT_FILE``, and those of the runner's ``tls-ca-file`` (``CI_SERVER_TLS_CA_FILE``). A variable
for only one of these connections takes precedence there.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from gitlab_nightshift.sealed_start import find_checkouts, is_outside, read_certificates

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
CERTIFICATES = (
    *("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    *("CURL_CA_BUNDLE", "GIT_SSL_CAINFO"),
)
NETWORK = (*PROXIES, *CERTIFICATES)
"""Proxies and certificates for this program's own connections to the internet."""

# --- certificates ---------------------------------------------------------------------------------


_COPIES, _BUNDLE = "certificates", "bundle"
"""The folder of the copies, in a run's private folder, and the shared bundle in it."""
_BUNDLED = ("CI_SERVER_TLS_CA_FILE", "SSL_CERT_FILE")
"""Variables whose files are in the shared bundle."""
_SYNONYMS = {
    "SSL_CERT_FILE": ("SSL_CERT_FILE",),
    "REQUESTS_CA_BUNDLE": ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    "GIT_SSL_CAINFO": ("GIT_SSL_CAINFO",),
}
"""Variable → variables with the same meaning."""
_SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""The certificates of Debian, Fedora, openSUSE and Alpine."""


def copy_certificates(env: Mapping[str, str], folder: Path, private: Path) -> dict[str, str]:
    """Copy the certificates of the checkout around ``folder`` into the folder ``private``.

    Returns the certificate variables that differ from the job's: those of a copied file name the
    copy, those that the job does not set name the shared bundle. A file that cannot be copied is
    left out (``sealed_start.py`` warns of it).
    """
    copies = dict[str, str]()
    for name in _find_names_in_checkout(env, folder):
        if content := read_certificates(env[name], folder):
            copies[name] = _write_copy(private, name, content)
    _write_bundle(env, folder, private)
    # requests would trust certifi's list, without the certificates that this machine's owner added.
    system = next((path for path in _SYSTEM_BUNDLES if Path(path).is_file()), "")
    is_set = any(map(env.get, _SYNONYMS["REQUESTS_CA_BUNDLE"]))
    for_requests = {"REQUESTS_CA_BUNDLE": system} if system and not is_set else {}
    # In this order: a copy takes precedence over the bundle, and that over the system's list.
    return for_requests | _find_bundle_variables(env, private) | copies


def _write_bundle(env: Mapping[str, str], folder: Path, private: Path) -> None:
    added = [read_certificates(env[name], folder) for name in _BUNDLED if env.get(name)]
    if any(added):
        # A bundle replaces the system's list instead of adding to it, so it needs both.
        system = (read_certificates(path, folder) for path in _SYSTEM_BUNDLES)
        content = b"\n".join([next(filter(None, system), b""), *added])
        _write_copy(private, _BUNDLE, content)


def _write_copy(private: Path, name: str, content: bytes) -> str:
    path = _build_copy_path(private, name)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(content)
    return str(path)


def _find_bundle_variables(env: Mapping[str, str], private: Path) -> dict[str, str]:
    """The variables that the job does not set, with the path of the shared bundle, if any."""
    path = _build_copy_path(private, _BUNDLE)
    unset = [name for name, synonyms in _SYNONYMS.items() if not any(map(env.get, synonyms))]
    return dict.fromkeys(unset, str(path)) if path.exists() else {}


def build_network_env(env: Mapping[str, str], folder: Path, private: Path) -> dict[str, str]:
    """The proxy and certificate variables for this program's own connections. In place of a file in
    the checkout they name its copy, or nothing if there is none."""
    variables = _find_bundle_variables(env, private)
    variables |= {name: env[name] for name in NETWORK if env.get(name)}
    for name in _find_names_in_checkout(env, folder):
        del variables[name]
        if _build_copy_path(private, name).exists():
            variables[name] = str(_build_copy_path(private, name))
    return variables


def _find_names_in_checkout(env: Mapping[str, str], folder: Path) -> list[str]:
    checkouts = find_checkouts(folder, env)
    return [name for name in CERTIFICATES if env.get(name) and not is_outside(env[name], checkouts)]


def _build_copy_path(private: Path, name: str) -> Path:
    return private / _COPIES / name


# --- proxies --------------------------------------------------------------------------------------


def find_job_proxy(url: str, env: Mapping[str, str]) -> str:
    """The proxy for a URL by ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY``; "" if none.

    An entry of ``NO_PROXY`` is a host, a domain (and all below it), a network, or ``*``.
    """
    parts = urlsplit(url)
    # As curl and Python do, which prefer the lower-case name (urllib.request.getproxies).
    names = (f"{parts.scheme}_proxy", f"{parts.scheme}_proxy".upper())
    no_proxy = (env.get("no_proxy") or env.get("NO_PROXY") or "").split(",")
    host = parts.hostname or ""
    if _is_this_machine(host) or any(_matches(entry.strip(), host) for entry in no_proxy):
        return ""
    proxy = next((env[name] for name in names if env.get(name)), "")
    return proxy if "://" in proxy or not proxy else f"http://{proxy}"


def _matches(entry: str, host: str) -> bool:
    """True if an entry of ``NO_PROXY`` names the host, or a domain or network around it."""
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        name = entry.lower().partition(":")[0].lstrip(".")
        return name == "*" or (name != "" and (host == name or host.endswith(f".{name}")))


def _is_this_machine(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
