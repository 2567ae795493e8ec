"""The parts of HOME that the process which reads agents' work may see: those that it needs."""

# ruff: noqa: PTH112, PTH115 - strings: there are thousands of them

import contextlib
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gitlab_nightshift.sandbox.process_places import list_installation, list_programs
from gitlab_nightshift.sandbox.system_paths import FOLDERS, KERNEL, SETTINGS
from gitlab_nightshift.sandbox.tool_caches import find_tool_caches
from gitlab_nightshift.system.file_names import within

MOST_LINKS = 1_000
"""Links to follow in each folder of PATH."""
MOST_OPENED = 200
"""Each costs a mount."""
GIT_SETTINGS = (
    ".gitconfig",
    *(f".config/git/{name}" for name in ("config", "attributes", "ignore")),
)
_SYSTEM = (*FOLDERS, *KERNEL, SETTINGS, "/dev", "/run", "/var/lib", "/home")


def find_hidden_home(env: Mapping[str, str], writable: Iterable[str]) -> str:
    """HOME, links resolved, if it can be hidden; "" if it does not exist, contains the system,
    other users' homes or this program's Python, or lies in a folder that work writes."""
    home = os.path.realpath(env.get("HOME") or "/")
    system = (*_SYSTEM, *map(os.path.realpath, _SYSTEM))
    # "/" is the HOME of a user without one, as in a container that runs under a number.
    if home in ("/", sys.prefix, sys.base_prefix) or not os.path.isdir(home):
        return ""
    holds_system = any(within(path, home) for path in system)
    return "" if holds_system or any(within(home, place) for place in writable) else home


def list_home_needs(
    env: Mapping[str, str], search_path: str, home: str, checkout: Path, others: Iterable[Path]
) -> tuple[str, ...]:
    """The paths below ``home`` that work needs, judging by the job's variables: this program and
    git, the ``others``, the folders of PATH with the installations behind them, and tools' caches.
    Empty if ``home`` is "": then all is visible."""
    if not home:
        return ()
    own = (*list_installation(), *list_programs(search_path), *map(str, others))
    caches = map(str, find_tool_caches(env, Path(home), checkout).folders)
    return select_below(home, (*own, *_list_search_path(search_path, home), *caches))


def select_below(home: str, paths: Iterable[str]) -> tuple[str, ...]:
    """The paths that exist below ``home``, as given and with links resolved, without those inside
    another one."""
    candidates = (
        form for path in paths for form in (os.path.normpath(path), os.path.realpath(path))
    )
    below = (path for path in candidates if within(path, home) and path != home)
    found = dict.fromkeys(filter(os.path.exists, below))
    outer = (path for path in found if not any(within(path, top) for top in found.keys() - {path}))
    return tuple(itertools.islice(outer, MOST_OPENED))


def find_installation(program: Path, home: Path) -> Path:
    """The folder of the installation to which a program belongs: the parent of its ``bin``; its own
    folder if the parent is shared; the program alone if it lies in the home itself."""
    folder = program.parent
    if home.is_relative_to(folder):
        return program
    top = folder.parent
    return folder if folder.name != "bin" or top == home or top.name.startswith(".") else top


def _list_search_path(search_path: str, home: str) -> Iterator[str]:
    """The folders of PATH, and the installations to which they and their links lead."""
    for folder in search_path.split(os.pathsep):
        real = os.path.realpath(folder)
        below = within(real, home)
        if below:
            yield folder
            yield str(find_installation(Path(real, "program"), Path(home)))
        for target in _list_link_targets(real, below=below):
            if within(target, home):
                yield str(find_installation(Path(target), Path(home)))


def _list_link_targets(folder: str, *, below: bool) -> Iterator[str]:
    """The targets of links; relative links only if the folder lies ``below`` the home."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        links = (entry.path for entry in entries if entry.is_symlink())
        for link in itertools.islice(links, MOST_LINKS):
            with contextlib.suppress(OSError):
                if below or os.readlink(link).startswith("/"):
                    yield os.path.realpath(link)
