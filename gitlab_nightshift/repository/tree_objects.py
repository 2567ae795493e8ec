"""Reads and writes trees as git stores them, folder by folder. A small change of a large tree is
quick, while an index would take time for every file.

The object of a folder has a row for each entry: mode, space, name, NUL, raw id. Rows are sorted by
name, that of a folder as if it ended with "/" (git's tree.c: base_name_compare).
"""

import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from gitlab_nightshift.repository.git_formats import (
    FOLDER,
    PLAIN_FILE,
    SUBMODULE,
    Row,
    is_full_id,
    parse_rows,
    read_index,
)
from gitlab_nightshift.repository.private_repository import (
    GONE,
    Repository,
    read_blobs,
    read_objects,
    write_blob,
    write_object,
)

Rows = Mapping[str, Row]
"""The entries of a folder by raw name, or files by raw path."""
Edits = Mapping[tuple[str, ...], Row | None]
"""New entries below a folder, by the parts of their paths; None removes one."""


def write_modified_tree(
    repository: Repository, tree: str, files: Mapping[str, bytes | None]
) -> str:
    """Write ``tree``, or that of a commit, with these files replaced, added or (None) removed; the
    new tree's id.

    Paths are raw; a file keeps its mode. Raises GitError.
    """
    old = find_rows(repository, tree, files)
    rows = {
        path: None
        if data is None
        else (old.get(path, (PLAIN_FILE,))[0], write_blob(repository, data, len(tree)))
        for path, data in files.items()
    }
    return write_changed_tree(repository, tree, rows)


def write_changed_tree(repository: Repository, tree: str, rows: Mapping[str, Row | None]) -> str:
    """Write a tree in which these paths have another mode and blob, or are removed (None). Returns
    its id. Raises GitError."""
    top = resolve_tree(repository, tree)
    read_folders_above(
        repository, top, rows
    )  # caches all these folders, by one request for each level
    edits = {tuple(path.split("/")): row for path, row in rows.items()}
    return _edit(repository, top, edits, len(top)) or _write_folder(repository, {}, len(top))


def make_tree(repository: Repository, base: str, entries: Iterable[tuple[str, str, str]]) -> str:
    """Make a tree that differs from ``base`` in these entries: (mode, blob, path), with mode
    ``000000`` for a deleted path. Returns its id. Reads no blob.

    Raises GitError, and ValueError unless exactly these paths differ then, or for a name that git
    refuses, such as ``.git``.
    """
    listed = list(entries)
    rows = {path: None if mode == GONE else (mode, blob) for mode, blob, path in listed}
    present = {path: row for path, row in rows.items() if row}
    if len(rows) == len(listed) and _list_accepted(repository, present) == present:
        tree = write_changed_tree(repository, base, rows)
        if list_differences(repository, base, tree) == rows:
            return tree
    raise ValueError("git cannot make a tree of these files")


def _list_accepted(repository: Repository, rows: Rows) -> dict[str, Row]:
    """The rows that git accepts into an index: none with a name or mode that it considers
    unsafe."""
    info = b"".join(format_row(path, row) for path, row in rows.items())
    with tempfile.TemporaryDirectory(prefix="names-", dir=repository.folder) as folder:
        index = Path(folder, "index")
        repository.run("update-index", "-z", "--index-info", stdin=info, index=index)
        return read_index(index, max((len(blob) for _, blob in rows.values()), default=40))


def format_row(path: str, row: Row) -> bytes:
    """A line for ``git update-index -z --index-info``."""
    return f"{row[0]} {row[1]}\t".encode() + os.fsencode(path) + b"\0"


def read_tree_file(repository: Repository, tree: str, path: str) -> bytes | None:
    """The bytes of a file or link in a tree or commit; None if there is none, or its blob is
    missing or damaged. Raises GitError.

    ``git.py: read_committed_file`` is for a person's own repository: for that, a link is no file,
    and a missing object is an error.
    """
    mode, blob = find_rows(repository, tree, [path]).get(path, (FOLDER, ""))
    return None if mode in (FOLDER, SUBMODULE) else read_blobs(repository, [blob]).get(blob)


def find_rows(repository: Repository, tree: str, paths: Iterable[str]) -> dict[str, Row]:
    """The files, links and submodules that a tree has at these paths. Raises GitError."""
    wanted = list(paths)
    folders = read_folders_above(repository, tree, wanted)
    found: dict[str, Row] = {}
    for path in wanted:
        folder, _, name = path.rpartition("/")
        row = folders.get(folder, {}).get(name)
        if row and row[0] != FOLDER and bool(folder) == ("/" in path):  # not "/name"
            found[path] = row
    return found


def list_differences(repository: Repository, old: str, new: str) -> dict[str, Row | None]:
    """The files, links and submodules that differ between two trees: their rows in the new tree, or
    None if that lacks them. Raises GitError."""
    found: dict[str, Row | None] = {}
    pairs = [("", resolve_tree(repository, old), resolve_tree(repository, new))]
    while pairs:
        folders = _read_folders(repository, {each for _, *both in pairs for each in both if each})
        below: list[tuple[str, str, str]] = []
        for prefix, before, after in pairs:
            for name, was, now in _pair_rows(folders.get(before, {}), folders.get(after, {})):
                inner = _get_folder(was), _get_folder(now)
                if any(inner):
                    below.append((f"{prefix}{name}/", *inner))
                if (was and not inner[0]) or (now and not inner[1]):
                    found[prefix + name] = None if inner[1] else now
        pairs = below
    return found


def _pair_rows(old: Rows, new: Rows) -> Iterator[tuple[str, Row | None, Row | None]]:
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            yield name, old.get(name), new.get(name)


def read_folders_above(repository: Repository, tree: str, paths: Iterable[str]) -> dict[str, Rows]:
    """The rows of all folders above these paths of a tree, up to the top (""), by the folder's
    path. Raises GitError."""
    found: dict[str, Rows] = {}
    level = {"": resolve_tree(repository, tree)}
    wanted_below = {"": {path.rpartition("/")[0] for path in paths} - {""}}
    while level:
        folders = _read_folders(repository, set(level.values()))
        found |= {path: folders[folder] for path, folder in level.items()}
        level, wanted_below = _find_inner(found, wanted_below)
    return found


def _find_inner(
    found: Mapping[str, Rows], wanted_below: Mapping[str, set[str]]
) -> tuple[dict[str, str], dict[str, set[str]]]:
    """The ids by path of the next folders on the way to the wanted ones, and for each the wanted
    ones still below it."""
    ids: dict[str, str] = {}
    still_below: dict[str, set[str]] = {}
    for parent, below in wanted_below.items():
        for path in below:
            end = path.find("/", len(parent) + 1 if parent else 0)
            inner = path if end < 0 else path[:end]
            if folder := _get_folder(found[parent].get(inner.rpartition("/")[2])):
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


def _find_tree(repository: Repository, name: str) -> str:
    """The tree with this id, or the tree of the commit with this id; "" if there is neither."""
    with repository.open_reader() as reader:
        commit = reader.read([name], "commit").get(name, b"")
        tree = commit.partition(b"\n")[0].removeprefix(b"tree ").decode() if commit else name
        data = reader.read([tree], "tree").get(tree)
    if data is None:
        return ""
    repository.folders[tree] = dict(parse_rows(data, len(tree)))
    return tree


def _get_folder(row: Row | None) -> str:
    """The id of a folder; "" for anything else."""
    return row[1] if row and row[0] == FOLDER else ""


def _read_folders(repository: Repository, ids: Collection[str]) -> dict[str, Rows]:
    known = repository.folders
    objects = read_objects(repository, [each for each in ids if each not in known], "tree")
    known.update((each, dict(parse_rows(data, len(each)))) for each, data in objects.items())
    for each in (each for each in ids if each not in known):  # git's error says what is wrong
        known[each] = dict(parse_rows(repository.run("cat-file", "tree", each), len(each)))
    return {each: known[each] for each in ids}


def _edit(repository: Repository, folder: str, edits: Edits, length: int) -> str:
    """Edit ``folder`` ("": make one). Returns its new id, "" if nothing is left of it."""
    rows = dict(_read_folders(repository, [folder])[folder]) if folder else {}
    inner: dict[str, dict[tuple[str, ...], Row | None]] = {}
    for (name, *rest), row in edits.items():
        if rest:
            inner.setdefault(name, {})[tuple(rest)] = row
        elif row is None:
            rows.pop(name, None)
        else:
            rows[name] = row
    for name, below in inner.items():
        old = _get_folder(rows.get(name))
        if made := _edit(repository, old, below, length):
            rows[name] = FOLDER, made
        elif old:
            del rows[name]
    return _write_folder(repository, rows, length) if rows else ""


def _write_folder(repository: Repository, rows: Rows, length: int) -> str:
    named = {os.fsencode(name): row for name, row in rows.items()}
    order = sorted(named, key=lambda name: name + b"/" * (named[name][0] == FOLDER))
    data = b"".join(
        b"%s %s\0%s" % (named[name][0].encode(), name, bytes.fromhex(named[name][1]))
        for name in order
    )
    made = write_object(repository, "tree", data, length)
    repository.folders[made], repository.trees[made] = dict(rows), made
    return made
