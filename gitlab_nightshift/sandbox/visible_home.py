"""What of HOME the process that reads agents' work may see: what a list of needs names."""

# ruff: noqa: PTH110, PTH112, PTH115 - strings: there are thousands of them

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
"""Links of a folder of PATH that are followed."""
MOST_OPENED = 200
"""Each is a mount."""
GIT_SETTINGS = (
    ".gitconfig",
    *(f".config/git/{name}" for name in ("config", "attributes", "ignore")),
)
_SYSTEM = (*FOLDERS, *KERNEL, SETTINGS, "/dev", "/run", "/var/lib", "/home")


def find_hidden_home(env: Mapping[str, str], writable: Iterable[str]) -> str:
    """The HOME that can be hidden, links resolved; "" where it is none, holds the system, others'
    homes or all of this program's Python, or lies where work writes."""
    home = os.path.realpath(env.get("HOME") or "/")
    held = (*_SYSTEM, *map(os.path.realpath, _SYSTEM))
    if home in ("/", sys.prefix, sys.base_prefix) or not os.path.isdir(home):
        return ""
    shown = any(within(place, home) for place in held)
    return "" if shown or any(within(home, place) for place in writable) else home


def list_home_needs(
    env: Mapping[str, str], search_path: str, home: str, checkout: Path, others: Iterable[Path]
) -> tuple[str, ...]:
    """What work needs below ``home``, as far as the job's variables show: this program and git, the
    ``others``, PATH with the installations that it leads to, and the caches of tools. Nothing where
    ``home`` is "": all is shown."""
    if not home:
        return ()
    own = (*list_installation(), *list_programs(search_path), *map(str, others))
    caches = map(str, find_tool_caches(env, Path(home), checkout).folders)
    return select_below(home, (*own, *_list_search_path(search_path, home), *caches))


def select_below(home: str, paths: Iterable[str]) -> tuple[str, ...]:
    """What of the paths exists below ``home``: by its own name, and links resolved. A folder of
    which one names all is enough."""
    ways = (way for path in paths for way in (os.path.normpath(path), os.path.realpath(path)))
    below = (way for way in ways if within(way, home) and way != home and os.path.exists(way))
    found = dict.fromkeys(below)
    outer = (path for path in found if not any(within(path, top) for top in found.keys() - {path}))
    return tuple(itertools.islice(outer, MOST_OPENED))


def find_installation(program: Path, home: Path) -> Path:
    """The installation that a program belongs to, only its folder where that is shared, or it alone
    in the home."""
    folder = program.parent
    if home.is_relative_to(folder):
        return program
    top = folder.parent
    return folder if folder.name != "bin" or top == home or top.name.startswith(".") else top


def _list_search_path(search_path: str, home: str) -> Iterator[str]:
    """Folders of PATH, and the installations that these and their links lead to."""
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
    """Where links lead; ``below``: also those that do not say so by an absolute path."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        links = (entry.path for entry in entries if entry.is_symlink())
        for link in itertools.islice(links, MOST_LINKS):
            with contextlib.suppress(OSError):
                if below or os.readlink(link).startswith("/"):
                    yield os.path.realpath(link)
