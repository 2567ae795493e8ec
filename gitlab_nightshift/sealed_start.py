"""The sealed start: this program runs again as ``python -I -S``, in the same process.

A job's environment belongs to its project: ``PYTHONPATH`` may name a folder of the checkout, where
an agent writes modules that Python would import while this process holds the token. So the start
imports from the installation alone, and only named variables are its own. The job's whole
environment goes along as data, through a file without a name.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

TYPE_CHECKING = False  # not imported: with dataclasses it is half of a start that is thrown away
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

ENTRY = Path(__file__).resolve().with_name("sealed_entry.py")
CA_FILES = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"),
    "NODE_EXTRA_CA_CERTS",
)
"""Variables that name a file of certificates."""
LARGEST_CA_FILE = 2_000_000
SUFFIX = ".nightshift"
"""The end of the name of the folder that is kept beside a checkout while agents work."""
_FOLDER_LISTS = ("PATH", "LD_LIBRARY_PATH")
_PLACES = (
    *("HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
_WORDS = (
    *("USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
"""The variables that this program's own processes get: lists of folders, places, and plain
words."""


class SealedStart:
    """A command that starts ``sealed_entry.py``, with its environment; the process has to inherit
    ``descriptor``. ``left_out`` are lines about variables that are not used, as they lead to where
    agents write."""

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

    With ``parent``, a pid, the start is for a child of that process, and stops when the thread that
    started it ends.
    """
    checkouts = find_checkouts(Path.cwd(), env)
    left_out = _find_unsafe_variables(env, checkouts)
    kept = {k: v for k, v in env.items() if k not in left_out or k not in ("HOME", "TMPDIR")}
    data = {
        "path": find_installation(),
        "env": {k: v for k, v in kept.items() if v or k != "HOME"},
        "arguments": list(arguments),
    }
    return _build_start(
        data, build_own_environment(env, checkouts), parent, tuple(left_out.values())
    )


def prepare_stage(
    module: str, data: Mapping[str, Any], env: Mapping[str, str], parent: int | None = None
) -> SealedStart:
    """The start of a child that runs ``module.main(data)``, a module of this program.

    ``env`` is its whole environment; ``data`` is passed as JSON in the file without a name. The
    child gets SIGTERM when the calling thread ends. ``parent`` is the pid of its parent as the
    child sees it, None if that is this process's: in a PID namespace it is another.
    """
    path = [folder for folder in sys.path if Path(folder).is_absolute()]
    own = str(Path(__file__).resolve().parents[1])
    return _build_start(
        {**data, "path": [own, *path], "stage": module}, dict(env), parent or os.getpid()
    )


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
    """Replace this program by the start, with the same pid. Raises OSError."""
    os.set_inheritable(start.descriptor, True)
    os.execve(start.command[0], start.command, start.env)  # noqa: S606 - no shell is the point


def find_installation() -> list[str]:
    """The folders that this program is imported from: its own, and those of its environment.

    Of ``PYTHONPATH``, only a folder that has this package is among them.
    """
    import site

    folders = [str(Path(__file__).resolve().parents[1]), *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return list(dict.fromkeys(folder for folder in folders if Path(folder).is_dir()))


def describe_open_import_path(env: Mapping[str, str]) -> str:
    """A warning if Python was started with a folder on its import path that agents write to; "" if
    not, or if this program itself is installed there."""
    checkouts = find_checkouts(Path.cwd(), env)
    found = [part or "." for part in sys.path if not is_safe(part or ".", checkouts)]
    if not found or not is_safe(str(ENTRY), checkouts):
        return ""
    return (
        f"Python was started with {found[0]} on its import path, where agents write: another such"
        f" start in this job could load what they left there; use {sys.executable} -I -m"
        " gitlab_nightshift"
    )


def find_checkouts(folder: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders that agents write to, as far as a start can know: the job's checkout, and the one
    around ``folder``. After a kill, a checkout is known by the folder beside it, even if agents
    have removed its ``.git``."""
    around = [place for place in (folder, *folder.parents) if _is_checkout(place)]
    named = [Path(env["CI_PROJECT_DIR"])] if env.get("CI_PROJECT_DIR") else []
    return tuple({place.resolve() for place in (*named, *around[:1])})


def _is_checkout(place: Path) -> bool:
    kept_beside = place.name and os.path.lexists(f"{place}{SUFFIX}")
    return bool(kept_beside) or os.path.lexists(place / ".git")


def build_own_environment(env: Mapping[str, str], checkouts: Sequence[Path]) -> dict[str, str]:
    """The variables of this program's own processes: none leads to a place that agents write."""
    made = {name: env[name] for name in _WORDS if name in env}
    made |= {name: env[name] for name in _PLACES if name in env and is_safe(env[name], checkouts)}
    for name in _FOLDER_LISTS:
        folders = [part for part in env.get(name, "").split(os.pathsep) if part]
        kept = [folder for folder in folders if is_safe(folder, checkouts)]
        if kept:
            made[name] = os.pathsep.join(kept)
    # Libraries ask for HOME as they load; for a uid without a name there is no other (getpwuid(3)).
    made["HOME"] = made.get("HOME") or "/"
    # pydantic looks through every installed package for plugins, and runs what it finds.
    return made | {"PYDANTIC_DISABLE_PLUGINS": "__all__"}


def _find_unsafe_variables(env: Mapping[str, str], checkouts: Sequence[Path]) -> dict[str, str]:
    """The variables that lead to where agents write → the line about each. Of a file with
    certificates a run makes a copy, so it is unsafe only if it cannot be copied."""
    made = {}
    for name in dict.fromkeys((*_PLACES, *CA_FILES)):
        place = env.get(name) or "/"
        if is_safe(place, checkouts):
            continue
        if name not in CA_FILES:
            made[name] = f"{name} leads into the checkout, where agents write, so it is not used"
        elif not read_certificates(place, Path.cwd()):
            most = LARGEST_CA_FILE // 1_000_000
            made[name] = f"{name}: {place} is no file of up to {most} MB, as for a copy: not used"
    return made


def read_certificates(place: str, folder: Path) -> bytes:
    """The bytes of a small file, b"" for another; a relative one is below ``folder``."""
    path = folder / place
    try:
        small = path.is_file() and path.stat().st_size <= LARGEST_CA_FILE
        return path.read_bytes() if small else b""
    except OSError:
        return b""


def is_safe(place: str, checkouts: Sequence[Path]) -> bool:
    """True for an absolute path outside of the checkouts, both as written and resolved."""
    path = Path(place)
    return path.is_absolute() and not any(lies_in(path, top) for top in checkouts)


def lies_in(path: Path, top: Path) -> bool:
    """True if a path, as written or resolved, is in the folder ``top``."""
    written, reached = Path(os.path.normpath(path)), path.resolve()
    return written.is_relative_to(top) or reached.is_relative_to(top)
