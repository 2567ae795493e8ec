"""Saves the checkout before an agent starts, so that it can be restored exactly.

A tracked file with the bytes of its blob is restored from git's objects. Other tracked files, and
untracked and ignored ones (``node_modules``, ``.venv``, ``target``), are copied, each kind up to a
limit; beyond it they are only watched for changes.
"""

import contextlib
import functools
import itertools
import json
import os
import shutil
import stat
from base64 import b64decode, b64encode
from binascii import unhexlify
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

from gitlab_nightshift.repository.acl import Acls, read_acls
from gitlab_nightshift.repository.disk_space import report_full_disk
from gitlab_nightshift.repository.git import Git, read_blob_sizes, split_rows
from gitlab_nightshift.repository.git_formats import SUBMODULE, join_names, parse_attributes
from gitlab_nightshift.repository.packed_paths import PackedFolder, PackedPaths, PathPacker
from gitlab_nightshift.repository.tree_snapshot import (
    TOP,
    EntryKind,
    Snapshot,
    TreeSnapshot,
    compare,
    scan,
)
from gitlab_nightshift.system.file_names import list_parents
from gitlab_nightshift.system.openat import (
    RefusedFileError,
    copy_all,
    open_parent,
    open_regular,
    set_mode,
)

COPIED_BYTES, COPIED_FILES = 200_000_000, 20_000
"""Limits for untracked files, and for ignored ones."""
COPIED_TRACKED_BYTES = 2_000_000_000
"""Limit for tracked files."""
FREE_SPACE_DIVISOR = 4
"""Each kind of files takes at most the free bytes divided by this."""
VERSION = 6
ATTRIBUTES = ".gitattributes"
_UNTRACKED = b"? "
"""The flag of a file that is not in the index (git-ls-files(1))."""
_ID_OFFSET = 7
"""The bytes of flag and mode in a packed ``IndexRow``; the raw id follows."""
_VISIBLE_FILE = b"H100"
"""The packed flag and type of a regular file that no flag hides from ``git status``."""
_CONVERSIONS = ("filter", "ident", "working-tree-encoding")


class IndexRow(NamedTuple):
    """A file of the index. A ``flag`` other than H (git-ls-files(1)) hides it from git status."""

    flag: str
    mode: str
    blob: str


@dataclass(frozen=True)
class SavedCheckout:
    """A saved checkout. By path: ``entries`` has its files and folders, ``tracked`` the index,
    ``blobs`` the ids of blobs with exactly the file's bytes, ``copies`` file names in ``folder``,
    ``acls`` access control lists."""

    entries: TreeSnapshot
    tracked: PackedPaths[IndexRow]
    submodules: frozenset[str]
    blobs: PackedPaths[str]
    copies: Mapping[str, str]
    folder: Path
    acls: Mapping[str, Acls] = field(default_factory=dict)

    @functools.cached_property
    def folders(self) -> frozenset[str]:
        """The paths of the folders, including the top."""
        return frozenset(path for path, mode in self.entries.read_modes() if stat.S_ISDIR(mode))

    @functools.cached_property
    def attribute_files(self) -> tuple[str, ...]:
        """The tracked attribute files."""
        return tuple(path for path in self.tracked if path.endswith(ATTRIBUTES))


@dataclass(frozen=True)
class ListedCheckout:
    """What git lists of a checkout; ``untracked`` without ignored files."""

    index: PackedPaths[IndexRow]
    untracked: tuple[str, ...]


def list_checkout(git: Git, checkout: Path) -> ListedCheckout:
    """List the files of a checkout, by one process."""
    options = ("-c", "-o", "-s", "-v", "-z", "--exclude-standard")
    packer, untracked, size = PathPacker(), list[str](), _ID_OFFSET + 20
    for row in split_rows(git.run("ls-files", *options, cwd=checkout)):
        if row.startswith(_UNTRACKED):
            untracked.append(os.fsdecode(row.removeprefix(_UNTRACKED)))
        else:
            meta, _, path = row.partition(b"\t")
            flag, mode, blob, _ = meta.split(b" ")
            packed = b"%s%6s%s" % (flag, mode, unhexlify(blob))
            packer.add(path, packed)
            size = len(packed)
    return ListedCheckout(unpack_index(packer.finish(), size), tuple(untracked))


def unpack_index(folders: Mapping[str, PackedFolder], size: int) -> PackedPaths[IndexRow]:
    """The rows of an index by path, packed as flag, mode and raw id, in all ``size`` bytes."""
    return PackedPaths(folders, size, lambda _, row: _unpack_index_row(row))


def _unpack_index_row(row: bytes) -> IndexRow:
    return IndexRow(row[:1].decode(), row[1:_ID_OFFSET].decode(), row[_ID_OFFSET:].hex())


def unpack_blob_ids(folders: Mapping[str, PackedFolder], size: int) -> PackedPaths[str]:
    """Object ids by path, packed as raw ids of ``size`` bytes."""
    return PackedPaths(folders, size, lambda _, row: row.hex())


def save_checkout(
    git: Git,
    checkout: Path,
    listed: ListedCheckout,
    folder: Path,
    *,
    attributes_outside_tree: bool = True,
) -> SavedCheckout:
    """Scan a clean checkout, and copy to ``folder`` (new) the files that git could not restore.

    ``attributes_outside_tree``: git may know attributes that are in no ``.gitattributes``. Raises
    NightshiftError (``E_CONFIG``) if the disk is full.
    """
    folder.mkdir(mode=0o700)
    entries, index = scan(checkout), listed.index
    has_attributes = attributes_outside_tree or any(
        paths.find_named(ATTRIBUTES) for paths in (entries, index)
    )
    blobs = _find_exact_blobs(git, checkout, index, entries, has_attributes=has_attributes)
    free_bytes = shutil.disk_usage(folder).free
    selected = _select_files(entries, index, listed.untracked, blobs, free_bytes)
    with report_full_disk(folder):
        copies = _copy_files(checkout, selected, folder)
    restore_folder_modes(checkout, entries)
    submodule = SUBMODULE.encode()
    return SavedCheckout(
        entries=entries,
        tracked=index,
        submodules=frozenset(
            path for path, row in index.read_rows() if row[1:_ID_OFFSET] == submodule
        ),
        blobs=blobs,
        copies=copies,
        folder=folder,
        acls=read_acls(checkout, entries),
    )


def save_restored(saved: SavedCheckout, checkout: Path, folder: Path) -> SavedCheckout | None:
    """Save a restored checkout again, to ``folder`` (new). None if the tree differs from ``saved``:
    a ctime shows every change, even of an access list.

    Raises NightshiftError (``E_CONFIG``) if the disk is full.
    """
    tree = compare(checkout, saved.entries)
    if tree.list_changed():
        return None
    folder.mkdir(mode=0o700)
    with report_full_disk(folder):
        copies = _copy_files(checkout, saved.copies, folder)
    entries = saved.entries.replace(tree.differing)  # only times of folders differ
    return replace(saved, entries=entries, copies=copies, folder=folder)


def rescan_checkout(checkout: Path, saved: SavedCheckout) -> SavedCheckout:
    """Scan a checkout again, after a change of all owners."""
    entries = scan(checkout)
    return replace(saved, entries=entries, acls=read_acls(checkout, entries))


def _is_file(entries: Snapshot, path: str) -> bool:
    return path in entries and entries[path].kind is EntryKind.FILE


def _find_exact_blobs(
    git: Git,
    checkout: Path,
    index: PackedPaths[IndexRow],
    entries: TreeSnapshot,
    *,
    has_attributes: bool,
) -> PackedPaths[str]:
    """The blobs of the paths whose bytes in the checkout are certainly those of their blob.

    The checkout is clean, so only a conversion can make a difference: that of line ends changes the
    size, others need an attribute.
    """
    # Called three times: a list of half a million files would take too much memory.
    list_files = functools.partial(_list_plain_files, index, entries)
    converted = set[str]()
    if has_attributes:
        converted = _find_converted(git, checkout, (path for path, _, _ in list_files()))
    blob_sizes = read_blob_sizes(git, checkout, (blob.hex() for _, blob, _ in list_files()))
    packer = PathPacker()
    for (path, blob, size), blob_size in zip(list_files(), blob_sizes, strict=True):
        if size == blob_size and path not in converted:
            packer.add(os.fsencode(path), blob)
    return unpack_blob_ids(packer.finish(), index.size - _ID_OFFSET)


def _list_plain_files(
    index: PackedPaths[IndexRow], entries: TreeSnapshot
) -> Iterator[tuple[str, bytes, int]]:
    """The regular files of index and checkout: path, raw id, and size in the checkout."""
    for folder, packed in index.folders.items():
        sizes, prefix = entries.read_file_sizes(folder), f"{folder}/" if folder else ""
        for name, row in packed.read_rows(index.size).items():
            if name in sizes and row.startswith(_VISIBLE_FILE):
                yield prefix + name, row[_ID_OFFSET:], sizes[name]


def _find_converted(git: Git, checkout: Path, paths: Iterable[str]) -> set[str]:
    """Paths with an attribute that may change a file's bytes but not its size."""
    options = ("-z", "--stdin", *_CONVERSIONS)
    out = git.run("check-attr", *options, cwd=checkout, stdin=join_names(paths))
    return set(parse_attributes(out))


def _select_files(
    entries: TreeSnapshot,
    tracked: PackedPaths[IndexRow],
    untracked: Collection[str],
    blobs: PackedPaths[str],
    free_bytes: int,
) -> Iterator[str]:
    """The files to copy, as they have no blob: of each kind, the small ones first."""
    share = free_bytes // FREE_SPACE_DIVISOR
    inexact = [[path] for path in tracked.list_missing(blobs) if _is_file(entries, path)]
    most_tracked = min(COPIED_TRACKED_BYTES, share)
    yield from _select_within_limit(entries, inexact, most_tracked, len(inexact))
    not_ignored = frozenset(untracked)
    ignored = [path for path in entries.list_missing(tracked) if path not in not_ignored]
    folders_of_others = {*tracked.folders, *(path.rpartition("/")[0] for path in untracked)}
    for paths, folders in ((untracked, tracked.folders), (ignored, folders_of_others)):
        groups = _group_by_folder(entries, paths, folders)
        yield from _select_within_limit(entries, groups, min(COPIED_BYTES, share), COPIED_FILES)


def _group_by_folder(
    entries: Snapshot, paths: Iterable[str], folders_of_others: Collection[str]
) -> Iterable[list[str]]:
    """Group files by the topmost folder above them that contains no other files, at any depth.
    ``folders_of_others`` are those in which other files are."""
    parents = (folder for path in folders_of_others for folder in list_parents(path))
    mixed = {*folders_of_others, *parents}
    groups: dict[str, list[str]] = {}
    for path in paths:
        if _is_file(entries, path):
            top = next((folder for folder in list_parents(path) if folder not in mixed), path)
            groups.setdefault(top, []).append(path)
    return groups.values()


def _select_within_limit(
    entries: Snapshot, groups: Iterable[list[str]], most_bytes: int, most_files: int
) -> Iterator[str]:
    """Groups of files, the small ones first, until one exceeds a limit."""
    by_size = sorted((sum(entries[p].size for p in group), sorted(group)) for group in groups)
    size = count = 0
    for group_size, group in by_size:
        size += group_size
        count += len(group)
        if size > most_bytes or count > most_files:
            return
        yield from group


def _copy_files(checkout: Path, paths: Iterable[str], folder: Path) -> dict[str, str]:
    """Copy files into ``folder``, except for unreadable ones; returns the names of the copies."""
    copies: dict[str, str] = {}
    for number, path in enumerate(paths):
        with contextlib.suppress(PermissionError, RefusedFileError):
            # A number as name: the path may be too long or contain any byte.
            copy_file(checkout, path, folder / str(number))
            copies[path] = str(number)
    return copies


def copy_file(checkout: Path, path: str, copy: Path) -> None:
    """Copy a regular file, even if its mode forbids reading. Raises OSError, RefusedFileError."""
    with (
        open_parent(checkout, path) as (fd, name),
        open_regular(name, fd) as source,
        copy.open("xb", buffering=0) as target,
    ):
        copy_all(source, target.fileno())


def open_copy(saved: SavedCheckout, path: str) -> BufferedReader:
    """Open the copy of a file; work may have changed its mode. Raises OSError."""
    copy = saved.folder / saved.copies[path]
    try:
        return copy.open("rb")
    except PermissionError:
        copy.chmod(0o600)
        return copy.open("rb")


def restore_folder_modes(checkout: Path, entries: TreeSnapshot) -> None:
    """Restore the modes of folders that were opened for copying, the inner ones first."""
    folders = (path for path, mode in entries.read_modes() if path and stat.S_ISDIR(mode))
    for path in sorted(folders, reverse=True):
        if entries[path].mode & stat.S_IRWXU != stat.S_IRWXU:
            # Another user's folder was never changed; one of the output folder may be gone by now.
            with (
                contextlib.suppress(PermissionError, FileNotFoundError),
                open_parent(checkout, path) as (fd, name),
            ):
                set_mode(name, fd, entries[path].mode)


# --- on disk, for the start after a kill ------------------------------------------------------


def write_saved(path: Path, saved: SavedCheckout) -> None:
    """Write all except the copies themselves: a line of JSON, then one for each folder of entries,
    of tracked paths and of blobs, so that writer and reader never have the whole text in memory."""
    mappings = (saved.entries, saved.tracked, saved.blobs)
    head = {
        "version": VERSION,
        "folders": [len(mapping.folders) for mapping in mappings],
        "sizes": [mapping.size for mapping in mappings],
        "targets": dict(saved.entries.targets),
        "submodules": sorted(saved.submodules),
        "copies": dict(saved.copies),
        "lists": {
            path: {name: value.hex() for name, value in acls.items()}
            for path, acls in saved.acls.items()
        },
    }
    with path.open("w") as file:
        file.write(json.dumps(head) + "\n")
        for mapping in mappings:
            for folder, (names, rows) in mapping.folders.items():
                line = [folder, os.fsdecode(names), b64encode(rows).decode()]
                file.write(json.dumps(line) + "\n")


def read_saved(path: Path, folder: Path) -> SavedCheckout:
    """Read what ``write_saved`` wrote. Raises OSError, ValueError."""
    with path.open() as file:
        head: Any = json.loads(file.readline())
        if not isinstance(head, dict) or head.get("version") != VERSION:
            raise ValueError("written by another version")
        try:
            return _read_lines(head, file, folder)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ValueError(f"damaged: {error}") from None


def _read_lines(head: Mapping[str, Any], lines: Iterable[str], folder: Path) -> SavedCheckout:
    counts, (_, index_size, id_size) = head["folders"], head["sizes"]
    packed = (_read_line(line) for line in lines)
    entries, tracked, blobs = (dict(itertools.islice(packed, count)) for count in counts)
    if [len(entries), len(tracked), len(blobs)] != counts:
        raise ValueError("damaged: it is not complete")
    targets = {str(path): str(text) for path, text in head["targets"].items()}
    saved = SavedCheckout(
        entries=TreeSnapshot(entries, targets),
        tracked=unpack_index(tracked, index_size),
        submodules=frozenset(map(str, head["submodules"])),
        blobs=unpack_blob_ids(blobs, id_size),
        copies={name: str(int(number)) for name, number in head["copies"].items()},
        folder=folder,
        acls={
            str(path): {str(name): bytes.fromhex(value) for name, value in acls.items()}
            for path, acls in head["lists"].items()
        },
    )
    for mapping in (saved.entries, saved.tracked, saved.blobs):
        if not all(_has_complete_rows(p, mapping.size) for p in mapping.folders.values()):
            raise ValueError("damaged: names without a row")
    if not all(_is_inside(*item) for item in entries.items()):
        raise ValueError("damaged: a path leads out of the checkout")
    return saved


def _read_line(line: str) -> tuple[str, PackedFolder]:
    parts = json.loads(line)
    if not isinstance(parts, list) or len(parts) != 3:
        raise ValueError("damaged: a line is no folder")
    folder, names, rows = parts
    return folder, PackedFolder(os.fsencode(names), b64decode(rows, validate=True))


def _has_complete_rows(packed: PackedFolder, size: int) -> bool:
    return len(packed.rows) == size * len(packed.read_names())


def _is_inside(folder: str, packed: PackedFolder) -> bool:
    """True if no path of the folder leads out of the checkout, or into its ``.git``."""
    names, parts = frozenset(packed.read_names()), folder.split("/")
    if folder == TOP:  # its own name is empty
        return names.isdisjoint((".", "..", ".git"))
    return parts[0] != ".git" and {"", ".", ".."}.isdisjoint(names.union(parts))
