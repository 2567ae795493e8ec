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


_FOLDER, _BUNDLE = "certificates", "bundle"
"""Below a run's private folder, the folder of the copies; and the name of the shared bundle in
it."""
_NAMED = ("CI_SERVER_TLS_CA_FILE", "SSL_CERT_FILE")
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
    """Copy the certificates of the checkout around ``folder`` to below ``private``.

    Returns the certificate variables that differ from the job's: those of a copied file name the
    copy, and those that the job leaves free the shared bundle. A file that cannot be copied is left
    out (``sealed_start.py`` warns of it).
    """
    contents = {
        name: read_certificates(env[name], folder) for name in _find_names_in_checkout(env, folder)
    }
    copies = {name: _build_copy_path(private, name) for name in contents if contents[name]}
    for name, path in copies.items():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(contents[name])
    _write_bundle(env, folder, private)
    # requests would trust certifi's list, without the certificates that this machine's owner added.
    system = next((place for place in _SYSTEM_BUNDLES if Path(place).is_file()), "")
    is_named = any(map(env.get, _SYNONYMS["REQUESTS_CA_BUNDLE"]))
    for_requests = {"REQUESTS_CA_BUNDLE": system} if system and not is_named else {}
    # In this order: a copy takes precedence over the bundle, and that over the system's list.
    of_copies = {name: str(path) for name, path in copies.items()}
    return for_requests | _find_bundle(env, private) | of_copies


def _write_bundle(env: Mapping[str, str], folder: Path, private: Path) -> None:
    named = [read_certificates(env[name], folder) for name in _NAMED if env.get(name)]
    if not any(named):
        return
    # A bundle replaces the system's list instead of adding to it, so it needs both.
    system = (read_certificates(place, folder) for place in _SYSTEM_BUNDLES)
    path = _build_copy_path(private, _BUNDLE)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(b"\n".join([next(filter(None, system), b""), *named]))


def _find_bundle(env: Mapping[str, str], private: Path) -> dict[str, str]:
    path = _build_copy_path(private, _BUNDLE)
    free = [name for name, same in _SYNONYMS.items() if not any(map(env.get, same))]
    return dict.fromkeys(free, str(path)) if path.exists() else {}


def build_network_env(env: Mapping[str, str], folder: Path, private: Path) -> dict[str, str]:
    """The proxy and certificate variables for this program's own connections. In place of a file in
    the checkout they name its copy, or nothing if there is none."""
    variables = _find_bundle(env, private) | {name: env[name] for name in NETWORK if env.get(name)}
    for name in _find_names_in_checkout(env, folder):
        del variables[name]
        if _build_copy_path(private, name).exists():
            variables[name] = str(_build_copy_path(private, name))
    return variables


def _find_names_in_checkout(env: Mapping[str, str], folder: Path) -> list[str]:
    checkouts = find_checkouts(folder, env)
    return [name for name in CERTIFICATES if env.get(name) and not is_outside(env[name], checkouts)]


def _build_copy_path(private: Path, name: str) -> Path:
    return private / _FOLDER / name


# --- proxies --------------------------------------------------------------------------------------


def find_job_proxy(url: str, env: Mapping[str, str]) -> str:
    """The proxy for a URL by ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY``; "" if none.

    An entry of ``NO_PROXY`` is a host, a domain (and all below it), a network, or ``*``.
    """
    parts = urlsplit(url)
    # As curl and Python do, which prefer the lower-case name (urllib.request.getproxies).
    names = (f"{parts.scheme}_proxy", f"{parts.scheme}_proxy".upper())
    no = env.get("no_proxy") or env.get("NO_PROXY") or ""
    host = parts.hostname or ""
    if _is_this_machine(host) or any(_matches(entry.strip(), host) for entry in no.split(",")):
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
