"""Restores a checkout, path by path, to its saved state."""

import contextlib
import errno
import os
import stat
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gitlab_nightshift.errors import is_disk_full
from gitlab_nightshift.repository.acl import Lists, give_lists
from gitlab_nightshift.repository.private_repository import Repository, read_blobs
from gitlab_nightshift.repository.saved_state import SavedCheckout, open_copy
from gitlab_nightshift.repository.tree_snapshot import (
    TOP,
    ComparedTree,
    EntryKind,
    Snapshot,
    TooManyEntriesError,
    TreeEntry,
    TreeSnapshot,
    compare,
    is_restored,
    is_unchanged,
    read_owner,
    rescan,
)
from gitlab_nightshift.system.openat import (
    RefusedFileError,
    change_owner,
    copy_all,
    list_entries,
    open_folder,
    open_parent,
    pin_file,
    put_link,
    remove,
    replace_file,
    write_all,
)

BATCH_BYTES = 64_000_000
MOST_SINGLE_CHECKS = 1_000
"""Up to this many paths are checked one by one; for more, a full scan is faster."""
MOST_NEW = 500_000
"""New files and folders to list before they are removed: about 300 MB of memory."""


@dataclass(frozen=True)
class RestoredTree:
    """The state of a restored tree; paths are sorted.

    ``failed`` could not be restored: files that were only watched, or that the system does not let
    us write. They keep their old entry in ``known``, so that each restore reports them again.
    ``imperfect`` have their content and rights, but not their owner, which only root can set, or,
    if something was restored in a folder, not its times.
    """

    known: TreeSnapshot
    failed: tuple[str, ...]
    imperfect: tuple[str, ...]


def restore_tree(
    root: Path,
    saved: SavedCheckout,
    known: TreeSnapshot,
    repository: Repository,
    *,
    keep_watched: bool = False,
    looked: ComparedTree | None = None,
) -> RestoredTree:
    """Restore whatever differs from ``known``, the last state known to equal the saved one.

    With ``keep_watched``, changes of watched files are accepted for good. ``looked`` is the tree as
    it still is, compared with ``known``. Raises OSError only if the checkout cannot be read.
    """
    folders = saved.folders
    if looked and len(looked.differing) >= MOST_SINGLE_CHECKS:  # perhaps the content of new folders
        looked = None
    try:
        found = looked or compare(root, known, only=folders, limit=len(known) + MOST_NEW)
    except TooManyEntriesError:
        _remove_many_new(root, saved.entries, folders)
        found = compare(root, known, only=folders)
    touched = found.list_changed()
    _remove_new(root, saved.entries, found, touched)
    written, no_space = _recreate(root, saved, touched, repository)
    if no_space:  # the disk is full, perhaps of the changed files themselves: delete them first
        left = [path for path in touched if path not in written and not _is_watched(saved, path)]
        _remove_all(root, (path for path in left if _is(saved.entries, path, EntryKind.FILE)))
        written |= _recreate(root, saved, left, repository)[0]
    now = (
        rescan(root, found, touched)
        if len(touched) < MOST_SINGLE_CHECKS
        else compare(root, known, only=folders)
    )
    failed, imperfect = _restore_folders(
        root, saved, now, {path.rpartition("/")[0] for path in touched}
    )
    failed |= {path for path in now.differing if path not in saved.entries}
    certain, uncertain = _list_known_entries(saved, now, touched, written)
    old = saved.entries
    imperfect |= {
        path for path, made in certain.items() if made and read_owner(old[path]) != read_owner(made)
    }
    if keep_watched:
        watched = {path for path in uncertain if _is_watched(saved, path)}
        uncertain -= watched
        certain |= {path: now.get(path) for path in watched}
    state = known.replace(certain) if certain else known
    return RestoredTree(state, tuple(sorted(failed | uncertain)), tuple(sorted(imperfect - failed)))


def _list_known_entries(
    saved: SavedCheckout, now: Snapshot, touched: Iterable[str], written: Container[str]
) -> tuple[dict[str, TreeEntry | None], set[str]]:
    """The new entries of restored files, and the files whose content is uncertain."""
    certain, uncertain = dict[str, TreeEntry | None](), set[str]()
    for path in touched:
        if _is(saved.entries, path, EntryKind.FILE, EntryKind.LINK, EntryKind.OTHER):
            same = path in written or saved.entries[path].kind is EntryKind.LINK
            if same and is_restored(saved.entries[path], now.get(path)):
                certain[path] = now[path]
            else:
                uncertain.add(path)
    return certain, uncertain


def _is_watched(saved: SavedCheckout, path: str) -> bool:
    return path not in saved.blobs and path not in saved.copies


def _is(entries: Snapshot, path: str, *kinds: EntryKind) -> bool:
    return path in entries and entries[path].kind in kinds


@contextlib.contextmanager
def _tolerate_errors(no_space: list[str] | None = None, path: str = TOP) -> Iterator[None]:
    """Go on after an error: the second scan finds paths that could not be changed. Paths for which
    the disk has no space are added to ``no_space``."""
    try:
        yield
    except OSError as error:
        if no_space is not None and is_disk_full(error):
            no_space.append(path)
    except RefusedFileError:
        return


@contextlib.contextmanager
def _open_parent_or_top(root: Path, path: str) -> Iterator[tuple[str | Path, int | None]]:
    if path == TOP:
        yield root, None
        return
    with open_parent(root, path) as (fd, name):
        yield name, fd


def _remove_new(root: Path, old: Snapshot, found: Snapshot, touched: Iterable[str]) -> None:
    present = (path for path in touched if path in found)
    _remove_all(root, (path for path in present if not _is(old, path, found[path].kind)))


def _remove_all(root: Path, paths: Iterable[str]) -> None:
    for path in paths:
        with _tolerate_errors(), open_parent(root, path) as (fd, name):
            remove(name, fd)


def _remove_many_new(root: Path, old: Snapshot, folders: Iterable[str]) -> None:
    """Remove new entries of old folders without holding a list of them in memory."""
    known = {folder: {".git"} if folder == TOP else set[str]() for folder in folders}
    for path in old:
        folder, _, name = path.rpartition("/")
        known.setdefault(folder, set()).add(name)
    for folder in sorted(folders):
        with (
            _tolerate_errors(),
            _open_parent_or_top(root, folder) as (place, above),
            open_folder(place, above) as fd,
        ):
            for item in list_entries(fd, known[folder]):
                remove(item.name, fd)


def _recreate(
    root: Path, saved: SavedCheckout, touched: Sequence[str], repository: Repository
) -> tuple[set[str], list[str]]:
    """Recreate missing and changed paths; returns the files written, and the paths for which the
    disk had no space."""
    no_space: list[str] = []
    _make_folders(root, saved.entries, touched, no_space)
    _make_links(root, saved.entries, touched, no_space)
    return _write_files(root, saved, touched, repository, no_space), no_space


def _make_folders(root: Path, old: Snapshot, touched: Iterable[str], no_space: list[str]) -> None:
    for path in touched:
        if path != TOP and _is(old, path, EntryKind.FOLDER):
            with _tolerate_errors(no_space, path), open_parent(root, path) as (fd, name):
                os.mkdir(name, 0o700, dir_fd=fd)


def _make_links(root: Path, old: Snapshot, touched: Iterable[str], no_space: list[str]) -> None:
    for path in touched:
        if _is(old, path, EntryKind.LINK):
            with _tolerate_errors(no_space, path), open_parent(root, path) as (fd, name):
                entry = old[path]
                put_link(name, entry.target, fd, entry.mtime_ns, (entry.uid, entry.gid))


# --- files ------------------------------------------------------------------------------------


def _write_files(
    root: Path,
    saved: SavedCheckout,
    touched: Iterable[str],
    repository: Repository,
    no_space: list[str],
) -> set[str]:
    """Write the old content of files that have a copy or blob; returns their paths."""
    files = [path for path in touched if _is(saved.entries, path, EntryKind.FILE)]
    written: set[str] = set()
    for path in files:
        if path in saved.copies:
            with _tolerate_errors(no_space, path), open_copy(saved, path) as copy:
                with _rewrite_file(root, path, saved) as target:
                    copy_all(copy.fileno(), target)
                written.add(path)
    for batch in _split_batches([path for path in files if path in saved.blobs], saved.entries):
        data = read_blobs(repository, [saved.blobs[path] for path in batch])
        for path in batch:
            with _tolerate_errors(no_space, path), contextlib.suppress(KeyError):
                content = data[saved.blobs[path]]
                with _rewrite_file(root, path, saved) as target:
                    write_all(target, content)
                written.add(path)
    return written


@contextlib.contextmanager
def _rewrite_file(root: Path, path: str, saved: SavedCheckout) -> Iterator[int]:
    old = saved.entries[path]
    with open_parent(root, path) as (fd, name), replace_file(name, fd) as target:
        yield target
        change_owner(target, read_owner(old))  # before the mode: chown clears setuid (chown(2))
        status = os.fstat(target)
        ours = (status.st_uid, status.st_gid) != read_owner(old)
        os.fchmod(target, old.mode & 0o777 if ours else old.mode)  # never setuid for another owner
        give_lists(target, saved.acls.get(path, {}))
        os.utime(target, ns=(old.mtime_ns, old.mtime_ns))


def _split_batches(paths: Iterable[str], entries: Snapshot) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        batch.append(path)
        size += entries[path].size
        if size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# --- folders ----------------------------------------------------------------------------------


def _restore_folders(
    root: Path, saved: SavedCheckout, now: Snapshot, filled: Container[str]
) -> tuple[set[str], set[str]]:
    """Restore the modes and times of folders, the inner ones first. Returns the folders where that
    failed, and the imperfect ones; times count only in ``filled``, where something was restored."""
    failed, imperfect, old = set[str](), set[str](), saved.entries
    for path in sorted(saved.folders, reverse=True):
        if not _is(now, path, EntryKind.FOLDER):
            failed.add(path)
        elif not _is_restored(old[path], now[path]):
            try:
                left = restore_folder(root, path, old[path], saved.acls.get(path, {}))
                if left.rights or (left.times and path in filled):
                    imperfect.add(path)
            except OSError:
                failed.add(path)
    return failed, imperfect


def _is_restored(old: TreeEntry, now: TreeEntry) -> bool:
    open_to_us = old.mode & stat.S_IRWXU == stat.S_IRWXU
    return open_to_us and is_unchanged(old, now) and old.mtime_ns == now.mtime_ns


class UnrestoredParts(NamedTuple):
    """True for the parts of a folder that could not be restored, as it is another user's."""

    rights: bool
    times: bool


def restore_folder(root: Path, path: str, old: TreeEntry, lists: Lists) -> UnrestoredParts:
    """Restore a folder's owner, mode, access lists and times. Raises OSError if it is no folder."""
    with _open_parent_or_top(root, path) as (name, fd), pin_file(name, fd) as (link, mode):
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)
        change_owner(link, read_owner(old))
        with contextlib.suppress(PermissionError):
            os.chmod(link, old.mode)  # noqa: PTH101
            give_lists(link, lists)
            os.utime(link, ns=(old.mtime_ns, old.mtime_ns))
        status = os.stat(link)  # noqa: PTH116
        rights = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
        return UnrestoredParts(
            rights != (old.mode, *read_owner(old)), status.st_mtime_ns != old.mtime_ns
        )
