"""Applies a captured change, or any tree, to a restored checkout, exactly as ``git checkout`` would
write it."""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.git_formats import LINK, PROGRAM, SUBMODULE, Row
from gitlab_nightshift.repository.private_repository import Repository, read_blobs
from gitlab_nightshift.repository.saved_state import ATTRIBUTES
from gitlab_nightshift.repository.tree_objects import (
    format_row,
    list_differences,
    read_folders_above,
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
    rows = {f.path: None if f.status == "D" else (f.mode, f.blob) for f in captured.files}
    _apply(root, before, repository, captured.tree_id, rows)


def apply_difference(
    root: Path, before: Snapshot, repository: Repository, base: str, tree: str
) -> None:
    """Write and delete the files in which ``tree`` differs from ``base``, which is checked out. The
    rest is as in :func:`apply_captured_change`."""
    _apply(root, before, repository, tree, list_differences(repository, base, tree))


def _apply(
    root: Path, before: Snapshot, repository: Repository, tree: str, rows: Mapping[str, Row | None]
) -> None:
    if not rows:
        return
    # Deletions first: a deleted file's name may now be a folder.
    for path in (path for path, row in rows.items() if row is None):
        _delete(root, path)
    wanted = {path: row for path, row in rows.items() if row and row[0] != SUBMODULE}
    paths = list(wanted)
    for at in range(0, len(paths), FILES_PER_BATCH):
        batch = {path: wanted[path] for path in paths[at : at + FILES_PER_BATCH]}
        data = _read_as_checked_out(repository, tree, batch)
        for path, (mode, _) in batch.items():
            if mode == LINK:
                _write_link(root, path, os.fsdecode(data[path]), before)
            else:
                _write(root, path, data[path], before, executable=mode == PROGRAM)


def _read_as_checked_out(
    repository: Repository, tree: str, rows: Mapping[str, Row]
) -> dict[str, bytes]:
    """The bytes that a checkout writes for these files of a tree. Raises GitError."""
    if repository.converts_files or _find_attributes(repository, tree, rows):
        return _check_out(repository, tree, rows)
    blobs = read_blobs(repository, (blob for _, blob in rows.values()))
    for _, blob in rows.values():
        if blob not in blobs:  # it is missing or damaged: git's error says which
            blobs[blob] = repository.run("cat-file", "blob", blob)
    return {path: blobs[blob] for path, (_, blob) in rows.items()}


def _find_attributes(repository: Repository, tree: str, paths: Iterable[str]) -> dict[str, Row]:
    """The attribute files of a tree that apply to these paths, by path."""
    folders = read_folders_above(repository, tree, paths)
    named = (
        (f"{folder}/" * bool(folder), rows.get(ATTRIBUTES)) for folder, rows in folders.items()
    )
    return {f"{start}{ATTRIBUTES}": row for start, row in named if row}


def _check_out(repository: Repository, tree: str, rows: Mapping[str, Row]) -> dict[str, bytes]:
    """Have git write the files into a private folder, and read them there. Its index has only these
    files and their attribute files: a checkout reads attributes from the index
    (gitattributes(5))."""
    listed = {**_find_attributes(repository, tree, rows), **rows}
    info = b"".join(format_row(path, row) for path, row in listed.items())
    names = b"".join(os.fsencode(path) + b"\0" for path in rows)
    with tempfile.TemporaryDirectory(prefix="applied-", dir=repository.folder) as folder:
        files, index = Path(folder, "files"), Path(folder, "index")
        files.mkdir()
        repository.run("update-index", "-z", "--index-info", stdin=info, index=index)
        repository.run_in(files, index, "checkout-index", "-z", "--stdin", stdin=names)
        return {path: _read(files / path) for path in rows}


def _read(path: Path) -> bytes:
    return os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()


def _delete(root: Path, path: str) -> None:
    """Delete a file, and the folders that this leaves empty, as git does."""
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
    """Write a file. A new one, and new folders for it, get the owner of the checkout's top
    folder."""
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
    kept = old.mode & ~(stat.S_ISUID | stat.S_ISGID)  # the content is an agent's
    if executable:
        return kept | (kept & 0o444) >> 2  # executable for everyone who may read it
    return kept & ~0o111
