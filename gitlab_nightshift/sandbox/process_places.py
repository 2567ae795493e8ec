"""The rights of a process, from its row of the process table, as paths of this machine."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gitlab_nightshift import sealed_start
from gitlab_nightshift.sandbox.inside import landlock
from gitlab_nightshift.sandbox.inside.syscalls import AUDIT_ARCH
from gitlab_nightshift.sandbox.privilege_drop import ProcessRights
from gitlab_nightshift.sandbox.process_table import (
    ALL_FILES,
    INSTALLATION_FILES,
    NETWORK_FILES,
    PROGRAM_FILES,
    ProcessRow,
)
from gitlab_nightshift.sandbox.system_paths import HOME_FILES, STORES

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
"""Certificates, and the files of name resolution."""
_CA_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/proc", *STORES)
"""``/proc`` is for a process's own children; of other processes it shows only command lines."""
Places = Mapping[str, str | Sequence[str]]
"""The path or paths that replace ``{name}`` in a row."""


def find_rights(row: ProcessRow, places: Places, env: Mapping[str, str]) -> ProcessRights:
    """The rights of a process started from this row, with this environment."""
    readable = list(_expand(row.reads, places, env))
    listable = list_around_package()
    if ALL_FILES in readable and (credentials := _list_credentials(env)):
        from gitlab_nightshift.sandbox.visible_system import add_paths_around  # few rows need it

        readable.remove(ALL_FILES)
        for path in _list_root():
            add_paths_around(path, credentials, readable, listable)
        listable.append(ALL_FILES)  # names in HOME are no secret, and HOME may be the checkout
    return ProcessRights(
        readable=tuple(readable),
        listable=tuple(listable),
        writable=tuple(_expand(row.writes, places, env)),
        uses_network=bool(row.network),
        serves=row.serves,
        starts_processes=bool(row.children),
        changes_attributes=bool(row.attributes),
        memory=row.memory,
        cpu_s=row.cpu_s,
    )


def _expand(patterns: Sequence[str], places: Places, env: Mapping[str, str]) -> Iterator[str]:
    """The paths that a row's patterns mean here."""
    for pattern in patterns:
        if pattern == INSTALLATION_FILES:
            yield from list_installation()
        elif pattern == NETWORK_FILES:
            yield from list_network_files(env)
        elif pattern == PROGRAM_FILES:
            yield from list_programs(env.get("PATH", ""))
        elif pattern.endswith("}") and not isinstance(paths := places[pattern.strip("{}")], str):
            yield from paths
        else:
            yield pattern.format(**places)


def _list_credentials(env: Mapping[str, str]) -> list[str]:
    home = os.path.realpath(env.get("HOME") or "/")
    paths = (os.path.realpath(f"{home}/{name}") for name in HOME_FILES)
    return list(filter(os.path.lexists, paths))


def _list_root() -> list[str]:
    with os.scandir(ALL_FILES) as entries:
        return [entry.path for entry in entries if not entry.is_symlink()]


def list_unenforceable() -> tuple[str, ...]:
    """The rights that this kernel cannot take from a process that confines itself."""
    enforceable = {"files": landlock.read_abi() > 0, "network": AUDIT_ARCH != 0}
    return tuple(right for right, can_enforce in enforceable.items() if not can_enforce)


def list_around_package() -> list[str]:
    """The folder around the package, which Python lists to import it. Empty in ``site-packages``,
    which a process may read anyway."""
    return [] if _is_installed() else [str(PACKAGE.parent)]


def _is_installed() -> bool:
    """True if the folder around the package contains only packages."""
    return PACKAGE.parent.name in ("site-packages", "dist-packages")


def list_installation() -> list[str]:
    """The files that this program imports, and their libraries; but the folder around the package
    only if it contains nothing but packages."""
    around = list_around_package()
    search_path = [path for path in sys.path if Path(path).is_absolute() and path not in around]
    program = (str(PACKAGE), str(sealed_start.ENTRY))
    standard_library = os.path.dirname(os.__file__)  # noqa: PTH120
    # sys.base_prefix/lib: libpython, if Python was built with a shared library.
    return [*program, standard_library, *search_path, f"{sys.base_prefix}/lib", *LIBRARIES]


def list_network_files(env: Mapping[str, str]) -> list[str]:
    """The files that a process with this environment needs to connect to a server."""
    import ssl

    default = ssl.get_default_verify_paths()
    paths = (default.cafile, default.capath, default.openssl_cafile, default.openssl_capath)
    named = map(env.get, _CA_VARIABLES)
    return [*CERTIFICATES, *filter(None, (*paths, *named))]


def list_programs(search_path: str) -> list[str]:
    """The system's programs, this program's Python, and git with the folders beside it."""
    git_folder = Path(shutil.which("git", path=search_path) or "/usr/bin/git").resolve().parent
    beside = (str(git_folder.parent / name) for name in ("lib", "lib64", "libexec"))
    return [*_SYSTEM, str(git_folder), *beside, sys.prefix, sys.base_prefix]
