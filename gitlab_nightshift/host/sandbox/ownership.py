"""A tree changes its owner for the uid tier, and gets its owners back exactly."""

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.host.sandbox.records import Identity

VERSION = 1
SPECIAL = stat.S_ISUID | stat.S_ISGID


@dataclass(frozen=True)
class Owners:
    """Who owned what: ``usual`` (uid, gid) of most paths, the others by name.

    ``modes`` are those that a change of owner takes bits from (setuid, setgid).
    """

    usual: tuple[int, int]
    others: dict[str, tuple[int, int]]
    modes: dict[str, int]

    def to_json(self) -> str:
        """For a note that the next start reads after a kill."""
        return json.dumps({"version": VERSION, **vars(self)})

    @classmethod
    def from_json(cls, text: str) -> "Owners":
        """Raises ValueError."""
        try:
            data = json.loads(text)
            if data["version"] != VERSION:
                raise ValueError("another version")
            others = {str(path): (int(u), int(g)) for path, (u, g) in data["others"].items()}
            modes = {str(path): int(mode) for path, mode in data["modes"].items()}
            uid, gid = data["usual"]
            return cls((int(uid), int(gid)), others, modes)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(str(error)) from None


def give(root: Path, identity: Identity) -> Owners:
    """Make everything below ``root`` the user's, before any agent runs.

    Links are changed themselves, not what they name. A file with several names keeps its owner:
    one of them may lie outside. Raises OSError (a file system that refuses, such as NFS).
    """
    top = root.lstat()
    owners = Owners((top.st_uid, top.st_gid), {}, {})
    for fd, name, path, status in _walk(root):
        owner = (status.st_uid, status.st_gid)
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            continue
        if owner != owners.usual:
            owners.others[path] = owner
        if status.st_mode & SPECIAL and not stat.S_ISLNK(status.st_mode):
            owners.modes[path] = stat.S_IMODE(status.st_mode)
        os.chown(name, identity.uid, identity.gid, dir_fd=fd, follow_symlinks=False)
        _keep_mode(name, fd, owners.modes.get(path))
    return owners


def take_back(root: Path, identity: Identity, owners: Owners) -> None:
    """Give every path its old owner, when no process of the user is left. Raises OSError.

    What is the user's and was not there before becomes the usual owner's. Setuid bits come back
    only on paths that had them.
    """
    for fd, name, path, status in _walk(root):
        old = owners.others.get(path, owners.usual)
        if status.st_uid == identity.uid or status.st_gid == identity.gid:
            os.chown(name, *old, dir_fd=fd, follow_symlinks=False)
            _keep_mode(name, fd, owners.modes.get(path))


def _keep_mode(name: str, fd: int, mode: int | None) -> None:
    if mode is not None:
        os.chmod(name, mode, dir_fd=fd)


def _walk(root: Path) -> Iterator[tuple[int, str, str, os.stat_result]]:
    """Every path, "" for the top: a folder's descriptor, a name in it, and what it is.

    A folder comes after what it holds, so that one that is closed is still ours while we are in it.
    """
    with _opened(str(root), None) as fd:
        yield from _below(fd, "")
        yield fd, ".", "", os.fstat(fd)


def _below(fd: int, prefix: str) -> Iterator[tuple[int, str, str, os.stat_result]]:
    with os.scandir(fd) as listed:
        entries = [(entry.name, entry.stat(follow_symlinks=False)) for entry in listed]
    for name, status in entries:
        if stat.S_ISDIR(status.st_mode):
            with contextlib.suppress(NotADirectoryError), _opened(name, fd) as inner:
                yield from _below(inner, f"{prefix}{name}/")
        yield fd, name, prefix + name, status


@contextlib.contextmanager
def _opened(name: str, dir_fd: int | None) -> Iterator[int]:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)
