"""Changes the owner of a tree for the uid tier, and later restores its owners exactly.

Some files are never given away, because a change of owner would damage or expose them: programs
with setuid, setgid or capabilities, devices, files with another hard link that may lie outside, and
folders of other file systems (a mounted cache). The user finds them unchanged.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gitlab_nightshift.sandbox.tiers import SandboxUser

SPECIAL = stat.S_ISUID | stat.S_ISGID
EXECUTABLE = 0o111
CAPABILITIES = "security.capability"
# Each level holds a descriptor, of which a process has often 1,024 (RLIMIT_NOFILE, getrlimit(2)).
DEEPEST = 250
GIT = ".git"

Owner = tuple[int, int]
"""A user and a group."""
_Place = tuple[int, str, str, os.stat_result]
"""A folder's descriptor, a name in it, the path below the top, and its status."""


@dataclass(frozen=True)
class Owners:
    """The owners before ``user`` got the tree: ``usual`` of most paths, ``others`` by path. They
    are kept in a file, for the next start if this one is killed."""

    user: Owner
    usual: Owner
    others: dict[str, Owner]
    version: Literal[1] = 1


def read_owners(root: Path, identity: SandboxUser) -> Owners:
    """The owners below ``root`` except in its ``.git``, before it is given. Raises OSError."""
    top = root.lstat()
    owners = Owners((identity.uid, identity.gid), (top.st_uid, top.st_gid), {})
    for _, _, path, status in _walk(root):
        if (owner := (status.st_uid, status.st_gid)) != owners.usual:
            owners.others[path] = owner
    return owners


def give(root: Path, user: Owner) -> None:
    """Give everything below ``root`` except its ``.git`` to the user, before any agent runs.

    Changes links themselves, not their targets. Raises OSError (if the file system refuses, such as
    NFS).
    """
    for fd, name, _, status in _walk(root):
        if _can_be_given(fd, name, status):
            os.chown(name, *user, dir_fd=fd, follow_symlinks=False)


def take_back(root: Path, owners: Owners) -> None:
    """Give every path back to its old owner, once no process of the user is left. Raises OSError.

    New files of the user get the usual owner; this clears a setuid bit that the user has set
    (chown(2)).
    """
    for fd, name, path, status in _walk(root):
        if status.st_uid == owners.user[0] or status.st_gid == owners.user[1]:
            old = owners.others.get(path, owners.usual)
            os.chown(name, *old, dir_fd=fd, follow_symlinks=False)


def _can_be_given(fd: int, name: str, status: os.stat_result) -> bool:
    mode = status.st_mode
    if not stat.S_ISREG(mode):
        return not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode))
    if mode & SPECIAL:
        return False  # chown would clear the bits (chown(2)), and file capabilities likewise
    return not mode & EXECUTABLE or not _has_capabilities(f"/proc/self/fd/{fd}/{name}")


def _has_capabilities(path: str) -> bool:
    try:
        return bool(os.getxattr(path, CAPABILITIES, follow_symlinks=False))
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return False
        raise


# --- the walk -------------------------------------------------------------------------------------


class _HardLinks:
    """Files with several hard links; ``list_complete`` lists those with none outside the tree."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, int], list[tuple[str, os.stat_result]]] = {}

    def add(self, path: str, status: os.stat_result) -> None:
        self.found.setdefault((status.st_dev, status.st_ino), []).append((path, status))

    def list_complete(self) -> Iterator[tuple[str, os.stat_result]]:
        for names in self.found.values():
            if len(names) == names[0][1].st_nlink:
                yield from names


def _walk(root: Path) -> Iterator[_Place]:
    """Every path except the top's ``.git``; the top itself comes last, as ""."""
    with _open_folder(str(root), None) as fd:
        top, names = os.fstat(fd), _HardLinks()
        yield from _walk_below(fd, "", top.st_dev, names, 0)
        for path, status in names.list_complete():
            with _open_parent(fd, path) as (inner, name):
                yield inner, name, path, status
        yield fd, ".", "", top


def _walk_below(
    fd: int, prefix: str, device: int, names: _HardLinks, depth: int
) -> Iterator[_Place]:
    if depth > DEEPEST:
        raise OSError(errno.ELOOP, "folders are nested too deep")
    with os.scandir(fd) as listed:
        entries = [(entry.name, entry.stat(follow_symlinks=False)) for entry in listed]
    for name, status in entries:
        path = prefix + name
        if path == GIT:
            continue
        if stat.S_ISDIR(status.st_mode):
            if status.st_dev == device:
                with _open_folder(name, fd) as inner:
                    yield from _walk_below(inner, f"{path}/", device, names, depth + 1)
                yield fd, name, path, status
        elif stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            names.add(path, status)
        else:
            yield fd, name, path, status


@contextlib.contextmanager
def _open_folder(name: str, dir_fd: int | None) -> Iterator[int]:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _open_parent(fd: int, path: str) -> Iterator[tuple[int, str]]:
    """The folder that contains a path, and the last name; opened folder by folder, following no
    link."""
    *above, name = path.split("/")
    with contextlib.ExitStack() as stack:
        for part in above:
            fd = stack.enter_context(_open_folder(part, fd))
        yield fd, name
