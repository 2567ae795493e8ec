"""Captures the change that an agent made: reads it from the tree, and writes private git objects.

Files are read without following links, and put into a private work tree together with the ignore
and attribute files as the change left them, so the result is what ``git add -A`` would have made of
an honest checkout. Links are refused: a read or write through one ends up somewhere else.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.records.products import ChangeSize, ProposedChange
from gitlab_nightshift.repository.disk_space import is_full_disk
from gitlab_nightshift.repository.git import GitError, split_names
from gitlab_nightshift.repository.git_formats import (
    GitEntry,
    join_names,
    parse_attributes,
    read_index,
    write_index,
)
from gitlab_nightshift.repository.private_repository import (
    DiffFile,
    Repository,
    build_diff_patch,
    compute_blob_id,
    list_diff_files,
)
from gitlab_nightshift.repository.saved_state import ATTRIBUTES, SavedCheckout
from gitlab_nightshift.repository.tree_objects import (
    find_entries,
    resolve_tree,
    write_tree_with_entries,
)
from gitlab_nightshift.repository.tree_snapshot import (
    ComparedTree,
    EntryKind,
    TooManyEntriesError,
    TreeEntry,
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
_RULE_FILES = (".gitignore", ATTRIBUTES)
_MAX_RULES_BYTES = 1_000_000
_MAX_PATH_BYTES = 2_000


@dataclass(frozen=True)
class _StagingTree:
    """A private work tree for a change to the tree ``base_tree``."""

    repository: Repository
    folder: Path
    base_tree: str
    index: Path

    def run_git(
        self, *args: str, paths: Iterable[str], env: Mapping[str, str] | None = None
    ) -> bytes:
        """Run a git command in this work tree, with the paths on its stdin. Raises GitError."""
        stdin = join_names(paths)
        return self.repository.run_in(self.folder, self.index, *args, stdin=stdin, env=env)

    def fill_index(self, paths: Iterable[str]) -> dict[str, GitEntry]:
        """Fill the index with the base's versions of ``paths``, and return these. Git needs no
        others: it looks up only files that it stores, and attribute files that the work tree
        lacks."""
        entries = find_entries(self.repository, self.base_tree, paths)
        write_index(self.index, entries, len(self.base_tree))
        return entries


@dataclass(frozen=True)
class ChangeRefusal:
    """A path that cannot be part of a change, and why. ``path`` is raw, "" for the whole change."""

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
        """True if nothing was changed and nothing refused."""
        return not self.files and not self.refusals

    @property
    def size(self) -> ChangeSize:
        """The printable paths of its files, and the numbers of added and deleted lines."""
        return compute_size(self.files)

    def build_proposed(self) -> ProposedChange:
        """The size and the tree, as a bundle records them."""
        return ProposedChange(**vars(self.size), tree_id=self.tree_id)


def compute_size(files: Collection[DiffFile]) -> ChangeSize:
    """The size of a change of these files."""
    return ChangeSize(
        files=tuple(format_path(file.path) for file in files),
        added=sum(file.added for file in files),
        deleted=sum(file.deleted for file in files),
    )


def capture_change(
    root: Path,
    saved: SavedCheckout,
    compare_now: Callable[[int], ComparedTree],
    repository: Repository,
    base: str,
    output_dir: str,
) -> CapturedChange:
    """Capture what differs from the ``saved`` state as a tree based on ``base``. ``compare_now``
    compares the checkout, up to the given number of entries, with its latest snapshot in that
    state: files that did not change since are not read.

    Untracked and ignored files that existed before are not part of it, nor is ``output_dir``. Call
    it only after every process of the agent has ended.
    """
    try:
        now = compare_now(len(saved.entries) + MAX_NEW_ENTRIES)
        changed_paths = [
            path for path in _list_changed_paths(saved, now) if not within(path, output_dir)
        ]
        with _open_staging_tree(repository, base) as stage:
            _write_rules(stage, root, now)
            untracked = (p for p in changed_paths if p not in saved.tracked and not _is_too_long(p))
            ignored = _find_ignored(stage, untracked)
            paths = [path for path in changed_paths if path not in ignored]
            return _capture_paths(stage, base, _Comparison(root, saved, now), paths)
    except TooManyEntriesError:
        return _build_refused_change(
            [ChangeRefusal("", f"more than {MAX_NEW_ENTRIES} new files and folders")]
        )
    except (GitError, OSError) as error:
        full = is_full_disk(error)
        if isinstance(error, OSError) and not full:
            raise
        why = "the disk was full" if full else str(error)
        return _build_refused_change([ChangeRefusal("", f"the change cannot be stored: {why}")])


def _build_refused_change(refusals: Iterable[ChangeRefusal]) -> CapturedChange:
    return CapturedChange("", (), b"", tuple(refusals))


@dataclass(frozen=True)
class _Comparison:
    """A saved checkout and its tree ``now``."""

    root: Path
    saved: SavedCheckout
    now: ComparedTree

    def find_old(self, path: str) -> TreeEntry | None:
        """The saved entry of a tracked path."""
        return self.saved.entries.get(path) if path in self.saved.tracked else None

    def find_new(self, path: str) -> TreeEntry | None:
        """The present entry, unless it is a folder."""
        entry = self.now.get(path)
        return None if entry is None or entry.kind is EntryKind.FOLDER else entry


def _capture_paths(
    stage: _StagingTree, base: str, comparison: _Comparison, paths: list[str]
) -> CapturedChange:
    changed = [path for path in paths if not _has_same_content(comparison, path)]
    present = [path for path in changed if comparison.find_new(path)]
    refusals = list(_find_refusals(comparison, changed)) or list(
        _stage_files(stage, comparison, present)
    )
    if refusals:
        return _build_refused_change(refusals)
    tree = _store_change(stage, comparison, changed, present)
    patch = build_diff_patch(stage.repository, base, tree)
    return CapturedChange(tree, list_diff_files(stage.repository, base, tree), patch)


# --- the paths of a change ------------------------------------------------------------------------


def _list_changed_paths(saved: SavedCheckout, now: ComparedTree) -> Iterator[str]:
    """Tracked paths that differ; new files, except in other repositories inside the checkout; in
    submodules, all files that differ."""
    nested_repositories = {path.removesuffix("/.git") for path in saved.entries.find_named(".git")}
    for path in now.list_changed():
        is_folder = path in now and now[path].kind is EntryKind.FOLDER
        if path in saved.submodules:
            is_part = not is_folder
        elif path in saved.tracked or _is_inside(path, saved.submodules):
            is_part = not is_folder or path in saved.tracked
        else:
            old = saved.entries.get(path)
            is_new = old is None or old.kind is EntryKind.FOLDER
            is_part = (
                is_new
                and path in now
                and not is_folder
                and not _is_inside(path, nested_repositories)
            )
        if is_part:
            yield path


def _is_inside(path: str, folders: Iterable[str]) -> bool:
    return any(folder in folders for folder in list_parents(path))


def _has_same_content(comparison: _Comparison, path: str) -> bool:
    """True if a tracked file was rewritten with the bytes it had, or a link with its target."""
    old, new = comparison.find_old(path), comparison.find_new(path)
    if old is None or new is None or old.kind is not new.kind:
        return False
    if old.kind is EntryKind.LINK:
        return old.target == new.target
    if old.kind is not EntryKind.FILE:
        return False
    if old.size != new.size or (old.mode ^ new.mode) & stat.S_IXUSR:
        return False
    return _find_new_id(comparison, path, new.size) == _find_old_id(
        comparison.saved, path, new.size
    )


def _find_old_id(saved: SavedCheckout, path: str, size: int) -> str:
    """The saved file's blob id; "" if unknown, which equals no result of ``_find_new_id``."""
    if path in saved.blobs:
        return saved.blobs[path]
    if path not in saved.copies:
        return ""
    with (saved.folder / saved.copies[path]).open("rb") as file:
        return compute_blob_id(read_chunks(file.fileno()), size, 40)


def _find_new_id(comparison: _Comparison, path: str, size: int) -> str:
    """The file's blob id now; "unreadable", which equals no id, if it cannot be read."""
    # A SHA-256 repository has ids of 64 digits (hash-function-transition).
    length = len(comparison.saved.blobs.get(path, "")) or 40
    try:
        with open_parent(comparison.root, path) as (fd, name), open_regular(name, fd) as file:
            return compute_blob_id(read_chunks(file), size, length)
    except (OSError, RefusedFileError):
        return "unreadable"


def _find_refusals(comparison: _Comparison, paths: Iterable[str]) -> Iterator[ChangeRefusal]:
    total = 0
    for path in paths:
        old, new = comparison.find_old(path), comparison.find_new(path)
        if reason := _find_refusal_reason(comparison.saved, path, old, new):
            yield ChangeRefusal(path, reason)
        total += _read_size(old) + _read_size(new)
    if total > MAX_CHANGE_BYTES:
        yield ChangeRefusal("", f"the change is larger than {MAX_CHANGE_BYTES} bytes")


def _find_refusal_reason(
    saved: SavedCheckout, path: str, old: TreeEntry | None, new: TreeEntry | None
) -> str:
    reasons = {
        "it belongs to a submodule": path in saved.submodules or _is_inside(path, saved.submodules),
        "its path is too long": new and _is_too_long(path),
        "git reserves such names": new and is_dot_git(path),
        "it is a symbolic link": new and new.kind is EntryKind.LINK,
        "it is no file or folder": new and new.kind is EntryKind.OTHER,
        f"it is larger than {MAX_FILE_BYTES} bytes": max(_read_size(old), _read_size(new))
        > MAX_FILE_BYTES,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _is_too_long(path: str) -> bool:
    return len(os.fsencode(path)) > _MAX_PATH_BYTES


def _read_size(entry: TreeEntry | None) -> int:
    return entry.size if entry else 0


def _stage_files(
    stage: _StagingTree, comparison: _Comparison, paths: list[str]
) -> Iterator[ChangeRefusal]:
    """Copy files into the stage, and refuse those that cannot be stored."""
    for path, name in _find_filtered(stage, comparison, paths).items():
        reason = f"it needs the filter {format_path(name)}"
        if name == "lfs":  # the pointer alone would be a broken file: no LFS store has its object
            reason = "Git LFS keeps its content, which is not uploaded from here"
        yield ChangeRefusal(path, reason)
    for path in paths:
        try:
            data = read_regular(comparison.root, path, MAX_FILE_BYTES)
        except RefusedFileError as error:
            yield ChangeRefusal(path, str(error))
        else:
            executable = bool(comparison.now[path].mode & stat.S_IXUSR)
            _write_file(stage, path, data, executable=executable)


@contextlib.contextmanager
def _open_staging_tree(repository: Repository, base: str) -> Iterator[_StagingTree]:
    """An empty work tree and index for a change to the commit ``base``."""
    with tempfile.TemporaryDirectory(prefix="stage-", dir=repository.folder) as folder:
        files = Path(folder, "files")
        files.mkdir()
        yield _StagingTree(repository, files, resolve_tree(repository, base), Path(folder, "index"))


def _write_rules(stage: _StagingTree, root: Path, now: ComparedTree) -> None:
    """Copy the tree's present ignore and attribute files; skips unreadable ones, as git does."""
    for path in (path for name in _RULE_FILES for path in now.find_named(name)):
        if now[path].kind is EntryKind.FILE and len(os.fsencode(path)) <= _MAX_PATH_BYTES:
            with contextlib.suppress(RefusedFileError):
                data = read_regular(root, path, _MAX_RULES_BYTES, allow_links=True)
                _write_file(stage, path, data, executable=False)


def _write_file(stage: _StagingTree, path: str, data: bytes, *, executable: bool) -> None:
    """Put a file into the work tree."""
    staged_path = stage.folder / path
    staged_path.parent.mkdir(parents=True, exist_ok=True)
    staged_path.write_bytes(data)
    staged_path.chmod(0o755 if executable else 0o644)


def _find_ignored(stage: _StagingTree, paths: Iterable[str]) -> frozenset[str]:
    """The paths that git's rules ignore. Raises GitError.

    check-ignore refuses literal pathspecs; with "./" in front, no path is read as a pattern.
    """
    prefixed = [f"./{path}" for path in paths]
    if not prefixed:
        return frozenset()
    not_literal = {"GIT_LITERAL_PATHSPECS": "0"}
    try:
        out = stage.run_git(
            "check-ignore", "--no-index", "-z", "--stdin", paths=prefixed, env=not_literal
        )
    except GitError as error:
        if error.status == 1 and not error.stderr:  # none is ignored (git-check-ignore(1))
            return frozenset()
        raise
    return frozenset(path.removeprefix("./") for path in split_names(out))


def _find_filtered(
    stage: _StagingTree, comparison: _Comparison, paths: Collection[str]
) -> dict[str, str]:
    """The paths that have a filter (such as LFS), with the filter's name."""
    old_files = comparison.saved.attribute_files
    new_files = comparison.now.find_named(ATTRIBUTES)
    if not (old_files or new_files or stage.repository.attributes_outside_tree):
        return {}
    stage.fill_index(old_files)
    return parse_attributes(stage.run_git("check-attr", "-z", "--stdin", "filter", paths=paths))


def _store_change(
    stage: _StagingTree, comparison: _Comparison, changed: Iterable[str], present: Collection[str]
) -> str:
    """Store the base's tree with the ``present`` paths as staged, and without the other ``changed``
    ones; returns its id. Raises GitError."""
    gone = set(changed) - set(present)
    entries: dict[str, GitEntry | None] = dict.fromkeys(gone)
    if present:
        needed = [*present, *comparison.saved.attribute_files]
        stage.fill_index(path for path in needed if path not in gone)
        stage.run_git("update-index", "-z", "--add", "--stdin", paths=present)
        stored = read_index(stage.index, len(stage.base_tree))
        entries |= {path: stored[path] for path in present if path in stored}
    return write_tree_with_entries(stage.repository, stage.base_tree, entries)
