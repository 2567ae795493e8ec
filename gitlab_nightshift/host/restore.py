"""Put back: the checkout becomes, path by path, what it was when it was saved."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.host.acl import Lists, give_lists
from gitlab_nightshift.host.openat import (
    Refused,
    copy_all,
    folder_of,
    listed,
    opened,
    own,
    pinned,
    put_link,
    remove,
    replaced,
    write_all,
)
from gitlab_nightshift.host.repository import Repository, read_blobs
from gitlab_nightshift.host.saved import Saved
from gitlab_nightshift.host.space import Disks
from gitlab_nightshift.host.tree import (
    TOP,
    Entry,
    Kind,
    Snapshot,
    TooManyError,
    differing,
    look_again,
    looks_same,
    owner_of,
    same,
    scan,
)

BATCH_BYTES = 64_000_000
FEW = 1_000
"""So many paths are looked at one by one; with more a whole scan is faster."""
MANY = 500_000
"""New files and folders that are looked at before they are removed: about 300 MB of memory."""


@dataclass(frozen=True)
class PutBack:
    """What is known of a tree that was put back; paths are sorted.

    ``failed`` could not be restored: files that were only watched, or that the system does not let
    us write. They keep their old entry in ``known``, so that they are named again each time.
    ``unlike`` have their bytes and rights, but not their owner or times, which only their owner
    can give.
    """

    known: Snapshot
    failed: tuple[str, ...]
    unlike: tuple[str, ...]


def put_back(
    root: Path, saved: Saved, known: Snapshot, repository: Repository, *, keep_watched: bool = False
) -> PutBack:
    """Restore whatever differs from ``known``, the state last known to be as saved.

    With ``keep_watched`` what was done to watched files is taken for good. Raises OSError only
    where the checkout cannot be read.
    """
    folders = {path for path, entry in saved.entries.items() if entry.kind is Kind.FOLDER}
    try:
        found = scan(root, only=folders, limit=len(known) + MANY)
    except TooManyError:
        _sweep(root, saved.entries, folders)
        found = scan(root, only=folders)
    touched = differing(known, found)
    _remove_new(root, saved.entries, found, touched)
    _make_folders(root, (path for path in touched if path in folders))
    _make_links(root, saved.entries, touched)
    written = _write_files(root, saved, touched, repository)
    if Disks((root,)).full():  # with what agents made of files that are to be replaced
        left = [path for path in touched if path not in written and not _is_watched(saved, path)]
        _remove_files(root, saved.entries, left)
        written |= _write_files(root, saved, left, repository)
    now = look_again(root, found, touched) if len(touched) < FEW else scan(root, only=folders)
    failed, unlike = _settle_folders(root, saved, now)
    failed |= now.keys() - saved.entries.keys()
    state, doubtful = _judged(saved, known, now, touched, written)
    old = saved.entries
    unlike |= {p for p in touched if p in old and p in state and not _has_owner(old[p], state[p])}
    if keep_watched:
        watched = {path for path in doubtful if _is_watched(saved, path)}
        doubtful -= watched
        state = {path: entry for path, entry in state.items() if path not in watched}
        state |= {path: now[path] for path in watched if path in now}
    return PutBack(state, tuple(sorted(failed | doubtful)), tuple(sorted(unlike - failed)))


def _has_owner(old: Entry, new: Entry) -> bool:
    return owner_of(old) == owner_of(new)


def _judged(
    saved: Saved, known: Snapshot, now: Snapshot, touched: Iterable[str], written: set[str]
) -> tuple[dict[str, Entry], set[str]]:
    """The known state with what was restored, and the files of which that is not certain."""
    state, doubtful = dict(known), set[str]()
    for path in touched:
        if _is(saved.entries, path, Kind.FILE, Kind.LINK, Kind.OTHER):
            certain = path in written or saved.entries[path].kind is Kind.LINK
            if certain and looks_same(saved.entries[path], now.get(path)):
                state[path] = now[path]
            else:
                doubtful.add(path)
    return state, doubtful


def _is_watched(saved: Saved, path: str) -> bool:
    return path not in saved.blobs and path not in saved.copies


def _is(entries: Snapshot, path: str, *kinds: Kind) -> bool:
    return path in entries and entries[path].kind in kinds


@contextlib.contextmanager
def _kept_going() -> Iterator[None]:
    """One path that the system does not let us touch is found out by the second look."""
    with contextlib.suppress(OSError, Refused):
        yield


@contextlib.contextmanager
def _at(root: Path, path: str) -> Iterator[tuple[str | Path, int | None]]:
    if path == TOP:
        yield root, None
        return
    with folder_of(root, path) as (fd, name):
        yield name, fd


def _remove_new(root: Path, old: Snapshot, found: Snapshot, touched: Iterable[str]) -> None:
    for path in touched:
        if path in found and (path not in old or old[path].kind is not found[path].kind):
            with _kept_going(), folder_of(root, path) as (fd, name):
                remove(name, fd)


def _remove_files(root: Path, old: Snapshot, paths: Iterable[str]) -> None:
    for path in paths:
        if _is(old, path, Kind.FILE):
            with _kept_going(), folder_of(root, path) as (fd, name):
                remove(name, fd)


def _sweep(root: Path, old: Snapshot, folders: Iterable[str]) -> None:
    """Remove what is new in folders that were there, without a list of it in memory."""
    known = {folder: {".git"} if folder == TOP else set[str]() for folder in folders}
    for path in old:
        folder, _, name = path.rpartition("/")
        known.setdefault(folder, set()).add(name)
    for folder in sorted(folders):
        with _kept_going(), _at(root, folder) as (place, above), opened(place, above) as fd:
            for item in listed(fd, known[folder]):
                remove(item.name, fd)


def _make_folders(root: Path, paths: Iterable[str]) -> None:
    for path in paths:
        if path != TOP:
            with _kept_going(), folder_of(root, path) as (fd, name):
                os.mkdir(name, 0o700, dir_fd=fd)


def _make_links(root: Path, old: Snapshot, touched: Iterable[str]) -> None:
    for path in touched:
        if _is(old, path, Kind.LINK):
            with _kept_going(), folder_of(root, path) as (fd, name):
                entry = old[path]
                put_link(name, entry.target, fd, entry.mtime_ns, (entry.uid, entry.gid))


# --- files ------------------------------------------------------------------------------------


def _write_files(
    root: Path, saved: Saved, touched: Iterable[str], repository: Repository
) -> set[str]:
    """Write the old bytes of the files that we have them of; the paths that were written."""
    files = [path for path in touched if _is(saved.entries, path, Kind.FILE)]
    written: set[str] = set()
    for path in files:
        if path in saved.copies:
            with _kept_going(), (saved.folder / saved.copies[path]).open("rb") as source:
                with _rewritten(root, path, saved) as target:
                    copy_all(source.fileno(), target)
                written.add(path)
    for batch in _batches([path for path in files if path in saved.blobs], saved.entries):
        data = read_blobs(repository, [saved.blobs[path] for path in batch])
        for path in batch:
            with _kept_going(), contextlib.suppress(KeyError):
                content = data[saved.blobs[path]]
                with _rewritten(root, path, saved) as target:
                    write_all(target, content)
                written.add(path)
    return written


@contextlib.contextmanager
def _rewritten(root: Path, path: str, saved: Saved) -> Iterator[int]:
    old = saved.entries[path]
    with folder_of(root, path) as (fd, name), replaced(name, fd) as target:
        yield target
        own(target, owner_of(old))
        status = os.fstat(target)
        ours = (status.st_uid, status.st_gid) != owner_of(old)
        os.fchmod(target, old.mode & 0o777 if ours else old.mode)  # no setuid for another owner
        give_lists(target, saved.lists.get(path, {}))
        os.utime(target, ns=(old.mtime_ns, old.mtime_ns))


def _batches(paths: Iterable[str], entries: Snapshot) -> Iterator[list[str]]:
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


def _settle_folders(root: Path, saved: Saved, now: Snapshot) -> tuple[set[str], set[str]]:
    """Give folders their modes and times, the inner ones first; those where it failed, and those
    that are not wholly as before."""
    failed, unlike, old = set[str](), set[str](), saved.entries
    for path in sorted((p for p in old if old[p].kind is Kind.FOLDER), reverse=True):
        if not _is(now, path, Kind.FOLDER):
            failed.add(path)
        elif not _settled(old[path], now[path]):
            try:
                if not settle(root, path, old[path], saved.lists.get(path, {})):
                    unlike.add(path)
            except OSError:
                failed.add(path)
    return failed, unlike


def _settled(old: Entry, now: Entry) -> bool:
    open_to_us = old.mode & stat.S_IRWXU == stat.S_IRWXU
    return open_to_us and same(old, now) and old.mtime_ns == now.mtime_ns


def settle(root: Path, path: str, old: Entry, lists: Lists) -> bool:
    """Give a folder its owner, mode, access lists and times; False where not all of them could be
    given, since it is another user's. Raises OSError where it is no folder."""
    with _at(root, path) as (name, fd), pinned(name, fd) as (link, mode):
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, "no folder", path)
        own(link, owner_of(old))
        with contextlib.suppress(PermissionError):
            os.chmod(link, old.mode)  # noqa: PTH101
            give_lists(link, lists)
            os.utime(link, ns=(old.mtime_ns, old.mtime_ns))
        status = os.stat(link)  # noqa: PTH116
        now = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_mtime_ns)
        return now == (old.mode, *owner_of(old), old.mtime_ns)
