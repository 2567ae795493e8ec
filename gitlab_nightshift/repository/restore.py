"""Restore a checkout, path by path, to what it was when it was saved."""

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
from gitlab_nightshift.repository.blobs import read_blobs
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.saved_state import SavedCheckout, open_copy
from gitlab_nightshift.repository.tree_snapshot import (
    TOP,
    EntryKind,
    Snapshot,
    TooManyEntriesError,
    TreeEntry,
    find_differing_paths,
    look_again,
    looks_same,
    read_owner,
    same,
    scan,
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
FEW = 1_000
"""Up to this many paths are looked at one by one; with more a whole scan is faster."""
MANY = 500_000
"""New files and folders that are looked at before they are removed: about 300 MB of memory."""


@dataclass(frozen=True)
class RestoredTree:
    """What is known of a tree that was put back; paths are sorted.

    ``failed`` could not be restored: files that were only watched, or that the system does not let
    us write. They keep their old entry in ``known``, so that they are named again each time.
    ``unlike`` have their bytes and rights, but not their owner, which only root can give, or, as
    folders in which something was put back, not their times.
    """

    known: Snapshot
    failed: tuple[str, ...]
    unlike: tuple[str, ...]


def restore_tree(
    root: Path,
    saved: SavedCheckout,
    known: Snapshot,
    repository: Repository,
    *,
    keep_watched: bool = False,
) -> RestoredTree:
    """Restore whatever differs from ``known``, the state last known to be as saved.

    With ``keep_watched`` what was done to watched files is taken for good. Raises OSError only
    where the checkout cannot be read.
    """
    folders = {path for path, entry in saved.entries.items() if entry.kind is EntryKind.FOLDER}
    try:
        found = scan(root, only=folders, limit=len(known) + MANY)
    except TooManyEntriesError:
        _remove_many_new(root, saved.entries, folders)
        found = scan(root, only=folders)
    touched = find_differing_paths(known, found)
    _remove_new(root, saved.entries, found, touched)
    written, short = _make(root, saved, touched, repository)
    if short:  # the disk is full of what agents made of files that are to be replaced
        left = [path for path in touched if path not in written and not _is_watched(saved, path)]
        _remove_all(root, (path for path in left if _is(saved.entries, path, EntryKind.FILE)))
        written |= _make(root, saved, left, repository)[0]
    now = look_again(root, found, touched) if len(touched) < FEW else scan(root, only=folders)
    failed, unlike = _settle_folders(
        root, saved, now, {path.rpartition("/")[0] for path in touched}
    )
    failed |= now.keys() - saved.entries.keys()
    state, doubtful = _build_known_state(saved, known, now, touched, written)
    old = saved.entries
    both = [(p, old[p], state[p]) for p in touched if p in old and p in state]
    unlike |= {path for path, was, made in both if read_owner(was) != read_owner(made)}
    if keep_watched:
        watched = {path for path in doubtful if _is_watched(saved, path)}
        doubtful -= watched
        state = {path: entry for path, entry in state.items() if path not in watched}
        state |= {path: now[path] for path in watched if path in now}
    return RestoredTree(state, tuple(sorted(failed | doubtful)), tuple(sorted(unlike - failed)))


def _build_known_state(
    saved: SavedCheckout, known: Snapshot, now: Snapshot, touched: Iterable[str], written: set[str]
) -> tuple[dict[str, TreeEntry], set[str]]:
    """The known state with what was restored, and the files of which that is not certain."""
    state, doubtful = dict(known), set[str]()
    for path in touched:
        if _is(saved.entries, path, EntryKind.FILE, EntryKind.LINK, EntryKind.OTHER):
            certain = path in written or saved.entries[path].kind is EntryKind.LINK
            if certain and looks_same(saved.entries[path], now.get(path)):
                state[path] = now[path]
            else:
                doubtful.add(path)
    return state, doubtful


def _is_watched(saved: SavedCheckout, path: str) -> bool:
    return path not in saved.blobs and path not in saved.copies


def _is(entries: Snapshot, path: str, *kinds: EntryKind) -> bool:
    return path in entries and entries[path].kind in kinds


@contextlib.contextmanager
def _tolerate_errors(short: list[str] | None = None, path: str = TOP) -> Iterator[None]:
    """Go on after an error: the second look finds a path that the system does not let us touch; one
    for which the disk has no space is added to ``short``."""
    try:
        yield
    except OSError as error:
        if short is not None and is_disk_full(error):
            short.append(path)
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
    there = (path for path in touched if path in found)
    _remove_all(root, (path for path in there if not _is(old, path, found[path].kind)))


def _remove_all(root: Path, paths: Iterable[str]) -> None:
    for path in paths:
        with _tolerate_errors(), open_parent(root, path) as (fd, name):
            remove(name, fd)


def _remove_many_new(root: Path, old: Snapshot, folders: Iterable[str]) -> None:
    """Remove what is new in folders that were there, without a list of it in memory."""
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


def _make(
    root: Path, saved: SavedCheckout, touched: Sequence[str], repository: Repository
) -> tuple[set[str], list[str]]:
    """Make what was there: the files that were written, and what the disk was too full for."""
    short: list[str] = []
    _make_folders(root, saved.entries, touched, short)
    _make_links(root, saved.entries, touched, short)
    return _write_files(root, saved, touched, repository, short), short


def _make_folders(root: Path, old: Snapshot, touched: Iterable[str], short: list[str]) -> None:
    for path in touched:
        if path != TOP and _is(old, path, EntryKind.FOLDER):
            with _tolerate_errors(short, path), open_parent(root, path) as (fd, name):
                os.mkdir(name, 0o700, dir_fd=fd)


def _make_links(root: Path, old: Snapshot, touched: Iterable[str], short: list[str]) -> None:
    for path in touched:
        if _is(old, path, EntryKind.LINK):
            with _tolerate_errors(short, path), open_parent(root, path) as (fd, name):
                entry = old[path]
                put_link(name, entry.target, fd, entry.mtime_ns, (entry.uid, entry.gid))


# --- files ------------------------------------------------------------------------------------


def _write_files(
    root: Path,
    saved: SavedCheckout,
    touched: Iterable[str],
    repository: Repository,
    short: list[str],
) -> set[str]:
    """Write the old bytes of the files that we have them of; the paths that were written."""
    files = [path for path in touched if _is(saved.entries, path, EntryKind.FILE)]
    written: set[str] = set()
    for path in files:
        if path in saved.copies:
            with _tolerate_errors(short, path), open_copy(saved, path) as copy:
                with _rewrite_file(root, path, saved) as target:
                    copy_all(copy.fileno(), target)
                written.add(path)
    for batch in _split_batches([path for path in files if path in saved.blobs], saved.entries):
        data = read_blobs(repository, [saved.blobs[path] for path in batch])
        for path in batch:
            with _tolerate_errors(short, path), contextlib.suppress(KeyError):
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
        change_owner(target, read_owner(old))
        status = os.fstat(target)
        ours = (status.st_uid, status.st_gid) != read_owner(old)
        os.fchmod(target, old.mode & 0o777 if ours else old.mode)  # no setuid for another owner
        give_lists(target, saved.lists.get(path, {}))
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


def _settle_folders(
    root: Path, saved: SavedCheckout, now: Snapshot, filled: Container[str]
) -> tuple[set[str], set[str]]:
    """Give folders their modes and times, the inner ones first; those where it failed, and those
    that are not wholly as before. Times count in ``filled`` alone, where something was put back."""
    failed, unlike, old = set[str](), set[str](), saved.entries
    for path in sorted((p for p in old if old[p].kind is EntryKind.FOLDER), reverse=True):
        if not _is(now, path, EntryKind.FOLDER):
            failed.add(path)
        elif not _settled(old[path], now[path]):
            try:
                left = settle(root, path, old[path], saved.lists.get(path, {}))
                if left.rights or (left.times and path in filled):
                    unlike.add(path)
            except OSError:
                failed.add(path)
    return failed, unlike


def _settled(old: TreeEntry, now: TreeEntry) -> bool:
    open_to_us = old.mode & stat.S_IRWXU == stat.S_IRWXU
    return open_to_us and same(old, now) and old.mtime_ns == now.mtime_ns


class Unsettled(NamedTuple):
    """What could not be given to a folder, since it is another user's."""

    rights: bool
    times: bool


def settle(root: Path, path: str, old: TreeEntry, lists: Lists) -> Unsettled:
    """Give a folder its owner, mode, access lists and times. Raises OSError where it is none."""
    with _open_parent_or_top(root, path) as (name, fd), pin_file(name, fd) as (link, mode):
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, "no folder", path)
        change_owner(link, read_owner(old))
        with contextlib.suppress(PermissionError):
            os.chmod(link, old.mode)  # noqa: PTH101
            give_lists(link, lists)
            os.utime(link, ns=(old.mtime_ns, old.mtime_ns))
        status = os.stat(link)  # noqa: PTH116
        rights = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
        return Unsettled(rights != (old.mode, *read_owner(old)), status.st_mtime_ns != old.mtime_ns)
