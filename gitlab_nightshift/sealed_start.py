"""The sealed start: this program replaces itself by ``python -I -S``, with the same pid.

A job's environment belongs to its project: ``PYTHONPATH`` may name a folder of the checkout, where
an agent writes modules that Python would import while this process holds the token. So the new
interpreter imports only from the installation, and its environment has only a few known variables.
It gets the job's environment as data, in an anonymous file (memfd_create(2)).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

TYPE_CHECKING = False  # typing and dataclasses would double the time until the process is replaced
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

ENTRY = Path(__file__).resolve().with_name("sealed_entry.py")
_OWN_FOLDER = str(ENTRY.parents[1])
"""The folder that this package is imported from."""
CA_FILES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
)
"""Variables that name a file of certificates."""
LARGEST_CA_FILE = 2_000_000
"""Bytes."""
STATE_FOLDER_SUFFIX = ".nightshift"
"""The end of the name of the state folder beside a checkout (``repository/state_folder.py``)."""
# The variables that this program's own processes get.
_PATH_LISTS = ("PATH", "LD_LIBRARY_PATH")
_PATHS = ("HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_OTHERS = ("USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", *_PROXIES)


class SealedStart:
    """A command that starts ``sealed_entry.py``, with its environment; the process has to inherit
    ``descriptor``. ``left_out`` are messages about variables that are not used."""

    def __init__(
        self, command: list[str], env: dict[str, str], descriptor: int, left_out: tuple[str, ...]
    ) -> None:
        self.command, self.env = command, env
        self.descriptor, self.left_out = descriptor, left_out


def prepare_start(
    arguments: Sequence[str], env: Mapping[str, str], parent: int | None = None
) -> SealedStart:
    """A sealed start in the current folder. A caller that does not ``become`` it has to close the
    descriptor.

    ``parent`` is the pid of the calling process if the command will be its child: it then gets
    SIGTERM when the calling thread ends.
    """
    checkouts = find_checkouts(Path.cwd(), env)
    unsafe = _find_unsafe_variables(env, checkouts)
    dropped = {name for name in ("HOME", "TMPDIR") if name in unsafe}
    if not env.get("HOME"):
        dropped.add("HOME")
    data = {
        "path": find_installation(),
        "env": {name: value for name, value in env.items() if name not in dropped},
        "arguments": list(arguments),
    }
    return _build_start(data, build_own_environment(env, checkouts), parent, tuple(unsafe.values()))


def prepare_stage(
    module: str, data: Mapping[str, Any], env: Mapping[str, str], parent: int | None = None
) -> SealedStart:
    """The start of a child that runs ``module.main(data)``, a module of this program.

    ``env`` is its whole environment; ``data`` must be JSON. The child gets SIGTERM when the calling
    thread ends. ``parent`` is this process's pid as the child sees it, None for the usual one: in
    another PID namespace it differs.
    """
    path = [_OWN_FOLDER, *(folder for folder in sys.path if Path(folder).is_absolute())]
    return _build_start({**data, "path": path, "stage": module}, dict(env), parent or os.getpid())


def _build_start(
    data: Mapping[str, Any],
    env: dict[str, str],
    parent: int | None,
    left_out: tuple[str, ...] = (),
) -> SealedStart:
    descriptor = os.memfd_create("nightshift")
    with os.fdopen(os.dup(descriptor), "w") as file:
        json.dump(data, file)
    os.lseek(descriptor, 0, os.SEEK_SET)
    parents = [] if parent is None else [str(parent)]
    command = [sys.executable, "-I", "-S", str(ENTRY), str(descriptor), *parents]
    return SealedStart(command, env, descriptor, left_out)


def become(start: SealedStart) -> NoReturn:
    """Replace this process by the start (execve(2)). Raises OSError."""
    os.set_inheritable(start.descriptor, True)
    os.execve(start.command[0], start.command, start.env)  # noqa: S606 - no shell is the point


def find_installation() -> list[str]:
    """The folders that this program is imported from: its own, and the installation's
    ``site-packages``. Of ``PYTHONPATH`` only the folder of this package is included."""
    import site

    folders = [_OWN_FOLDER, *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return list(dict.fromkeys(folder for folder in folders if Path(folder).is_dir()))


def describe_open_import_path(env: Mapping[str, str]) -> str:
    """A warning if Python's import path has a folder that agents write to; "" if not, or if this
    program itself is installed there."""
    checkouts = find_checkouts(Path.cwd(), env)
    folders = [folder or "." for folder in sys.path]
    unsafe = [folder for folder in folders if not is_outside(folder, checkouts)]
    if not unsafe or not is_outside(str(ENTRY), checkouts):
        return ""
    return (
        f"Python was started with {unsafe[0]} on its import path, where agents write: another such"
        f" start in this job could load what they left there; use {sys.executable} -I -m"
        " gitlab_nightshift"
    )


def find_checkouts(folder: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
    """The checkouts that agents write to: the job's, and the one around ``folder``. After a kill,
    a checkout without ``.git``, which agents may have removed, still has its state folder."""
    around = [path for path in (folder, *folder.parents) if _is_checkout(path)]
    jobs = [Path(env["CI_PROJECT_DIR"])] if env.get("CI_PROJECT_DIR") else []
    return tuple({path.resolve() for path in (*jobs, *around[:1])})


def _is_checkout(path: Path) -> bool:
    has_state_folder = path.name != "" and os.path.lexists(f"{path}{STATE_FOLDER_SUFFIX}")
    return has_state_folder or os.path.lexists(path / ".git")


def build_own_environment(env: Mapping[str, str], checkouts: Sequence[Path]) -> dict[str, str]:
    """The variables of this program's own processes, without paths that agents can write."""
    own = {name: env[name] for name in _OTHERS if name in env}
    own |= {name: env[name] for name in _PATHS if name in env and is_outside(env[name], checkouts)}
    for name in _PATH_LISTS:
        folders = [folder for folder in env.get(name, "").split(os.pathsep) if folder]
        outside = [folder for folder in folders if is_outside(folder, checkouts)]
        if outside:
            own[name] = os.pathsep.join(outside)
    # Without HOME, libraries that load would ask getpwuid(3), which fails for a uid without a name.
    own["HOME"] = own.get("HOME") or "/"
    # pydantic searches every installed package for plugins, and runs them.
    return own | {"PYDANTIC_DISABLE_PLUGINS": "__all__"}


def _find_unsafe_variables(env: Mapping[str, str], checkouts: Sequence[Path]) -> dict[str, str]:
    """The variables that name paths in the checkouts → a message about each. A run copies files of
    certificates, so one is unsafe only if it cannot be copied."""
    messages = {}
    for name in dict.fromkeys((*_PATHS, *CA_FILES)):
        value = env.get(name) or "/"
        if is_outside(value, checkouts):
            continue
        if name not in CA_FILES:
            text = f"{name} leads into the checkout, where agents write, so it is not used"
            messages[name] = text
        elif not read_certificates(value, Path.cwd()):
            limit = f"{LARGEST_CA_FILE // 1_000_000} MB"
            messages[name] = f"{name}: {value} is no file of up to {limit}, as for a copy: not used"
    return messages


def read_certificates(name: str, folder: Path) -> bytes:
    """The bytes of a file of certificates, relative to ``folder``; b"" if it is too large or cannot
    be read."""
    path = folder / name
    try:
        is_small = path.is_file() and path.stat().st_size <= LARGEST_CA_FILE
        return path.read_bytes() if is_small else b""
    except OSError:
        return b""


def is_outside(path: str, checkouts: Sequence[Path]) -> bool:
    """True for an absolute path outside of the checkouts, both as written and resolved."""
    return Path(path).is_absolute() and not any(lies_in(Path(path), top) for top in checkouts)


def lies_in(path: Path, top: Path) -> bool:
    """True if a path, as written or resolved, is in the folder ``top``."""
    return Path(os.path.normpath(path)).is_relative_to(top) or path.resolve().is_relative_to(top)
