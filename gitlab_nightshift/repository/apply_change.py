"""Applies a captured change to a restored checkout, exactly as ``git checkout`` would write it."""

import contextlib
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.private_repository import Repository, open_scratch_index
from gitlab_nightshift.repository.tree_snapshot import TOP, EntryKind, Snapshot
from gitlab_nightshift.system.openat import (
    change_owner,
    open_parent,
    remove,
    replace_file,
    write_all,
)


def apply_captured_change(
    root: Path, before: Snapshot, repository: Repository, captured: CapturedChange
) -> None:
    """Write and delete the change's files. A refused change has none. Raises OSError, GitError.

    ``before`` is the present state of the checkout: files keep their owner and mode.

    Git itself writes the bytes of the captured tree, so what is verified is what is published, even
    if attributes convert line ends.
    """
    if not captured.files:
        return
    paths = [file.path for file in captured.files if file.status != "D"]
    # Deletions first: a deleted file's name may now be a folder.
    for file in captured.files:
        if file.status == "D":
            _delete(root, file.path)
    written = _export_files(repository, captured.tree_id, paths)
    for path in paths:
        write = _write_link if (written / path).is_symlink() else _write
        write(root, path, written / path, before)


def _export_files(repository: Repository, tree: str, paths: Sequence[str]) -> Path:
    """A private folder with these files of a tree, cached, as a change is applied more than once.

    The folder gets its final name once it is complete.
    """
    last = repository.folder / "applied"
    if not (last / tree).is_dir():
        shutil.rmtree(last, ignore_errors=True)
        last.mkdir(mode=0o700)
        listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
        with open_scratch_index(repository, tree) as index:
            (last / "part").mkdir()
            repository.run_in(last / "part", index, "checkout-index", "-z", "--stdin", stdin=listed)
        (last / "part").rename(last / tree)
    return last / tree


def _delete(root: Path, path: str) -> None:
    """Delete a file, and folders that become empty, as git does."""
    with contextlib.suppress(FileNotFoundError):
        with open_parent(root, path) as (fd, name):
            remove(name, fd)
        while (path := path.rpartition("/")[0]) and _removed_if_empty(root, path):
            pass


def _removed_if_empty(root: Path, path: str) -> bool:
    with open_parent(root, path) as (fd, name):
        try:
            os.rmdir(name, dir_fd=fd)
        except OSError:
            return False
    return True


def _write(root: Path, path: str, source: Path, before: Snapshot) -> None:
    """Write a file; a new one gets the owner of the checkout's top."""
    top = before[TOP]
    old = before.get(path, top)
    owner = (top.uid, top.gid)
    with (
        open_parent(root, path, make=True, owner=owner) as (fd, name),
        replace_file(name, fd) as target,
    ):
        write_all(target, source.read_bytes())
        change_owner(target, (old.uid, old.gid))
        os.fchmod(target, _compute_mode(before, path, source.stat().st_mode))


def _write_link(root: Path, path: str, source: Path, before: Snapshot) -> None:
    """Write a symbolic link, which only a person's change has. Its target is never followed."""
    top = before[TOP]
    with open_parent(root, path, make=True, owner=(top.uid, top.gid)) as (fd, name):
        with contextlib.suppress(FileNotFoundError):
            remove(name, fd)
        os.symlink(source.readlink(), name, dir_fd=fd)
        old = before.get(path, top)
        with contextlib.suppress(PermissionError):  # a plain user cannot give its files away
            os.chown(name, old.uid, old.gid, dir_fd=fd, follow_symlinks=False)


def _compute_mode(before: Snapshot, path: str, mode: int) -> int:
    """The old mode with the new executable bit, the only one that git stores."""
    old = before.get(path)
    if old is None or old.kind is not EntryKind.FILE:
        return stat.S_IMODE(mode)
    kept = old.mode & ~(stat.S_ISUID | stat.S_ISGID)  # the content is an agent's
    if mode & stat.S_IXUSR:
        return kept | (kept & 0o444) >> 2  # executable for everyone who may read it
    return kept & ~0o111
