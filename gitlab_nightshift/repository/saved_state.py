"""Saves the checkout before an agent starts, so that it can be restored exactly.

A tracked file with the same bytes as its blob is restored from the object store. Other tracked
files, untracked and ignored ones (``node_modules``, ``.venv``, ``target``) are copied, each kind up
to a limit; beyond it they are only watched for changes.
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

from gitlab_nightshift.repository.acl import Lists, read_lists
from gitlab_nightshift.repository.disk_space import report_full_disk
from gitlab_nightshift.repository.git import Git, read_blob_sizes, split_names, split_rows
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

COPIED_BYTES = 200_000_000
"""Limit for untracked files, and for ignored ones."""
COPIED_FILES = 20_000
"""Limit for untracked files, and for ignored ones."""
COPIED_TRACKED_BYTES = 2_000_000_000
"""Limit for tracked files."""
SHARE_OF_FREE = 4
"""Each kind of files takes at most this fraction (1/n) of the free bytes."""
VERSION = 6
SUBMODULE = b"160000"
ATTRIBUTES = ".gitattributes"
_OTHER = b"? "
"""The flag of a file that is not in the index (git-ls-files(1))."""
_BEFORE_ID = 7
"""The bytes of flag and mode in a packed ``IndexRow``; the raw id follows."""
_PLAIN = b"H100"
"""The start of the row of a regular file, if no flag hides it from ``git status``."""
_CONVERSIONS = ("filter", "ident", "working-tree-encoding")


class IndexRow(NamedTuple):
    """A file of the index. A ``flag`` other than H (git-ls-files(1)) hides it from ``git status``.
    ``blob`` is its object id."""

    flag: str
    mode: str
    blob: str


@dataclass(frozen=True)
class SavedCheckout:
    """The saved checkout. By path: ``tracked`` has what the index has, ``blobs`` the ids of blobs
    with exactly the file's bytes, ``copies`` file names in ``folder``, ``acls`` access control
    lists."""

    entries: TreeSnapshot
    tracked: PackedPaths[IndexRow]
    submodules: frozenset[str]
    blobs: PackedPaths[str]
    copies: Mapping[str, str]
    folder: Path
    acls: Mapping[str, Lists] = field(default_factory=dict)

    @functools.cached_property
    def folders(self) -> frozenset[str]:
        """The paths of the folders, with the top."""
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
    """List its files, by one process."""
    asked = ("-c", "-o", "-s", "-v", "-z", "--exclude-standard")
    packer, untracked, size = PathPacker(), list[str](), _BEFORE_ID + 20
    for row in split_rows(git.run("ls-files", *asked, cwd=checkout)):
        if row.startswith(_OTHER):
            untracked.append(os.fsdecode(row.removeprefix(_OTHER)))
        else:
            meta, _, path = row.partition(b"\t")
            flag, mode, blob, _ = meta.split(b" ")
            packed = b"%s%6s%s" % (flag, mode, unhexlify(blob))
            packer.add(path, packed)
            size = len(packed)
    return ListedCheckout(build_index_rows(packer.finish(), size), tuple(untracked))


def build_index_rows(folders: Mapping[str, PackedFolder], size: int) -> PackedPaths[IndexRow]:
    """Rows of the index by path, packed as flag, mode and raw id, ``size`` bytes together."""
    return PackedPaths(folders, size, lambda _, row: _read_index_row(row))


def _read_index_row(row: bytes) -> IndexRow:
    return IndexRow(row[:1].decode(), row[1:_BEFORE_ID].decode(), row[_BEFORE_ID:].hex())


def build_blob_ids(folders: Mapping[str, PackedFolder], size: int) -> PackedPaths[str]:
    """Object ids by path, packed as ids of ``size`` bytes."""
    return PackedPaths(folders, size, lambda _, row: row.hex())


def save(
    git: Git,
    checkout: Path,
    listed: ListedCheckout,
    folder: Path,
    *,
    may_have_attributes: bool = True,
) -> SavedCheckout:
    """Scan a clean checkout, and copy to ``folder`` (new) the files that git could not restore.

    ``may_have_attributes``: git may know attributes that are in no ``.gitattributes``. Raises
    NightshiftError (``E_CONFIG``) if the disk is full.
    """
    folder.mkdir(mode=0o700)
    entries, index = scan(checkout), listed.index
    may_have_attributes = may_have_attributes or any(
        paths.find_named(ATTRIBUTES) for paths in (entries, index)
    )
    blobs = _find_exact_blobs(
        git, checkout, index, entries, may_have_attributes=may_have_attributes
    )
    wanted = _select_files(entries, index, listed.untracked, blobs, _free(folder))
    with report_full_disk(folder):
        copies = _copy(checkout, wanted, folder)
    _close_folders(checkout, entries)
    return SavedCheckout(
        entries=entries,
        tracked=index,
        submodules=frozenset(
            path for path, row in index.read_rows() if row[1:_BEFORE_ID] == SUBMODULE
        ),
        blobs=blobs,
        copies=copies,
        folder=folder,
        acls=read_lists(checkout, entries),
    )


def save_again(saved: SavedCheckout, checkout: Path, folder: Path) -> SavedCheckout | None:
    """Save a restored checkout once more, to ``folder`` (new). None if the tree differs from
    ``saved``: a ctime shows every change, even of an access list.

    Raises NightshiftError (``E_CONFIG``) if the disk is full.
    """
    tree = compare(checkout, saved.entries)
    if tree.list_changed():
        return None
    folder.mkdir(mode=0o700)
    with report_full_disk(folder):
        copies = _copy(checkout, saved.copies, folder)
    entries = saved.entries.replace(tree.differing)  # only times of folders differ by now
    return replace(saved, entries=entries, copies=copies, folder=folder)


def rescan(checkout: Path, saved: SavedCheckout) -> SavedCheckout:
    """Scan again after all files have changed their owner."""
    entries = scan(checkout)
    return replace(saved, entries=entries, acls=read_lists(checkout, entries))


def _is_file(entries: Snapshot, path: str) -> bool:
    return path in entries and entries[path].kind is EntryKind.FILE


def _find_exact_blobs(
    git: Git,
    checkout: Path,
    index: PackedPaths[IndexRow],
    entries: TreeSnapshot,
    *,
    may_have_attributes: bool,
) -> PackedPaths[str]:
    """The blobs of the paths whose bytes in the checkout are certainly those of their blob.

    The checkout is clean, so only a conversion can make a difference: that of line ends changes the
    size, others need an attribute.
    """
    plain = functools.partial(_list_plain_files, index, entries)
    converted = set[str]()
    if may_have_attributes:
        converted = _find_converted(git, checkout, (path for path, _, _ in plain()))
    sizes = read_blob_sizes(git, checkout, (blob.hex() for _, blob, _ in plain()))
    packer = PathPacker()
    for (path, blob, here), size in zip(plain(), sizes, strict=True):
        if size == here and path not in converted:
            packer.add(os.fsencode(path), blob)
    return build_blob_ids(packer.finish(), index.size - _BEFORE_ID)


def _list_plain_files(
    index: PackedPaths[IndexRow], entries: TreeSnapshot
) -> Iterator[tuple[str, bytes, int]]:
    """The regular files of index and checkout: path, raw id, and size in the checkout."""
    for folder, packed in index.folders.items():
        sizes, start = entries.read_file_sizes(folder), f"{folder}/" if folder else ""
        for name, row in packed.read_rows(index.size).items():
            if name in sizes and row.startswith(_PLAIN):
                yield start + name, row[_BEFORE_ID:], sizes[name]


def _find_converted(git: Git, checkout: Path, paths: Iterable[str]) -> set[str]:
    """Paths with an attribute that may change a file's bytes but not its size."""
    listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
    out = git.run("check-attr", "-z", "--stdin", *_CONVERSIONS, cwd=checkout, stdin=listed)
    parts = split_names(out)
    values = zip(parts[::3], parts[2::3], strict=True)
    return {path for path, value in values if value not in ("unspecified", "unset")}


def _free(folder: Path) -> int:
    """Free bytes on the disk of ``folder``."""
    return shutil.disk_usage(folder).free


def _select_files(
    entries: TreeSnapshot,
    tracked: PackedPaths[IndexRow],
    untracked: Collection[str],
    blobs: PackedPaths[str],
    free: int,
) -> Iterator[str]:
    """The files without a blob to copy: of each kind, the small ones first."""
    share = free // SHARE_OF_FREE
    most = min(COPIED_BYTES, share)
    others = frozenset(untracked)
    ignored = [path for path in entries.list_missing(tracked) if path not in others]
    inexact = [[path] for path in tracked.list_missing(blobs) if _is_file(entries, path)]
    most_tracked = min(COPIED_TRACKED_BYTES, share)
    yield from _select_within_limit(entries, inexact, most_tracked, len(inexact))
    holding = {*tracked.folders, *(path.rpartition("/")[0] for path in others)}
    for paths, beside in ((untracked, tracked.folders), (ignored, holding)):
        yield from _select_within_limit(
            entries, _group_by_folder(entries, paths, beside), most, COPIED_FILES
        )


def _group_by_folder(
    entries: Snapshot, paths: Iterable[str], holding: Collection[str]
) -> Iterable[list[str]]:
    """Group files by the topmost folder above them that contains no other files, at any depth.
    ``holding`` are the folders with other files."""
    shown = {*holding, *(folder for path in holding for folder in list_parents(path))}
    groups: dict[str, list[str]] = {}
    for path in paths:
        if _is_file(entries, path):
            top = next((folder for folder in list_parents(path) if folder not in shown), path)
            groups.setdefault(top, []).append(path)
    return groups.values()


def _select_within_limit(
    entries: Snapshot, groups: Iterable[list[str]], most_bytes: int, most_files: int
) -> Iterator[str]:
    """Groups of files, the small ones first, until one exceeds a limit."""
    sized = sorted((sum(entries[p].size for p in group), sorted(group)) for group in groups)
    size = count = 0
    for group_size, group in sized:
        size, count = size + group_size, count + len(group)
        if size > most_bytes or count > most_files:
            return
        yield from group


def _copy(checkout: Path, paths: Iterable[str], folder: Path) -> dict[str, str]:
    """Copy files into ``folder``; an unreadable one is skipped, and so only watched."""
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


def _close_folders(checkout: Path, entries: TreeSnapshot) -> None:
    """Restore the modes of folders that had to be opened for copying, the inner ones first."""
    rights = stat.S_IRWXU
    folders = (path for path, mode in entries.read_modes() if path and stat.S_ISDIR(mode))
    for path in sorted(folders, reverse=True):
        if entries[path].mode & rights != rights:
            with contextlib.suppress(PermissionError), open_parent(checkout, path) as (fd, name):
                set_mode(name, fd, entries[path].mode)


# --- on disk, for the start after a kill ------------------------------------------------------


def write_saved(path: Path, saved: SavedCheckout) -> None:
    """Write all except the copies themselves: a line of JSON, then one for each folder of entries,
    of tracked paths and of blobs, so that neither side ever has the whole text in memory."""
    parts = (saved.entries, saved.tracked, saved.blobs)
    head = {
        "version": VERSION,
        "folders": [len(part.folders) for part in parts],
        "sizes": [part.size for part in parts],
        "targets": dict(saved.entries.targets),
        "submodules": sorted(saved.submodules),
        "copies": dict(saved.copies),
        "lists": {
            path: {name: value.hex() for name, value in lists.items()}
            for path, lists in saved.acls.items()
        },
    }
    with path.open("w") as file:
        file.write(json.dumps(head) + "\n")
        for folder, (names, rows) in itertools.chain(*(part.folders.items() for part in parts)):
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
        tracked=build_index_rows(tracked, index_size),
        submodules=frozenset(map(str, head["submodules"])),
        blobs=build_blob_ids(blobs, id_size),
        copies={name: str(int(number)) for name, number in head["copies"].items()},
        folder=folder,
        acls={
            str(path): {str(name): bytes.fromhex(value) for name, value in found.items()}
            for path, found in head["lists"].items()
        },
    )
    parts = (saved.entries, saved.tracked, saved.blobs)
    if not all(_is_whole(each, part.size) for part in parts for each in part.folders.values()):
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


def _is_whole(packed: PackedFolder, size: int) -> bool:
    return len(packed.rows) == size * len(packed.read_names())


def _is_inside(folder: str, packed: PackedFolder) -> bool:
    """True if no path of the folder leads out of the checkout, or into its ``.git``."""
    names, parts = frozenset(packed.read_names()), folder.split("/")
    if folder == TOP:  # its own name is empty
        return names.isdisjoint((".", "..", ".git"))
    return parts[0] != ".git" and {"", ".", ".."}.isdisjoint(names.union(parts))
