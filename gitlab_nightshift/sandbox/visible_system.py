"""The files that every confined process may read: the system's, without private ones, which one
bounded walk finds before any agent runs.

A file is private if its owner (this user) or its group may read it, but not everybody. Files that
this user may not read are closed to agents anyway. Sockets, pipes and devices are always private.
"""

# ruff: noqa: PTH120 - strings: there are thousands of them

import contextlib
import heapq
import os
import stat
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.sandbox.credential_files import find_credential_files
from gitlab_nightshift.sandbox.system_paths import (
    INSIDE,
    KERNEL_FOLDERS,
    PACKAGE_FOLDERS,
    SYSTEM_FOLDERS,
    SYSTEM_SECRETS,
    SYSTEM_SETTINGS,
    find_interpreter,
)

LOCAL = "/usr/local"
MOST_PACKAGE_NAMES = 4_000
"""Names to scan in the folders of packages, the upper levels first: there may be a million."""
_MOST_NAMES = 40_000
"""Names to scan below the folders that people install into; each costs 2 to 6 µs."""
_MOST_IN_A_TREE = 100
"""Private paths to list in a tree: each costs every started process a mount or a rule."""
_LONGEST_S = 10.0
"""Seconds for a walk: a network file system may not answer."""
# A regular file that everybody may read: one comparison, as it is made for each name.
_TYPE_AND_PUBLIC = 0o170000 | stat.S_IROTH
_PUBLIC_FILE = stat.S_IFREG | stat.S_IROTH


@dataclass(frozen=True)
class PrivatePaths:
    """The result of a walk: the private ``paths``, and the trees that are too large to walk
    (``unscanned``). A tree is an entry of one of the folders in which the walk begins."""

    paths: tuple[str, ...]
    unscanned: tuple[str, ...]


@dataclass
class _PrivateWalk:
    """A walk that may still scan ``names_left`` names, until the clock is at ``deadline_s``, but
    not the paths of ``skip``; trees around a path of ``unlimited`` are scanned to the end.
    ``private`` is path → tree."""

    names_left: int
    deadline_s: float
    skip: frozenset[str]
    unlimited: tuple[str, ...]
    private: dict[str, str] = field(default_factory=dict)
    unscanned: list[str] = field(default_factory=list)

    def run(self, roots: Iterable[str]) -> None:
        """Always scan the tree that was scanned least so far: only large ones stay unscanned."""
        trees = [(0, path, deque([path])) for root in roots for path in self._scan_folder(root, "")]
        while trees:
            scanned, tree, folders = heapq.heappop(trees)
            scanned += self.names_left
            folders += self._scan_folder(folders.popleft(), tree)
            scanned -= self.names_left
            if folders and tree not in self.unscanned:
                heapq.heappush(trees, (scanned, tree, folders))

    def _scan_folder(self, folder: str, tree: str) -> list[str]:
        """Scan the entries of a folder; returns the folders among them to scan next."""
        scan, name = _FolderScan(os.geteuid()), tree or folder
        limit: int | None = max(self.names_left, 0)
        if any(is_within_any(path, (name,)) for path in self.unlimited):
            limit = None
        elif time.monotonic() > self.deadline_s:
            limit = 0
        try:
            done = scan.classify_entries(folder, limit)
        except (PermissionError, FileNotFoundError, NotADirectoryError):
            done = True  # what this user may not list, an agent may not list either
        except OSError:
            done = False  # such as EIO or ESTALE: what was not seen is not safe to show
        self.names_left -= scan.count
        if not done:
            self.unscanned.append(name)
            return []
        self.private |= {path: tree or path for path in scan.private if path not in self.skip}
        return [path for path in scan.folders if path not in self.skip]


@dataclass
class _FolderScan:
    """The entries of a folder: how many there are, and those that are private or folders."""

    user: int
    count: int = 0
    private: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)

    def classify_entries(self, folder: str, limit: int | None) -> bool:
        """Classify the entries; False if there are more than ``limit``. Raises OSError."""
        with os.scandir(folder) as entries:
            for entry in entries:
                if self.count == limit:
                    return False
                self.count += 1
                if entry.is_symlink():  # its target is judged in the target's folder
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if status.st_mode & _TYPE_AND_PUBLIC != _PUBLIC_FILE:
                    self._add(entry.path, status)
        return True

    def _add(self, path: str, status: os.stat_result) -> None:
        if is_private(status, self.user):
            self.private.append(path)
        elif stat.S_ISDIR(status.st_mode):
            self.folders.append(path)


@dataclass(frozen=True)
class System:
    """The system's ``folders``, which an agent may read except the ``private`` paths in them.

    ``readable`` are the largest parts of them without private paths, ``listable`` are folders
    around such parts that may be listed. Among the private paths, ``credentials`` are files that
    everybody may read (path → tool), ``unscanned`` are trees too large to scan, and ``job_paths``
    are the job's own, which may not exist yet.
    """

    folders: tuple[str, ...]
    private: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    listable: tuple[str, ...] = ()
    credentials: Mapping[str, str] = field(default_factory=dict)
    unscanned: tuple[str, ...] = ()
    job_paths: tuple[str, ...] = ()

    def shows(self, path: Path) -> bool:
        """True if an agent may read the path; a link as its last component is not followed."""
        real = path.parent.resolve() / path.name
        if any(is_within_any(str(form), self.private) for form in (path, real)):
            return False
        folders = (*self.folders, *map(os.path.realpath, self.folders))
        return is_within_any(str(path), folders)


LookAtSystem = Callable[[], System]


def is_within_any(path: str, folders: Iterable[str]) -> bool:
    """True for one of ``folders`` and for every path below one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


@dataclass(frozen=True)
class SystemWalk:
    """The result of a walk through the system's folders, independent of the job's own paths.
    ``roots`` are the outermost of ``folders``, links resolved."""

    folders: tuple[str, ...]
    roots: tuple[str, ...]
    private: PrivatePaths
    credentials: Mapping[str, str]


def walk_system() -> SystemWalk:
    """Walk through the system's folders, which takes a tenth of a second or more. Never raises: a
    path that this user cannot read counts as private, or is closed to agents as well."""
    folders = [folder for folder in (*SYSTEM_FOLDERS, SYSTEM_SETTINGS) if Path(folder).is_dir()]
    roots = _select_outermost({os.path.realpath(folder) for folder in folders})
    return SystemWalk(
        tuple(folders), tuple(roots), _find_private_paths(roots), find_credential_files()
    )


def look_at_system(job_paths: Collection[Path] = (), walk: SystemWalk | None = None) -> System:
    """The files that every confined process may read here, from ``walk`` or a new one.

    ``job_paths`` are always private: they may lie in these folders, not exist yet, or be readable
    by everybody, such as a HOME in ``/opt``.
    """
    walk = walk or walk_system()
    # Not a HOME such as /usr or /usr/local: to hide that would hide all programs.
    program_folders = (*walk.roots, LOCAL, *PACKAGE_FOLDERS)
    private_job_paths = [
        path
        for path in map(os.path.realpath, job_paths)
        if not any(is_within_any(folder, (path,)) for folder in program_folders)
    ]
    secrets = filter(os.path.lexists, SYSTEM_SECRETS)
    listed = (*secrets, *walk.credentials, *private_job_paths)
    named = (path for path in listed if is_within_any(path, walk.roots))
    private = _select_outermost({*walk.private.paths, *walk.private.unscanned, *named})
    readable, listable = list(KERNEL_FOLDERS), list[str]()
    for root in walk.roots:
        add_paths_around(root, private, readable, listable)
    return System(
        folders=(*walk.folders, *KERNEL_FOLDERS),
        private=tuple(private),
        readable=tuple(readable),
        listable=tuple(listable),
        credentials=walk.credentials,
        unscanned=walk.private.unscanned,
        job_paths=tuple(private_job_paths),
    )


def _select_outermost(paths: Collection[str]) -> list[str]:
    """The paths that do not lie inside another one."""
    return sorted(path for path in paths if not is_within_any(os.path.dirname(path), paths))


def _find_private_paths(roots: list[str]) -> PrivatePaths:
    """Scan ``/etc`` and what people install, and distribution packages as far as it is cheap.

    Always scanned are trees with this program's own Python (if hidden, nothing would run), and the
    lists of ``/etc`` and ``/usr`` themselves, but not all trees in them.
    """
    packages = [path for path in PACKAGE_FOLDERS if os.path.realpath(path) == path]
    python = (str(find_interpreter()), str(INSIDE), os.path.dirname(os.__file__))
    installed = find_private(
        (root for root in (LOCAL, *roots) if root not in packages),
        limit=_MOST_NAMES,
        skip=(LOCAL, *packages),
        unlimited=(*python, SYSTEM_SETTINGS, "/usr"),
    )
    shipped = find_private(packages, limit=MOST_PACKAGE_NAMES)
    return PrivatePaths((*installed.paths, *shipped.paths), installed.unscanned)


def add_paths_around(
    folder: str, private: Iterable[str], readable: list[str], listable: list[str]
) -> None:
    """Add the parts of a folder without private paths to ``readable``, and folders around them to
    ``listable``; but no links, and nothing of a folder that this user may not list."""
    below = [path for path in private if is_within_any(path, (folder,))]
    if not below:
        readable.append(folder)
    elif folder not in below:
        if not any(Path(path).is_dir() for path in below):
            listable.append(folder)
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_symlink():
                    add_paths_around(entry.path, below, readable, listable)


def find_private(
    roots: Iterable[str],
    *,
    limit: int = _MOST_NAMES,
    skip: Collection[str] = (),
    unlimited: Collection[str] = (),
    longest_s: float = _LONGEST_S,
) -> PrivatePaths:
    """Walk all below ``roots`` except ``skip``, the large trees last.

    After ``limit`` names or ``longest_s`` seconds, only trees with a path of ``unlimited`` are
    walked to the end. A tree with many private paths counts as private itself.
    """
    walk = _PrivateWalk(limit, time.monotonic() + longest_s, frozenset(skip), tuple(unlimited))
    walk.run(roots)
    counts = Counter(walk.private.values())
    private_trees = {tree for tree, count in counts.items() if count > _MOST_IN_A_TREE}
    single = (path for path, tree in walk.private.items() if tree not in private_trees)
    return PrivatePaths((*single, *private_trees), tuple(walk.unscanned))


def is_private(status: os.stat_result, user: int) -> bool:
    """True if ``user`` may read this as its owner or in a group, but not everybody may.

    An owner could also change the mode. If there is an access control list, the group's bits are
    its mask: the most that it grants to anybody (acl(5)).
    """
    mode = status.st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return True
    needed = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
    return mode & needed != needed and (status.st_uid == user or mode & stat.S_IRWXG != 0)
