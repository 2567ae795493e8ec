"""Finds the private files in the system's folders: one bounded walk, before any agent runs.

A file is private if this user or a group may read it, but not everybody: files that they may not
read either, the kernel keeps from agents anyway. Sockets, pipes and devices are always private.
"""

import heapq
import os
import stat
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

MOST_NAMES = 40_000
"""Names below the folders that people install into; each costs 2 to 6 µs."""
MOST_IN_A_TREE = 100
"""Private paths: each costs every started process a mount or a rule."""
LONGEST_S = 10.0
"""Seconds: a network file system may not answer."""
_TYPE_AND_PUBLIC = 0o170000 | stat.S_IROTH
_PUBLIC_FILE = stat.S_IFREG | stat.S_IROTH


@dataclass(frozen=True)
class PrivatePaths:
    """``paths`` are private, ``cut`` are trees too large to walk. A tree is an entry of one of the
    folders in which the walk begins."""

    paths: tuple[str, ...]
    cut: tuple[str, ...]


def find_private(
    roots: Iterable[str],
    *,
    limit: int = MOST_NAMES,
    skip: Collection[str] = (),
    whole: Collection[str] = (),
    longest_s: float = LONGEST_S,
) -> PrivatePaths:
    """Walk all below ``roots`` except ``skip``, the large trees last.

    After ``limit`` names or ``longest_s`` seconds, only trees with a path of ``whole`` are walked
    to the end. A tree with many private paths counts as private itself.
    """
    walk = _PrivateWalk(limit, time.monotonic() + longest_s, frozenset(skip), tuple(whole))
    walk.run(roots)
    counts = Counter(walk.private.values())
    many = {tree for tree, count in counts.items() if count > MOST_IN_A_TREE}
    single = (path for path, tree in walk.private.items() if tree not in many)
    return PrivatePaths((*single, *many), tuple(walk.cut))


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


@dataclass
class _PrivateWalk:
    """One walk; ``private`` is path → tree."""

    left: int
    until: float
    skip: frozenset[str]
    whole: tuple[str, ...]
    private: dict[str, str] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)

    def run(self, roots: Iterable[str]) -> None:
        """Always scan the tree that was scanned least so far: only large trees get cut."""
        entries = [path for top in roots for path in self._scan_folder(top, "")]
        trees = [(0, path, deque([path])) for path in entries]
        while trees:
            scanned, tree, waiting = heapq.heappop(trees)
            before = self.left
            waiting += self._scan_folder(waiting.popleft(), tree)
            if waiting and tree not in self.cut:
                heapq.heappush(trees, (scanned + before - self.left, tree, waiting))

    def _scan_folder(self, folder: str, tree: str) -> list[str]:
        """Scan the entries of a folder; returns the folders among them to scan next."""
        scan, name = _FolderScan(os.geteuid()), tree or folder
        whole = any(path == name or path.startswith(f"{name}/") for path in self.whole)
        late = time.monotonic() > self.until
        try:
            done = scan.judge(folder, None if whole else 0 if late else max(self.left, 0))
        except (PermissionError, FileNotFoundError, NotADirectoryError):
            done = True  # what this user may not list, an agent may not list either
        except OSError:
            done = False  # such as EIO or ESTALE: not seen means not safe to show
        self.left -= scan.names
        if not done:
            self.cut.append(name)
            return []
        self.private |= {path: tree or path for path in scan.private if path not in self.skip}
        return [path for path in scan.folders if path not in self.skip]


@dataclass
class _FolderScan:
    """The entries of one folder."""

    user: int
    names: int = 0
    private: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)

    def judge(self, folder: str, limit: int | None) -> bool:
        """Sort the entries; False if there are more than ``limit``. Raises OSError."""
        with os.scandir(folder) as entries:
            for entry in entries:
                if self.names == limit:
                    return False
                self.names += 1
                if entry.is_symlink():
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
