"""Reads and writes trees as git stores them, folder by folder. A small change of a large tree is
quick, while an index would take time for every file.

A folder is an object with its entries: mode, space, name, NUL, raw id. They are sorted by name,
that of a folder as if it ended with "/" (git's tree.c: base_name_compare).

Three functions write a tree: ``write_tree_with_files`` from bytes, ``write_tree_with_entries`` from
modes and ids, ``write_checked_tree`` from modes and ids that an agent may have chosen.
"""

import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from gitlab_nightshift.repository.git_formats import (
    FOLDER,
    PLAIN_FILE,
    SUBMODULE,
    GitEntry,
    is_full_id,
    parse_tree,
    read_index,
)
from gitlab_nightshift.repository.private_repository import (
    ABSENT_MODE,
    Repository,
    read_blobs,
    read_objects,
    write_blob,
    write_object,
)

GitEntries = Mapping[str, GitEntry]
"""The entries of a folder by raw name, or files by raw path."""
EntryChanges = Mapping[str, GitEntry | None]
"""New entries by raw path; None for a removed one."""


def write_tree_with_files(
    repository: Repository, tree: str, files: Mapping[str, bytes | None]
) -> str:
    """Write a tree or a commit's tree with these files replaced, added or (None) removed; returns
    its id.

    Paths are raw; a file keeps its mode. Raises GitError.
    """
    old = find_entries(repository, tree, files)
    entries: dict[str, GitEntry | None] = {}
    for path, data in files.items():
        mode, _ = old.get(path, (PLAIN_FILE, ""))
        entries[path] = None if data is None else (mode, write_blob(repository, data, len(tree)))
    return write_tree_with_entries(repository, tree, entries)


def write_tree_with_entries(repository: Repository, tree: str, entries: EntryChanges) -> str:
    """Write a tree or a commit's tree with these entries replaced, added or (None) removed; returns
    its id. Raises GitError."""
    top = resolve_tree(repository, tree)
    read_ancestor_folders(repository, top, entries)  # caches them, by a request for each level
    changed = _change_folder(repository, top, entries, len(top))
    return changed or _write_folder(repository, {}, len(top))


def write_checked_tree(
    repository: Repository, base: str, entries: Iterable[tuple[str, str, str]]
) -> str:
    """Write a tree that differs from ``base`` in these entries: (mode, blob, path), with mode
    ``000000`` for a deleted path. Returns its id. Reads no blob.

    Raises GitError, and ValueError unless exactly these paths would differ, or for a name that git
    refuses, such as ``.git``.
    """
    listed = list(entries)
    changes = {path: None if mode == ABSENT_MODE else (mode, blob) for mode, blob, path in listed}
    present = {path: entry for path, entry in changes.items() if entry}
    if len(changes) == len(listed) and _list_accepted(repository, present) == present:
        tree = write_tree_with_entries(repository, base, changes)
        if list_differences(repository, base, tree) == changes:
            return tree
    raise ValueError("git cannot make a tree of these files")


def _list_accepted(repository: Repository, entries: GitEntries) -> dict[str, GitEntry]:
    """The entries that git accepts into an index: none with an unsafe name or mode."""
    info = b"".join(format_index_entry(path, entry) for path, entry in entries.items())
    with tempfile.TemporaryDirectory(prefix="names-", dir=repository.folder) as folder:
        index = Path(folder, "index")
        repository.run("update-index", "-z", "--index-info", stdin=info, index=index)
        return read_index(index, max((len(blob) for _, blob in entries.values()), default=40))


def format_index_entry(path: str, entry: GitEntry) -> bytes:
    """A line for ``git update-index -z --index-info``."""
    mode, blob = entry
    return f"{mode} {blob}\t".encode() + os.fsencode(path) + b"\0"


def read_tree_file(repository: Repository, tree: str, path: str) -> bytes | None:
    """The bytes of a file or link in a tree or commit; None if there is none, or its blob is
    missing or damaged. Raises GitError.

    ``git.py: read_committed_file`` is for a person's own repository: it takes a link for no file,
    and a missing object for an error.
    """
    mode, blob = find_entries(repository, tree, [path]).get(path, (FOLDER, ""))
    return None if mode in (FOLDER, SUBMODULE) else read_blobs(repository, [blob]).get(blob)


def find_entries(repository: Repository, tree: str, paths: Iterable[str]) -> dict[str, GitEntry]:
    """The files, links and submodules that a tree has at these paths. Raises GitError."""
    listed = list(paths)
    folders = read_ancestor_folders(repository, tree, listed)
    entries: dict[str, GitEntry] = {}
    for path in listed:
        folder, slash, name = path.rpartition("/")
        entry = folders.get(folder, {}).get(name)
        if entry and entry[0] != FOLDER and bool(folder) == bool(slash):  # not "/name"
            entries[path] = entry
    return entries


def list_differences(repository: Repository, old: str, new: str) -> dict[str, GitEntry | None]:
    """The files, links and submodules that differ between two trees: their entries in the new tree,
    None for missing ones. Raises GitError."""
    differences: dict[str, GitEntry | None] = {}
    pairs = [("", resolve_tree(repository, old), resolve_tree(repository, new))]
    while pairs:
        ids = {folder for _, *both in pairs for folder in both if folder}
        folders = _read_folders(repository, ids)
        inner_pairs: list[tuple[str, str, str]] = []
        for prefix, before, after in pairs:
            for name, was, now in _pair_entries(folders.get(before, {}), folders.get(after, {})):
                old_folder, new_folder = _get_folder_id(was), _get_folder_id(now)
                if old_folder or new_folder:
                    inner_pairs.append((f"{prefix}{name}/", old_folder, new_folder))
                if (was and not old_folder) or (now and not new_folder):
                    differences[prefix + name] = None if new_folder else now
        pairs = inner_pairs
    return differences


def _pair_entries(
    old: GitEntries, new: GitEntries
) -> Iterator[tuple[str, GitEntry | None, GitEntry | None]]:
    """The names whose entries differ, with both entries."""
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            yield name, old.get(name), new.get(name)


def read_ancestor_folders(
    repository: Repository, tree: str, paths: Iterable[str]
) -> dict[str, GitEntries]:
    """The entries of all folders above these paths of a tree, up to the top (""), by the folder's
    path. Raises GitError."""
    entries: dict[str, GitEntries] = {}
    ids = {"": resolve_tree(repository, tree)}  # the folders of one level, by path
    wanted_below = {"": {path.rpartition("/")[0] for path in paths} - {""}}
    while ids:
        folders = _read_folders(repository, set(ids.values()))
        entries |= {path: folders[folder] for path, folder in ids.items()}
        ids, wanted_below = _find_inner_folders(entries, wanted_below)
    return entries


def _find_inner_folders(
    entries: Mapping[str, GitEntries], wanted_below: Mapping[str, set[str]]
) -> tuple[dict[str, str], dict[str, set[str]]]:
    """The ids by path of the next folders on the way to the wanted ones, and for each the wanted
    ones still below it."""
    ids: dict[str, str] = {}
    still_below: dict[str, set[str]] = {}
    for parent, wanted in wanted_below.items():
        for path in wanted:
            end = path.find("/", len(parent) + 1 if parent else 0)
            inner = path if end < 0 else path[:end]
            if folder := _get_folder_id(entries[parent].get(inner.rpartition("/")[2])):
                ids[inner] = folder
                still_below.setdefault(inner, set()).update({path} - {inner})
    return ids, still_below


def resolve_tree(repository: Repository, revision: str) -> str:
    """The id of a revision's tree. Raises GitError."""
    if revision in repository.trees:
        return repository.trees[revision]
    tree = _find_tree(repository, revision) if is_full_id(revision) else ""
    if not tree:  # git's error says what is wrong
        return repository.run("rev-parse", "--verify", f"{revision}^{{tree}}").decode().strip()
    repository.trees.update({revision: tree, tree: tree})
    return tree


def _find_tree(repository: Repository, object_id: str) -> str:
    """The id of a tree, which may be given by its commit's; "" if there is neither."""
    with repository.open_reader() as reader:
        commit = reader.read([object_id], "commit").get(object_id, b"")
        tree = commit.partition(b"\n")[0].removeprefix(b"tree ").decode() if commit else object_id
        data = reader.read([tree], "tree").get(tree)
    if data is None:
        return ""
    repository.folders[tree] = dict(parse_tree(data, len(tree)))
    return tree


def _get_folder_id(entry: GitEntry | None) -> str:
    """The id of a folder; "" for anything else."""
    return entry[1] if entry and entry[0] == FOLDER else ""


def _read_folders(repository: Repository, ids: Collection[str]) -> dict[str, GitEntries]:
    """The entries of folders by id. Raises GitError."""
    cache = repository.folders
    objects = read_objects(repository, [folder for folder in ids if folder not in cache], "tree")
    cache.update((folder, dict(parse_tree(data, len(folder)))) for folder, data in objects.items())
    for folder in ids:
        if folder not in cache:  # git's error says what is wrong
            data = repository.run("cat-file", "tree", folder)
            cache[folder] = dict(parse_tree(data, len(folder)))
    return {folder: cache[folder] for folder in ids}


def _change_folder(
    repository: Repository, folder: str, changes: EntryChanges, id_length: int
) -> str:
    """Write a changed ``folder`` ("" for a new one). Returns its id, "" if it would be empty."""
    entries = dict(_read_folders(repository, [folder])[folder]) if folder else {}
    by_subfolder: dict[str, dict[str, GitEntry | None]] = {}
    for path, entry in changes.items():
        name, slash, path_below = path.partition("/")
        if slash:
            by_subfolder.setdefault(name, {})[path_below] = entry
        elif entry is None:
            entries.pop(name, None)
        else:
            entries[name] = entry
    for name, changes_below in by_subfolder.items():
        old = _get_folder_id(entries.get(name))
        if new := _change_folder(repository, old, changes_below, id_length):
            entries[name] = FOLDER, new
        elif old:
            del entries[name]
    return _write_folder(repository, entries, id_length) if entries else ""


def _write_folder(repository: Repository, entries: GitEntries, id_length: int) -> str:
    items = [(os.fsencode(name), mode, blob) for name, (mode, blob) in entries.items()]
    items.sort(key=lambda item: item[0] + b"/" if item[1] == FOLDER else item[0])
    data = b"".join(
        b"%s %s\0%s" % (mode.encode(), name, bytes.fromhex(blob)) for name, mode, blob in items
    )
    folder = write_object(repository, "tree", data, id_length)
    repository.folders[folder], repository.trees[folder] = dict(entries), folder
    return folder
