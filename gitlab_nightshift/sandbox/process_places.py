"""The paths that a row of the process table stands for on this machine."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gitlab_nightshift import sealed_start
from gitlab_nightshift.sandbox.inside import landlock
from gitlab_nightshift.sandbox.inside.syscall_numbers import AUDIT_ARCH
from gitlab_nightshift.sandbox.privilege_drop import ProcessRights
from gitlab_nightshift.sandbox.process_table import INSTALLATION, NETWORK, PROGRAMS, ProcessRow
from gitlab_nightshift.sandbox.system_paths import STORES

PACKAGE = Path(__file__).parents[1]
LIBRARIES = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"),
    *("/etc/localtime", "/usr/share/zoneinfo", *STORES),
)
CERTIFICATES = (
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates"),
    *("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf"),
    *("/etc/services", "/etc/mime.types"),
)
"""Certificates, and what a name is looked up with."""
_CA_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/proc", *STORES)
"""What shows a process its children shows it others' command lines, and nothing else of them."""
Places = Mapping[str, str | Sequence[str]]
"""What ``{name}`` in a row stands for: a path, or several."""


def find_rights(row: ProcessRow, places: Places, env: Mapping[str, str]) -> ProcessRights:
    """What a process may keep that is started from this row, with this environment."""
    return ProcessRights(
        readable=tuple(_expand(row.reads, places, env)),
        listable=() if _is_shared() else (str(PACKAGE.parent),),
        writable=tuple(_expand(row.writes, places, env)),
        network=bool(row.network),
        serves=row.serves,
        children=bool(row.children),
        attributes=row.attributes,
        memory=row.memory,
        cpu_s=row.cpu_s,
    )


def _expand(texts: Sequence[str], places: Places, env: Mapping[str, str]) -> Iterator[str]:
    for text in texts:
        if text == INSTALLATION:
            yield from list_installation()
        elif text == NETWORK:
            yield from list_network_files(env)
        elif text == PROGRAMS:
            yield from _list_programs(env.get("PATH", ""))
        elif text.endswith("}") and not isinstance(named := places[text.strip("{}")], str):
            yield from named
        else:
            yield text.format(**places)


def list_unheld() -> tuple[str, ...]:
    """What this kernel cannot keep from any process that confines itself."""
    return ("files",) * (not landlock.read_abi()) + ("network",) * (not AUDIT_ARCH)


def _is_shared() -> bool:
    """Whether the folder around the package holds nothing but packages."""
    return PACKAGE.parent.name in ("site-packages", "dist-packages")


def list_installation() -> list[str]:
    """What this program imports, and what that loads: without the folder around the package where
    only the package in it is ours."""
    around = None if _is_shared() else str(PACKAGE.parent)
    path = [part for part in sys.path if Path(part).is_absolute() and part != around]
    own = (str(PACKAGE), str(sealed_start.ENTRY), os.path.dirname(os.__file__))  # noqa: PTH120
    return [*own, *path, f"{sys.base_prefix}/lib", *LIBRARIES]


def list_network_files(env: Mapping[str, str]) -> list[str]:
    """What a process of this environment connects to other servers with."""
    import ssl

    default = ssl.get_default_verify_paths()
    places = (default.cafile, default.capath, default.openssl_cafile, default.openssl_capath)
    named = (env.get(name) for name in _CA_VARIABLES)
    return [*CERTIFICATES, *(place for place in (*places, *named) if place)]


def _list_programs(search_path: str) -> list[str]:
    """The system's programs, this program's Python, and git with what lies beside it."""
    tools = Path(shutil.which("git", path=search_path) or "/usr/bin/git").resolve().parent
    parts = [str(tools), *(str(tools.parent / part) for part in ("lib", "lib64", "libexec"))]
    return [*_SYSTEM, *parts, sys.prefix, sys.base_prefix]
