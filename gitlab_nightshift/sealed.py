"""The sealed start: this program runs again as ``python -I -S``, in the same process.

A job's environment belongs to its project: ``PYTHONPATH`` may name a folder of the checkout, where
an agent writes modules that Python would import while this process holds the token. So the start
imports from the installation alone, and only named variables are its own. The job's whole
environment goes along as data, through a file without a name.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ENTRY = Path(__file__).resolve().with_name("entry.py")
_FOLDER_LISTS = ("PATH", "LD_LIBRARY_PATH")
_PLACES = (
    *("HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
_WORDS = (
    *("USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
"""What this program's own processes get, by name: lists of folders, places, and plain words."""


@dataclass(frozen=True)
class Start:
    """What starts ``entry.py``, which has to inherit the descriptor; ``left_out`` are names of
    variables that lead to where agents write."""

    command: list[str]
    env: dict[str, str]
    descriptor: int
    left_out: tuple[str, ...]


def prepare_start(
    arguments: Sequence[str], env: Mapping[str, str], parent: int | None = None
) -> Start:
    """A sealed start in the current folder. Whoever does not become it closes the descriptor.

    With ``parent`` it is for a child of that process, and stops when the parent's thread ends.
    """
    checkouts = find_checkouts(Path.cwd(), env)
    left_out = tuple(name for name in _PLACES if not is_safe(env.get(name) or "/", checkouts))
    data = {
        "path": find_installation(),
        "env": {k: v for k, v in env.items() if k not in left_out or k not in ("HOME", "TMPDIR")},
        "arguments": list(arguments),
    }
    descriptor = os.memfd_create("nightshift")
    os.write(descriptor, json.dumps(data).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    parents = [] if parent is None else [str(parent)]
    command = [sys.executable, "-I", "-S", str(ENTRY), str(descriptor), *parents]
    return Start(command, own_environment(env, checkouts), descriptor, left_out)


def become(start: Start) -> NoReturn:
    """Run it in place of this program, with the same pid. Raises OSError."""
    os.set_inheritable(start.descriptor, True)
    os.execve(start.command[0], start.command, start.env)  # noqa: S606 - no shell is the point


def find_installation() -> list[str]:
    """The folders that this program is imported from: its own, and those of its environment.

    ``PYTHONPATH`` counts only where it is what named this package.
    """
    import site

    folders = [str(Path(__file__).resolve().parents[1]), *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return list(dict.fromkeys(folder for folder in folders if Path(folder).is_dir()))


def find_checkouts(folder: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Where agents write, as far as a start can know: the job's checkout, and the one around."""
    around = [place for place in (folder, *folder.parents) if os.path.lexists(place / ".git")]
    named = [Path(env["CI_PROJECT_DIR"])] if env.get("CI_PROJECT_DIR") else []
    return tuple({place.resolve() for place in (*named, *around[:1])})


def own_environment(env: Mapping[str, str], checkouts: Sequence[Path]) -> dict[str, str]:
    """The variables of this program's own processes: none leads to a place that agents write."""
    made = {name: env[name] for name in _WORDS if name in env}
    made |= {name: env[name] for name in _PLACES if name in env and is_safe(env[name], checkouts)}
    for name in _FOLDER_LISTS:
        folders = [part for part in env.get(name, "").split(os.pathsep) if part]
        kept = [folder for folder in folders if is_safe(folder, checkouts)]
        if kept:
            made[name] = os.pathsep.join(kept)
    return made


def is_safe(place: str, checkouts: Sequence[Path]) -> bool:
    """True for an absolute path outside of the checkouts, as it is written and as it is reached."""
    path = Path(place)
    return path.is_absolute() and not any(lies_in(path, top) for top in checkouts)


def lies_in(path: Path, top: Path) -> bool:
    """True where a path, as it is written or as it is reached, is in a folder."""
    written, reached = Path(os.path.normpath(path)), path.resolve()
    return written.is_relative_to(top) or reached.is_relative_to(top)
