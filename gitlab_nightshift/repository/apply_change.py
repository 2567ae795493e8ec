"""Applies a captured change, or any tree, to a restored checkout, as ``git checkout`` would."""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.git_formats import LINK, PROGRAM, SUBMODULE, join_names
from gitlab_nightshift.repository.private_repository import Repository, read_blobs
from gitlab_nightshift.repository.saved_state import ATTRIBUTES
from gitlab_nightshift.repository.tree_objects import (
    EntryChanges,
    GitEntries,
    format_index_entry,
    list_differences,
    read_ancestor_folders,
)
from gitlab_nightshift.repository.tree_snapshot import TOP, EntryKind, Snapshot
from gitlab_nightshift.system.openat import (
    change_owner,
    open_parent,
    remove,
    replace_file,
    write_all,
)

FILES_PER_BATCH = 100
"""Files in memory at once: a person's commit may change thousands, some of them large."""


def apply_captured_change(
    root: Path, before: Snapshot, repository: Repository, captured: CapturedChange
) -> None:
    """Write and delete the files of a change; a refused change has none. Raises OSError, GitError.

    ``before`` is the present state of the checkout: a file keeps its owner and mode. The bytes are
    those that git would write for the captured tree, so the files that are verified are those that
    are published, even if attributes convert line ends.
    """
    changes = {f.path: None if f.status == "D" else (f.mode, f.blob) for f in captured.files}
    _apply(root, before, repository, captured.tree_id, changes)


def apply_difference(
    root: Path, before: Snapshot, repository: Repository, base: str, tree: str
) -> None:
    """Write and delete the files in which ``tree`` differs from ``base``, which is checked out, as
    :func:`apply_captured_change` does."""
    _apply(root, before, repository, tree, list_differences(repository, base, tree))


def _apply(
    root: Path, before: Snapshot, repository: Repository, tree: str, changes: EntryChanges
) -> None:
    # Deletions first: a deleted file's name may now be a folder.
    for path in (path for path, entry in changes.items() if entry is None):
        _delete(root, path)
    written = [(path, entry) for path, entry in changes.items() if entry and entry[0] != SUBMODULE]
    for start in range(0, len(written), FILES_PER_BATCH):
        batch = dict(written[start : start + FILES_PER_BATCH])
        data = _read_as_checked_out(repository, tree, batch)
        for path, (mode, _) in batch.items():
            if mode == LINK:
                _write_link(root, path, os.fsdecode(data[path]), before)
            else:
                _write(root, path, data[path], before, executable=mode == PROGRAM)


def _read_as_checked_out(repository: Repository, tree: str, files: GitEntries) -> dict[str, bytes]:
    """The bytes that a checkout writes for these files of a tree. Raises GitError."""
    if repository.converts_files or _find_attribute_files(repository, tree, files):
        return _check_out(repository, tree, files)
    blobs = read_blobs(repository, (blob for _, blob in files.values()))
    for _, blob in files.values():
        if blob not in blobs:  # it is missing or damaged: git's error says which
            blobs[blob] = repository.run("cat-file", "blob", blob)
    return {path: blobs[blob] for path, (_, blob) in files.items()}


def _find_attribute_files(repository: Repository, tree: str, paths: Iterable[str]) -> GitEntries:
    """The attribute files of a tree that apply to these paths, by path."""
    folders = read_ancestor_folders(repository, tree, paths)
    return {
        f"{folder}/{ATTRIBUTES}" if folder else ATTRIBUTES: entries[ATTRIBUTES]
        for folder, entries in folders.items()
        if ATTRIBUTES in entries
    }


def _check_out(repository: Repository, tree: str, files: GitEntries) -> dict[str, bytes]:
    """Have git write the files into a private folder, and read them there. The index has only these
    files and their attribute files: a checkout reads attributes from the index
    (gitattributes(5))."""
    indexed = {**_find_attribute_files(repository, tree, files), **files}
    info = b"".join(format_index_entry(path, entry) for path, entry in indexed.items())
    with tempfile.TemporaryDirectory(prefix="applied-", dir=repository.folder) as folder:
        work_tree, index = Path(folder, "files"), Path(folder, "index")
        work_tree.mkdir()
        repository.run("update-index", "-z", "--index-info", stdin=info, index=index)
        stdin = join_names(files)
        repository.run_in(work_tree, index, "checkout-index", "-z", "--stdin", stdin=stdin)
        return {path: _read_file_or_link(work_tree / path) for path in files}


def _read_file_or_link(path: Path) -> bytes:
    return os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()


def _delete(root: Path, path: str) -> None:
    """Delete a file, and the folders above it that are then empty, as git does."""
    with contextlib.suppress(FileNotFoundError):
        with open_parent(root, path) as (fd, name):
            remove(name, fd)
        while (path := path.rpartition("/")[0]) and _remove_if_empty(root, path):
            pass


def _remove_if_empty(root: Path, path: str) -> bool:
    with open_parent(root, path) as (fd, name):
        try:
            os.rmdir(name, dir_fd=fd)
        except OSError:
            return False
    return True


def _write(root: Path, path: str, data: bytes, before: Snapshot, *, executable: bool) -> None:
    """Write a file. A new one, and new folders for it, get the owner of the top folder."""
    top = before[TOP]
    old = before.get(path, top)
    owner = (top.uid, top.gid)
    with (
        open_parent(root, path, create=True, owner=owner) as (fd, name),
        replace_file(name, fd) as target,
    ):
        write_all(target, data)
        change_owner(target, (old.uid, old.gid))
        # After chown, which may clear setuid and setgid (chown(2)).
        os.fchmod(target, _compute_mode(before, path, executable))


def _write_link(root: Path, path: str, target: str, before: Snapshot) -> None:
    """Write a symbolic link: a captured change has none, but a person's commit may."""
    top = before[TOP]
    with open_parent(root, path, create=True, owner=(top.uid, top.gid)) as (fd, name):
        with contextlib.suppress(FileNotFoundError):
            remove(name, fd)
        os.symlink(target, name, dir_fd=fd)
        old = before.get(path, top)
        with contextlib.suppress(PermissionError):  # a plain user cannot give its files away
            os.chown(name, old.uid, old.gid, dir_fd=fd, follow_symlinks=False)


def _read_umask() -> int:
    mask = os.umask(0o022)  # the only way to read it is to set it (umask(2))
    os.umask(mask)
    return mask


def _compute_mode(before: Snapshot, path: str, executable: bool) -> int:
    """The file's old mode with the new executable bit, the only one that git stores."""
    old = before.get(path)
    if old is None or old.kind is not EntryKind.FILE:
        return (0o777 if executable else 0o666) & ~_read_umask()
    mode = old.mode & ~(stat.S_ISUID | stat.S_ISGID)  # the content is an agent's
    if executable:
        return mode | (mode & 0o444) >> 2  # executable for everyone who may read it
    return mode & ~0o111
