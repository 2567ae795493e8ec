"""Lay a captured change over a checkout that was put back: what a checkout of it would hold."""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from gitlab_nightshift.host.changes import Captured
from gitlab_nightshift.host.openat import folder_of, own, remove, replaced, write_all
from gitlab_nightshift.host.repository import Repository, scratch_index
from gitlab_nightshift.host.saved import Saved
from gitlab_nightshift.host.tree import TOP, Kind


def lay_files(root: Path, saved: Saved, repository: Repository, captured: Captured) -> None:
    """Write and delete the change's files. A refused change has none. Raises OSError, GitError.

    The bytes are those that git writes for the captured tree, so what is verified is what is
    published, also where attributes convert line ends.
    """
    if not captured.files:
        return
    paths = [file.path for file in captured.files if file.status != "D"]
    for file in captured.files:
        if file.status == "D":
            _delete(root, file.path)
    with tempfile.TemporaryDirectory(prefix="lay-", dir=repository.folder) as folder:
        with scratch_index(repository, captured.tree_id) as index:
            listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
            argv = ("checkout-index", "-z", "--stdin")
            repository.run_in(Path(folder), index, *argv, stdin=listed)
        for path in paths:
            _write(root, path, Path(folder) / path, saved)


def _delete(root: Path, path: str) -> None:
    """Delete a file and the folders that are empty then, as a checkout does."""
    with contextlib.suppress(FileNotFoundError):
        with folder_of(root, path) as (fd, name):
            remove(name, fd)
        while (path := path.rpartition("/")[0]) and _removed_if_empty(root, path):
            pass


def _removed_if_empty(root: Path, path: str) -> bool:
    with folder_of(root, path) as (fd, name):
        try:
            os.rmdir(name, dir_fd=fd)
        except OSError:
            return False
    return True


def _write(root: Path, path: str, source: Path, saved: Saved) -> None:
    """What is new belongs to whoever the top does."""
    top = saved.entries[TOP]
    old = saved.entries.get(path, top)
    owner = (top.uid, top.gid)
    with folder_of(root, path, make=True, owner=owner) as (fd, name), replaced(name, fd) as target:
        write_all(target, source.read_bytes())
        own(target, (old.uid, old.gid))
        os.fchmod(target, _mode(saved, path, source.stat().st_mode))


def _mode(saved: Saved, path: str, mode: int) -> int:
    """A file keeps its mode but for the executable bit, the only one that git knows."""
    old = saved.entries.get(path)
    if old is None or old.kind is not Kind.FILE:
        return stat.S_IMODE(mode)
    kept = old.mode & ~(stat.S_ISUID | stat.S_ISGID)  # the content is an agent's
    if mode & stat.S_IXUSR:
        return kept | (kept & 0o444) >> 2
    return kept & ~0o111
