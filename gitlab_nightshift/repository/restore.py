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
from gitlab_nightshift.repository.acl import Acls, set_acls
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
"""Fewer paths are checked one by one; for more, a full scan is faster."""
MOST_NEW_ENTRIES = 500_000
"""New files and folders that are listed before they are removed: about 300 MB of memory."""


@dataclass(frozen=True)
class RestoredTree:
    """The state of a restored tree; paths are sorted.

    ``failed`` could not be restored: files that were only watched, or that this process may not
    write. They keep their old entry in ``snapshot``, so that each restore reports them again.
    ``imperfect`` have their old content and rights, but not their owner, which only root can set,
    or not the times of a folder in which something was restored.
    """

    snapshot: TreeSnapshot
    failed: tuple[str, ...]
    imperfect: tuple[str, ...]


def restore_tree(
    root: Path,
    saved: SavedCheckout,
    snapshot: TreeSnapshot,
    repository: Repository,
    *,
    keep_watched: bool = False,
    compared: ComparedTree | None = None,
) -> RestoredTree:
    """Restore whatever differs from ``snapshot``, the last state known to equal the saved one.

    With ``keep_watched``, changes of watched files are accepted for good. ``compared`` is the
    present tree, compared with ``snapshot``. Raises OSError only if the checkout cannot be read.
    """
    tree = _compare_limited(root, saved, snapshot, compared)
    changed = tree.list_changed()
    _remove_new(root, saved.entries, tree, changed)
    written = _recreate(root, saved, changed, repository)
    if len(changed) < MOST_SINGLE_CHECKS:
        now = rescan(root, tree, changed)
    else:
        now = compare(root, snapshot, only=saved.folders)
    parents = {path.rpartition("/")[0] for path in changed}
    failed, imperfect = _restore_folders(root, saved, now, parents)
    failed |= {path for path in now.differing if path not in saved.entries}
    restored, uncertain = _list_restored_entries(saved, now, changed, written)
    old = saved.entries
    imperfect |= {
        path for path, new in restored.items() if new and read_owner(old[path]) != read_owner(new)
    }
    if keep_watched:
        watched = {path for path in uncertain if _is_watched(saved, path)}
        uncertain -= watched
        restored |= {path: now.get(path) for path in watched}
    state = snapshot.replace(restored) if restored else snapshot
    return RestoredTree(state, tuple(sorted(failed | uncertain)), tuple(sorted(imperfect - failed)))


def _compare_limited(
    root: Path, saved: SavedCheckout, snapshot: TreeSnapshot, compared: ComparedTree | None
) -> ComparedTree:
    """Compare the tree with ``snapshot``; too many new entries are removed first."""
    # Many differences may be the content of new folders, which need not be listed.
    if compared and len(compared.differing) < MOST_SINGLE_CHECKS:
        return compared
    try:
        return compare(root, snapshot, only=saved.folders, limit=len(snapshot) + MOST_NEW_ENTRIES)
    except TooManyEntriesError:
        _remove_many_new(root, saved.entries, saved.folders)
        return compare(root, snapshot, only=saved.folders)


def _list_restored_entries(
    saved: SavedCheckout, now: Snapshot, changed: Iterable[str], written: Container[str]
) -> tuple[dict[str, TreeEntry | None], set[str]]:
    """The new entries of restored files, and the files whose content is uncertain."""
    restored, uncertain = dict[str, TreeEntry | None](), set[str]()
    for path in changed:
        if _has_kind(saved.entries, path, EntryKind.FILE, EntryKind.LINK, EntryKind.OTHER):
            has_content = path in written or saved.entries[path].kind is EntryKind.LINK
            if has_content and is_restored(saved.entries[path], now.get(path)):
                restored[path] = now[path]
            else:
                uncertain.add(path)
    return restored, uncertain


def _is_watched(saved: SavedCheckout, path: str) -> bool:
    return path not in saved.blobs and path not in saved.copies


def _has_kind(entries: Snapshot, path: str, *kinds: EntryKind) -> bool:
    return path in entries and entries[path].kind in kinds


@contextlib.contextmanager
def _tolerate_errors(no_space: list[str] | None = None, path: str = TOP) -> Iterator[None]:
    """Go on after an error: the second scan finds paths that could not be changed. If the disk has
    no space, ``path`` is added to ``no_space``."""
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


def _remove_new(root: Path, old: Snapshot, now: Snapshot, changed: Iterable[str]) -> None:
    """Remove the changed paths that did not exist, or had another kind."""
    present = (path for path in changed if path in now)
    _remove_all(root, (path for path in present if not _has_kind(old, path, now[path].kind)))


def _remove_all(root: Path, paths: Iterable[str]) -> None:
    for path in paths:
        with _tolerate_errors(), open_parent(root, path) as (fd, name):
            remove(name, fd)


def _remove_many_new(root: Path, old: Snapshot, folders: Iterable[str]) -> None:
    """Remove new entries of old folders without listing them in memory."""
    old_names = {folder: {".git"} if folder == TOP else set[str]() for folder in folders}
    for path in old:
        folder, _, name = path.rpartition("/")
        old_names.setdefault(folder, set()).add(name)
    for folder in sorted(folders):
        with (
            _tolerate_errors(),
            _open_parent_or_top(root, folder) as (folder_name, parent_fd),
            open_folder(folder_name, parent_fd) as fd,
        ):
            for entry in list_entries(fd, old_names[folder]):
                remove(entry.name, fd)


def _recreate(
    root: Path, saved: SavedCheckout, changed: Sequence[str], repository: Repository
) -> set[str]:
    """Recreate missing and changed paths; returns the files written."""
    written, no_space = _try_to_recreate(root, saved, changed, repository)
    if no_space:  # the disk is full, perhaps of the changed files themselves: delete them first
        left = [path for path in changed if path not in written and not _is_watched(saved, path)]
        _remove_all(root, (path for path in left if _has_kind(saved.entries, path, EntryKind.FILE)))
        written |= _try_to_recreate(root, saved, left, repository)[0]
    return written


def _try_to_recreate(
    root: Path, saved: SavedCheckout, changed: Sequence[str], repository: Repository
) -> tuple[set[str], list[str]]:
    """Recreate paths; returns the files written, and the paths for which the disk had no space."""
    no_space: list[str] = []
    _make_folders(root, saved.entries, changed, no_space)
    _make_links(root, saved.entries, changed, no_space)
    return _write_files(root, saved, changed, repository, no_space), no_space


def _make_folders(root: Path, old: Snapshot, changed: Iterable[str], no_space: list[str]) -> None:
    for path in changed:
        if path != TOP and _has_kind(old, path, EntryKind.FOLDER):
            with _tolerate_errors(no_space, path), open_parent(root, path) as (fd, name):
                os.mkdir(name, 0o700, dir_fd=fd)


def _make_links(root: Path, old: Snapshot, changed: Iterable[str], no_space: list[str]) -> None:
    for path in changed:
        if _has_kind(old, path, EntryKind.LINK):
            with _tolerate_errors(no_space, path), open_parent(root, path) as (fd, name):
                entry = old[path]
                put_link(name, entry.target, fd, entry.mtime_ns, (entry.uid, entry.gid))


# --- files ------------------------------------------------------------------------------------


def _write_files(
    root: Path,
    saved: SavedCheckout,
    changed: Iterable[str],
    repository: Repository,
    no_space: list[str],
) -> set[str]:
    """Write the old content of files that have a copy or blob; returns their paths."""
    files = [path for path in changed if _has_kind(saved.entries, path, EntryKind.FILE)]
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
        owner_differs = (status.st_uid, status.st_gid) != read_owner(old)
        # Never setuid for another owner.
        os.fchmod(target, old.mode & 0o777 if owner_differs else old.mode)
        set_acls(target, saved.acls.get(path, {}))
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
    root: Path, saved: SavedCheckout, now: Snapshot, parents: Container[str]
) -> tuple[set[str], set[str]]:
    """Restore the modes and times of folders, the inner ones first. Returns the folders where that
    failed, and the imperfect ones; times count only for ``parents`` of restored paths."""
    failed, imperfect, old = set[str](), set[str](), saved.entries
    for path in sorted(saved.folders, reverse=True):
        if not _has_kind(now, path, EntryKind.FOLDER):
            failed.add(path)
        elif not _is_folder_restored(old[path], now[path]):
            try:
                unrestored = restore_folder(root, path, old[path], saved.acls.get(path, {}))
                if unrestored.rights or (unrestored.times and path in parents):
                    imperfect.add(path)
            except OSError:
                failed.add(path)
    return failed, imperfect


def _is_folder_restored(old: TreeEntry, now: TreeEntry) -> bool:
    is_open = old.mode & stat.S_IRWXU == stat.S_IRWXU  # otherwise it may have been opened
    return is_open and is_unchanged(old, now) and old.mtime_ns == now.mtime_ns


class UnrestoredParts(NamedTuple):
    """True for the parts of a folder that could not be restored, as it is another user's."""

    rights: bool
    times: bool


def restore_folder(root: Path, path: str, old: TreeEntry, acls: Acls) -> UnrestoredParts:
    """Restore a folder's owner, mode, access lists and times. Raises OSError if it is no folder."""
    with _open_parent_or_top(root, path) as (name, fd), pin_file(name, fd) as (link, mode):
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)
        change_owner(link, read_owner(old))
        with contextlib.suppress(PermissionError):
            os.chmod(link, old.mode)  # noqa: PTH101
            set_acls(link, acls)
            os.utime(link, ns=(old.mtime_ns, old.mtime_ns))
        status = os.stat(link)  # noqa: PTH116
        rights = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
        return UnrestoredParts(
            rights=rights != (old.mode, *read_owner(old)),
            times=status.st_mtime_ns != old.mtime_ns,
        )
