"""The parts of HOME that confined processes may see: what work needs, and build tools' caches.

A build without a network needs the tools' download caches. The sandbox has an empty HOME, so a tool
finds its cache only by the variable that names it. To add a tool, add a row to ``CACHES``.
"""

# ruff: noqa: PTH110, PTH112, PTH115 - strings: there are thousands of them

import contextlib
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.sandbox.process_places import list_installation, list_programs
from gitlab_nightshift.sandbox.system_paths import (
    HOME_FILES,
    KERNEL_FOLDERS,
    SYSTEM_FOLDERS,
    SYSTEM_SETTINGS,
)
from gitlab_nightshift.system.file_names import within
from gitlab_nightshift.text.lazy_patterns import compile_lazily

MOST_LINKS = 1_000
"""Links to follow in each folder of PATH."""
MOST_OPENED = 200
"""Visible paths below HOME: each costs a mount."""
GIT_SETTINGS = (
    ".gitconfig",
    *(f".config/git/{name}" for name in ("config", "attributes", "ignore")),
)
_SYSTEM = (*SYSTEM_FOLDERS, *KERNEL_FOLDERS, SYSTEM_SETTINGS, "/dev", "/run", "/var/lib", "/home")


def find_hidden_home(env: Mapping[str, str], writable: Iterable[str]) -> str:
    """HOME, links resolved, if it can be hidden; "" if it does not exist, contains the system,
    other users' homes or this program's Python, or lies in a folder that work writes."""
    home = os.path.realpath(env.get("HOME") or "/")
    # "/" is the HOME of a user without one, as in a container that runs under a numeric id.
    if home in ("/", sys.prefix, sys.base_prefix) or not os.path.isdir(home):
        return ""
    contains_system = any(within(form, home) for path in _SYSTEM for form in _list_forms(path))
    is_written = any(within(home, folder) for folder in writable)
    return "" if contains_system or is_written else home


def _list_forms(path: str) -> tuple[str, str]:
    return os.path.normpath(path), os.path.realpath(path)


def list_home_needs(
    env: Mapping[str, str], search_path: str, home: str, checkout: Path, others: Iterable[Path]
) -> tuple[str, ...]:
    """The paths below ``home`` that work needs, judging by the job's variables: this program and
    git, the ``others``, the folders of PATH with the installations to which they lead, and tools'
    caches. Empty if ``home`` is "": then all is visible."""
    if not home:
        return ()
    programs = (*list_installation(), *list_programs(search_path))
    caches = find_tool_caches(env, Path(home), checkout).folders
    on_path = _list_search_path(search_path, home)
    return select_below(home, (*programs, *map(str, others), *on_path, *map(str, caches)))


def select_below(home: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Those of the paths that exist below ``home``, both as given and with links resolved, without
    those inside another one."""
    existing: dict[str, None] = {}
    for path in paths:
        for form in _list_forms(path):
            if form != home and within(form, home) and os.path.exists(form):
                existing[form] = None
    outermost = (
        path for path in existing if not any(within(path, top) for top in existing.keys() - {path})
    )
    return tuple(itertools.islice(outermost, MOST_OPENED))


def find_installation(program: Path, home: Path) -> Path:
    """The folder of the installation to which a program belongs: the parent of its ``bin``, or its
    own folder if that parent is shared; the program alone if it lies in the home itself."""
    folder = program.parent
    if home.is_relative_to(folder):
        return program
    parent = folder.parent
    is_shared = parent == home or parent.name.startswith(".")
    return parent if folder.name == "bin" and not is_shared else folder


def _list_search_path(search_path: str, home: str) -> Iterator[str]:
    """The folders of PATH, and the installations to which they and their links lead."""
    for folder in search_path.split(os.pathsep):
        real = os.path.realpath(folder)
        in_home = within(real, home)
        if in_home:
            yield folder
            yield str(find_installation(Path(real, "program"), Path(home)))
        for target in _list_link_targets(real, relative=in_home):
            if within(target, home):
                yield str(find_installation(Path(target), Path(home)))


def _list_link_targets(folder: str, *, relative: bool) -> Iterator[str]:
    """The targets of the links in a folder; of relative ones only with ``relative``."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        links = (entry.path for entry in entries if entry.is_symlink())
        for link in itertools.islice(links, MOST_LINKS):
            with contextlib.suppress(OSError):
                if relative or os.readlink(link).startswith("/"):
                    yield os.path.realpath(link)


# --- the download caches of build tools -----------------------------------------------------------


@dataclass(frozen=True)
class Cache:
    """A tool's cache: the variable that names its folder, and its default below HOME.

    ``subfolders`` are those to open ("": all of it): Cargo also keeps credentials in its folder.
    ``read_only`` are variables that make the tool work with a read-only cache.
    """

    variable: str
    default: str
    subfolders: tuple[str, ...] = ("",)
    read_only: Mapping[str, str] = field(default_factory=dict)


MAVEN_OPTS = "MAVEN_OPTS"
_MAVEN_OPTION = "-Dmaven.repo.local="
CACHES = (
    # Go would write an index of the modules into the cache.
    Cache("GOMODCACHE", "go/pkg/mod", read_only={"GODEBUG": "goindex=0"}),
    # https://doc.rust-lang.org/cargo/guide/cargo-home.html
    Cache("CARGO_HOME", ".cargo", ("registry", "git", "bin")),
    Cache("RUSTUP_HOME", ".rustup"),
    Cache(MAVEN_OPTS, ".m2/repository"),
    Cache("npm_config_cache", ".npm", ("_cacache",)),
    # Corepack would ask the network for the latest version each time.
    Cache("COREPACK_HOME", ".cache/node/corepack", read_only={"COREPACK_DEFAULT_TO_LATEST": "0"}),
    Cache("PIP_CACHE_DIR", ".cache/pip"),
)
_IN_MAVEN_OPTS = compile_lazily(r"(?:^|\s)-Dmaven\.repo\.local=(\S+)")
_PLAIN_PATH = compile_lazily(r"/[^$~\x00-\x1f]*")
"""A path that needs no quoting in a setting."""


@dataclass(frozen=True)
class ToolCaches:
    """The caches on this machine: ``variables`` for the tools, and ``folders`` to open for reading
    (not those in the checkout, which is open anyway)."""

    variables: Mapping[str, str]
    folders: tuple[Path, ...]

    @property
    def maven(self) -> Path | None:
        """Maven's local repository; None if there is none."""
        repository = self.variables.get(MAVEN_OPTS, "").removeprefix(_MAVEN_OPTION)
        return Path(repository) if repository else None


def find_tool_caches(env: Mapping[str, str], home: Path, checkout: Path) -> ToolCaches:
    """The caches of the job's tools, from its variables or below ``home``.

    Never a folder that contains the home, the checkout or a file with credentials.
    """
    variables, folders = dict[str, str](), list[Path]()
    for cache in CACHES:
        top = _find_cache_folder(cache, env, home)
        subfolders = [path for path in (top / name for name in cache.subfolders) if path.is_dir()]
        safe = [folder for folder in subfolders if not _exposes(folder, home, checkout)]
        if not safe or not _PLAIN_PATH.fullmatch(str(top)):
            continue
        folders += (folder for folder in safe if not folder.is_relative_to(checkout))
        prefix = _MAVEN_OPTION if cache.variable == MAVEN_OPTS else ""
        variables |= {cache.variable: f"{prefix}{top}", **cache.read_only}
    return ToolCaches(variables, tuple(folders))


def _find_cache_folder(cache: Cache, env: Mapping[str, str], home: Path) -> Path:
    folder = env.get(cache.variable, "")
    if cache.variable == MAVEN_OPTS:
        option = _IN_MAVEN_OPTS.search(folder)
        folder = option[1] if option else ""
    # Go's own default: the first folder of GOPATH (cmd/go's test mod_gomodcache.txt).
    if cache.variable == "GOMODCACHE" and not folder and env.get("GOPATH"):
        folder = f"{env['GOPATH'].split(os.pathsep)[0]}/pkg/mod"
    return Path(folder) if folder.startswith("/") else home / cache.default


def _exposes(folder: Path, home: Path, checkout: Path) -> bool:
    """True if reading ``folder`` would reveal more than a tool's downloads: the whole home or
    checkout, or a file with credentials."""
    # Runners keep the job's file variables in <project>.tmp (GitLab Runner's builds folder).
    secrets = [checkout.with_name(f"{checkout.name}.tmp"), *(home / name for name in HOME_FILES)]
    forms = (folder, folder.resolve())
    for path in (home, checkout, *filter(os.path.lexists, secrets)):
        for closed, form in itertools.product((path, path.resolve()), forms):
            # A folder inside a secret is closed too; the home and the checkout contain caches.
            if closed.is_relative_to(form) or (path in secrets and form.is_relative_to(closed)):
                return True
    return False
