"""The private part of the system's folders: one bounded walk, before any agent.

Private is what this user, or some group, may read but not everybody: what they may not read either,
the kernel keeps from agents anyway. Sockets, pipes and devices are private whatever their mode.
"""

import heapq
import os
import stat
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

MOST_NAMES = 40_000
"""Names below the folders that people install into; one costs 2 to 6 µs."""
MOST_IN_A_TREE = 100
"""Private paths: each is a mount, or a rule, for every process that is started."""
LONGEST_S = 10.0
"""For a file system that does not answer."""
_OF_A_FILE = 0o170000 | stat.S_IROTH
_PUBLIC_FILE = stat.S_IFREG | stat.S_IROTH


@dataclass(frozen=True)
class PrivatePaths:
    """``paths`` are private, ``cut`` trees that are too large to be looked through. A tree is what
    lies right below a folder that the walk began with."""

    paths: tuple[str, ...]
    cut: tuple[str, ...]


def find_private(
    tops: Iterable[str],
    *,
    most: int = MOST_NAMES,
    skip: Collection[str] = (),
    whole: Collection[str] = (),
    longest_s: float = LONGEST_S,
) -> PrivatePaths:
    """Look through all below ``tops`` but ``skip``, the large trees last.

    After ``most`` names or ``longest_s`` seconds only trees that hold a path of ``whole`` go on.
    A tree with many private paths is one of them as a whole.
    """
    walk = _PrivateWalk(most, time.monotonic() + longest_s, frozenset(skip), tuple(whole))
    walk.go(tops)
    counts = Counter(walk.private.values())
    many = {tree for tree, count in counts.items() if count > MOST_IN_A_TREE}
    single = (path for path, tree in walk.private.items() if tree not in many)
    return PrivatePaths((*single, *many), tuple(walk.cut))


def is_private(status: os.stat_result, user: int) -> bool:
    """True for what ``user`` may read, as its owner or in a group, and not everybody may.

    An owner may also change the mode; where there is an access control list the group's bits are
    the most that it gives to anybody.
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

    def go(self, tops: Iterable[str]) -> None:
        """The tree of which the least has been scanned is next: only large ones are cut."""
        found = [path for top in tops for path in self._look(top, "")]
        trees = [(0, path, deque([path])) for path in found]
        while trees:
            scanned, tree, waiting = heapq.heappop(trees)
            before = self.left
            waiting += self._look(waiting.popleft(), tree)
            if waiting and tree not in self.cut:
                heapq.heappush(trees, (scanned + before - self.left, tree, waiting))

    def _look(self, folder: str, tree: str) -> list[str]:
        """Judge what is right below a folder; the folders there that are to be looked into."""
        level, name = _FolderScan(os.geteuid()), tree or folder
        whole = any(path == name or path.startswith(f"{name}/") for path in self.whole)
        late = time.monotonic() > self.until
        try:
            done = level.judge(folder, None if whole else 0 if late else max(self.left, 0))
        except (PermissionError, FileNotFoundError, NotADirectoryError):
            done = True  # what this user may not list, an agent may not list either
        except OSError:
            done = False
        self.left -= level.names
        if not done:
            self.cut.append(name)
            return []
        self.private |= {path: tree or path for path in level.private if path not in self.skip}
        return [path for path in level.folders if path not in self.skip]


@dataclass
class _FolderScan:
    """What is right below one folder."""

    user: int
    names: int = 0
    private: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)

    def judge(self, folder: str, most: int | None) -> bool:
        """False where there are more names than ``most``. Raises OSError."""
        with os.scandir(folder) as entries:
            for entry in entries:
                if self.names == most:
                    return False
                self.names += 1
                if entry.is_symlink():
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if status.st_mode & _OF_A_FILE != _PUBLIC_FILE:
                    self._add(entry.path, status)
        return True

    def _add(self, path: str, status: os.stat_result) -> None:
        if is_private(status, self.user):
            self.private.append(path)
        elif stat.S_ISDIR(status.st_mode):
            self.folders.append(path)
