"""The change that an agent made, read from the tree and written as git objects in private.

Files are read without following a link and put into a private work tree together with the rules
that hold after the change, so the result is what ``git add -A`` would have made of an honest
checkout. Links are refused: whoever writes or reads along one is somewhere else.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift import records
from gitlab_nightshift.host.git import GitError
from gitlab_nightshift.host.openat import (
    Refused,
    folder_of,
    open_regular,
    parts_of,
    read_regular,
)
from gitlab_nightshift.host.paths import display, is_dot_git, parents, within
from gitlab_nightshift.host.repository import (
    ChangedFile,
    Repository,
    blob_id,
    diff_files,
    diff_patch,
)
from gitlab_nightshift.host.saved import Saved
from gitlab_nightshift.host.space import is_full_disk
from gitlab_nightshift.host.staging import (
    MAX_PATH_BYTES,
    Stage,
    filtered,
    ignored,
    open_stage,
    store,
    write_file,
    write_rules,
)
from gitlab_nightshift.host.tree import (
    Entry,
    Kind,
    Snapshot,
    TooManyError,
    differing,
    scan,
)

MAX_FILE_BYTES = 5_000_000
MAX_CHANGE_BYTES = 20_000_000
MAX_NEW_ENTRIES = 500_000


@dataclass(frozen=True)
class Refusal:
    """A path that cannot be part of a change, and why. ``path`` is raw, or "" for the whole."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{display(self.path)}: {self.reason}" if self.path else self.reason


@dataclass(frozen=True)
class Captured:
    """What an agent changed. With refusals there is no tree, no files and no patch.

    Paths in ``files`` are raw; ``patch`` is binary-safe with full object ids.
    """

    tree_id: str
    files: tuple[ChangedFile, ...]
    patch: bytes
    refusals: tuple[Refusal, ...] = ()

    @property
    def empty(self) -> bool:
        """True where nothing was changed and nothing refused."""
        return not self.files and not self.refusals

    def summary(self) -> records.Change:
        """The public record: display names and totals."""
        return records.Change(
            tree_id=self.tree_id,
            files=tuple(display(file.path) for file in self.files),
            added=sum(file.added for file in self.files),
            deleted=sum(file.deleted for file in self.files),
        )


def capture_change(
    root: Path,
    saved: Saved,
    known: Snapshot,
    repository: Repository,
    base: str,
    output_dir: str,
) -> Captured:
    """Read what differs from ``known``, a state that is as saved, as a tree on top of ``base``.

    Files that were there before untracked or ignored are no part of it, nor is ``output_dir``.
    Only after every process of the agent is gone.
    """
    try:
        now = scan(root, limit=len(saved.entries) + MAX_NEW_ENTRIES)
        touched = [path for path in _touched(saved, known, now) if not within(path, output_dir)]
        with open_stage(repository, base) as stage:
            write_rules(stage, root, now)
            asked = (p for p in touched if p not in saved.tracked and not _is_too_long(p))
            left_out = ignored(stage, asked)
            chosen = [path for path in touched if path not in left_out]
            return _captured(stage, base, _Reading(root, saved, now), chosen)
    except TooManyError:
        return _refused([Refusal("", f"more than {MAX_NEW_ENTRIES} new files and folders")])
    except GitError as error:
        why = "the disk was full" if is_full_disk(error) else str(error)
        return _refused([Refusal("", f"the change cannot be stored: {why}")])


def _refused(refusals: Iterable[Refusal]) -> Captured:
    return Captured("", (), b"", tuple(refusals))


@dataclass(frozen=True)
class _Reading:
    root: Path
    saved: Saved
    now: Snapshot

    def old(self, path: str) -> Entry | None:
        return self.saved.entries.get(path) if path in self.saved.tracked else None

    def new(self, path: str) -> Entry | None:
        entry = self.now.get(path)
        return None if entry is None or entry.kind is Kind.FOLDER else entry


def _captured(stage: Stage, base: str, reading: _Reading, chosen: list[str]) -> Captured:
    changed = [path for path in chosen if not _only_touched(reading, path)]
    present = [path for path in changed if reading.new(path)]
    refusals = list(_refusals(reading, changed)) or list(_stage_files(stage, reading, present))
    if refusals:
        return _refused(refusals)
    tree = store(stage, [path for path in changed if not reading.new(path)], present)
    files = diff_files(stage.repository, base, tree)
    return Captured(tree, files, diff_patch(stage.repository, base, tree))


# --- what may be part of a change -----------------------------------------------------------------


def _touched(saved: Saved, known: Snapshot, now: Snapshot) -> Iterator[str]:
    """Tracked paths that differ, new ones, and all that differ within a submodule."""
    nested = {path[: -len("/.git")] for path in saved.entries if path.endswith("/.git")}
    for path in differing(known, now):
        folder = path in now and now[path].kind is Kind.FOLDER
        if path in saved.submodules:
            wanted = not folder
        elif path in saved.tracked or _inside(path, saved.submodules):
            wanted = not folder or path in saved.tracked
        else:
            old = saved.entries.get(path)
            new = old is None or old.kind is Kind.FOLDER
            wanted = new and path in now and not folder and not _inside(path, nested)
        if wanted:
            yield path


def _inside(path: str, folders: Iterable[str]) -> bool:
    return any(folder in folders for folder in parents(path))


def _only_touched(reading: _Reading, path: str) -> bool:
    """True where a tracked file was rewritten with the very bytes it had, or a link with its
    target."""
    old, new = reading.old(path), reading.new(path)
    if old is None or new is None or old.kind is not new.kind:
        return False
    if old.kind is Kind.LINK:
        return old.target == new.target
    if old.kind is not Kind.FILE:
        return False
    if old.size != new.size or (old.mode ^ new.mode) & stat.S_IXUSR:
        return False
    return _id_now(reading, path, new.size) == _id_before(reading.saved, path, new.size)


def _id_before(saved: Saved, path: str, size: int) -> str:
    if path in saved.blobs:
        return saved.blobs[path]
    if path not in saved.copies:
        return ""
    with (saved.folder / saved.copies[path]).open("rb") as file:
        return blob_id(parts_of(file.fileno()), size, 40)


def _id_now(reading: _Reading, path: str, size: int) -> str:
    length = len(reading.saved.blobs.get(path, "")) or 40
    try:
        with folder_of(reading.root, path) as (fd, name), open_regular(name, fd) as file:
            return blob_id(parts_of(file), size, length)
    except (OSError, Refused):
        return "unreadable"


def _refusals(reading: _Reading, paths: Iterable[str]) -> Iterator[Refusal]:
    total = 0
    for path in paths:
        old, new = reading.old(path), reading.new(path)
        if reason := _why_not(reading.saved, path, old, new):
            yield Refusal(path, reason)
        total += _size(old) + _size(new)
    if total > MAX_CHANGE_BYTES:
        yield Refusal("", f"the change is larger than {MAX_CHANGE_BYTES} bytes")


def _why_not(saved: Saved, path: str, old: Entry | None, new: Entry | None) -> str:
    reasons = {
        "it belongs to a submodule": path in saved.submodules or _inside(path, saved.submodules),
        "its path is too long": new and _is_too_long(path),
        "git keeps such names for itself": new and is_dot_git(path),
        "it is a symbolic link": new and new.kind is Kind.LINK,
        "it is no file or folder": new and new.kind is Kind.OTHER,
        f"it is larger than {MAX_FILE_BYTES} bytes": max(_size(old), _size(new)) > MAX_FILE_BYTES,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _is_too_long(path: str) -> bool:
    return len(os.fsencode(path)) > MAX_PATH_BYTES


def _size(entry: Entry | None) -> int:
    return entry.size if entry else 0


def _stage_files(stage: Stage, reading: _Reading, paths: list[str]) -> Iterator[Refusal]:
    """Read the files into the stage; those that cannot be stored are refused."""
    for path, name in filtered(stage, paths).items():
        # the pointer alone would be a broken file: its object is in no LFS store
        lfs = "Git LFS keeps its content, which is not uploaded from here"
        yield Refusal(path, lfs if name == "lfs" else f"it needs the filter {display(name)}")
    for path in paths:
        try:
            data = read_regular(reading.root, path, MAX_FILE_BYTES)
        except Refused as refused:
            yield Refusal(path, str(refused))
        else:
            executable = bool(reading.now[path].mode & stat.S_IXUSR)
            write_file(stage, path, data, executable=executable)
