"""The change that an agent made, read from the tree and written as git objects in private.

Files are read without following a link and put into a private work tree together with the rules
that hold after the change, so the result is what ``git add -A`` would have made of an honest
checkout. Links are refused: whoever reads or writes through one is somewhere else.
"""

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.records.products import ChangeSummary
from gitlab_nightshift.repository.blobs import compute_blob_id
from gitlab_nightshift.repository.disk_space import is_full_disk
from gitlab_nightshift.repository.git import GitError
from gitlab_nightshift.repository.private_repository import (
    DiffFile,
    Repository,
    build_diff_patch,
    list_diff_files,
)
from gitlab_nightshift.repository.saved_state import SavedCheckout
from gitlab_nightshift.repository.staging import (
    MAX_PATH_BYTES,
    StagingTree,
    find_filtered,
    find_ignored,
    open_staging_tree,
    store,
    write_file,
    write_rules,
)
from gitlab_nightshift.repository.tree_snapshot import (
    EntryKind,
    Snapshot,
    TooManyEntriesError,
    TreeEntry,
    find_differing_paths,
    scan,
)
from gitlab_nightshift.system.file_names import format_path, is_dot_git, list_parents, within
from gitlab_nightshift.system.openat import (
    RefusedFileError,
    open_parent,
    open_regular,
    read_chunks,
    read_regular,
)

MAX_FILE_BYTES = 5_000_000
MAX_CHANGE_BYTES = 20_000_000
MAX_NEW_ENTRIES = 500_000


@dataclass(frozen=True)
class ChangeRefusal:
    """A path that cannot be part of a change, and why. ``path`` is raw, or "" for the whole."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{format_path(self.path)}: {self.reason}" if self.path else self.reason


@dataclass(frozen=True)
class CapturedChange:
    """What an agent changed. With refusals there is no tree, no files and no patch.

    Paths in ``files`` are raw; ``patch`` is binary-safe with full object ids.
    """

    tree_id: str
    files: tuple[DiffFile, ...]
    patch: bytes
    refusals: tuple[ChangeRefusal, ...] = ()

    @property
    def empty(self) -> bool:
        """True where nothing was changed and nothing refused."""
        return not self.files and not self.refusals

    def build_summary(self) -> ChangeSummary:
        """The public record: display names and totals."""
        return summarize_change(self.tree_id, self.files)


def summarize_change(tree_id: str, files: Collection[DiffFile]) -> ChangeSummary:
    """The record of a change to a tree."""
    return ChangeSummary(
        tree_id=tree_id,
        files=tuple(format_path(file.path) for file in files),
        added=sum(file.added for file in files),
        deleted=sum(file.deleted for file in files),
    )


def capture_change(
    root: Path,
    saved: SavedCheckout,
    known: Snapshot,
    repository: Repository,
    base: str,
    output_dir: str,
) -> CapturedChange:
    """Read what differs from ``known``, a state that is as saved, as a tree on top of ``base``.

    Files that were there before, untracked or ignored, are not part of it, nor is ``output_dir``.
    Call it only after every process of the agent is gone.
    """
    try:
        now = scan(root, limit=len(saved.entries) + MAX_NEW_ENTRIES)
        touched = [
            path for path in _list_touched(saved, known, now) if not within(path, output_dir)
        ]
        with open_staging_tree(repository, base) as stage:
            write_rules(stage, root, now)
            asked = (p for p in touched if p not in saved.tracked and not _is_too_long(p))
            left_out = find_ignored(stage, asked)
            chosen = [path for path in touched if path not in left_out]
            return _capture_paths(stage, base, _Reading(root, saved, now), chosen)
    except TooManyEntriesError:
        return _build_refused_change(
            [ChangeRefusal("", f"more than {MAX_NEW_ENTRIES} new files and folders")]
        )
    except GitError as error:
        why = "the disk was full" if is_full_disk(error) else str(error)
        return _build_refused_change([ChangeRefusal("", f"the change cannot be stored: {why}")])


def _build_refused_change(refusals: Iterable[ChangeRefusal]) -> CapturedChange:
    return CapturedChange("", (), b"", tuple(refusals))


@dataclass(frozen=True)
class _Reading:
    root: Path
    saved: SavedCheckout
    now: Snapshot

    def find_old(self, path: str) -> TreeEntry | None:
        return self.saved.entries.get(path) if path in self.saved.tracked else None

    def find_new(self, path: str) -> TreeEntry | None:
        entry = self.now.get(path)
        return None if entry is None or entry.kind is EntryKind.FOLDER else entry


def _capture_paths(
    stage: StagingTree, base: str, reading: _Reading, chosen: list[str]
) -> CapturedChange:
    changed = [path for path in chosen if not _only_touched(reading, path)]
    present = [path for path in changed if reading.find_new(path)]
    refusals = list(_find_refusals(reading, changed)) or list(_stage_files(stage, reading, present))
    if refusals:
        return _build_refused_change(refusals)
    tree = store(stage, [path for path in changed if not reading.find_new(path)], present)
    files = list_diff_files(stage.repository, base, tree)
    return CapturedChange(tree, files, build_diff_patch(stage.repository, base, tree))


# --- what may be part of a change -----------------------------------------------------------------


def _list_touched(saved: SavedCheckout, known: Snapshot, now: Snapshot) -> Iterator[str]:
    """Tracked paths that differ, new ones, and all that differ within a submodule."""
    nested = {path[: -len("/.git")] for path in saved.entries if path.endswith("/.git")}
    for path in find_differing_paths(known, now):
        folder = path in now and now[path].kind is EntryKind.FOLDER
        if path in saved.submodules:
            wanted = not folder
        elif path in saved.tracked or _inside(path, saved.submodules):
            wanted = not folder or path in saved.tracked
        else:
            old = saved.entries.get(path)
            new = old is None or old.kind is EntryKind.FOLDER
            wanted = new and path in now and not folder and not _inside(path, nested)
        if wanted:
            yield path


def _inside(path: str, folders: Iterable[str]) -> bool:
    return any(folder in folders for folder in list_parents(path))


def _only_touched(reading: _Reading, path: str) -> bool:
    """True where a tracked file was rewritten with the very bytes it had, or a link with its
    target."""
    old, new = reading.find_old(path), reading.find_new(path)
    if old is None or new is None or old.kind is not new.kind:
        return False
    if old.kind is EntryKind.LINK:
        return old.target == new.target
    if old.kind is not EntryKind.FILE:
        return False
    if old.size != new.size or (old.mode ^ new.mode) & stat.S_IXUSR:
        return False
    return _find_new_id(reading, path, new.size) == _find_old_id(reading.saved, path, new.size)


def _find_old_id(saved: SavedCheckout, path: str, size: int) -> str:
    if path in saved.blobs:
        return saved.blobs[path]
    if path not in saved.copies:
        return ""
    with (saved.folder / saved.copies[path]).open("rb") as file:
        return compute_blob_id(read_chunks(file.fileno()), size, 40)


def _find_new_id(reading: _Reading, path: str, size: int) -> str:
    length = len(reading.saved.blobs.get(path, "")) or 40
    try:
        with open_parent(reading.root, path) as (fd, name), open_regular(name, fd) as file:
            return compute_blob_id(read_chunks(file), size, length)
    except (OSError, RefusedFileError):
        return "unreadable"


def _find_refusals(reading: _Reading, paths: Iterable[str]) -> Iterator[ChangeRefusal]:
    total = 0
    for path in paths:
        old, new = reading.find_old(path), reading.find_new(path)
        if reason := _find_refusal_reason(reading.saved, path, old, new):
            yield ChangeRefusal(path, reason)
        total += _read_size(old) + _read_size(new)
    if total > MAX_CHANGE_BYTES:
        yield ChangeRefusal("", f"the change is larger than {MAX_CHANGE_BYTES} bytes")


def _find_refusal_reason(
    saved: SavedCheckout, path: str, old: TreeEntry | None, new: TreeEntry | None
) -> str:
    reasons = {
        "it belongs to a submodule": path in saved.submodules or _inside(path, saved.submodules),
        "its path is too long": new and _is_too_long(path),
        "git keeps such names for itself": new and is_dot_git(path),
        "it is a symbolic link": new and new.kind is EntryKind.LINK,
        "it is no file or folder": new and new.kind is EntryKind.OTHER,
        f"it is larger than {MAX_FILE_BYTES} bytes": max(_read_size(old), _read_size(new))
        > MAX_FILE_BYTES,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _is_too_long(path: str) -> bool:
    return len(os.fsencode(path)) > MAX_PATH_BYTES


def _read_size(entry: TreeEntry | None) -> int:
    return entry.size if entry else 0


def _stage_files(
    stage: StagingTree, reading: _Reading, paths: list[str]
) -> Iterator[ChangeRefusal]:
    """Read the files into the stage; those that cannot be stored are refused."""
    for path, name in find_filtered(stage, paths).items():
        # the pointer alone would be a broken file: its object is in no LFS store
        lfs = "Git LFS keeps its content, which is not uploaded from here"
        yield ChangeRefusal(
            path, lfs if name == "lfs" else f"it needs the filter {format_path(name)}"
        )
    for path in paths:
        try:
            data = read_regular(reading.root, path, MAX_FILE_BYTES)
        except RefusedFileError as refused:
            yield ChangeRefusal(path, str(refused))
        else:
            executable = bool(reading.now[path].mode & stat.S_IXUSR)
            write_file(stage, path, data, executable=executable)
