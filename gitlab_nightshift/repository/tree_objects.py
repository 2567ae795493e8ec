"""Trees as git stores them, folder by folder: the cost of a variant of a large tree depends on its
change alone, where an index would cost the size of the tree.

The object of a folder has a row for each entry: mode, space, name, NUL, raw id; the rows are sorted
by name, that of a folder as if it ended with "/" (git's tree.c: base_name_compare).
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping

from gitlab_nightshift.repository.blobs import read_objects, write_blob, write_object
from gitlab_nightshift.repository.private_repository import (
    Repository,
    Row,
    is_full_id,
    resolve_tree,
)

FOLDER, PLAIN_FILE = "40000", "100644"
Rows = Mapping[str, Row]
Edits = Mapping[tuple[str, ...], bytes | None]
"""By the parts of a path below a folder; None removes it."""


def write_modified_tree(
    repository: Repository, tree: str, files: Mapping[str, bytes | None]
) -> str:
    """The id of a tree, or of a commit's, with these files replaced, added or (None) removed.

    Paths are raw; a file keeps its mode. Raises GitError.
    """
    top = _resolve(repository, tree)
    read_folders_above(repository, top, files)  # all of a level at once
    edits = {tuple(path.split("/")): data for path, data in files.items()}
    return _edit(repository, top, edits, len(top)) or _write_folder(repository, {}, len(top))


def list_differences(repository: Repository, old: str, new: str) -> dict[str, Row | None]:
    """The files, links and submodules in which a tree differs from an old one, with what they are
    in it; None for one that is gone. Raises GitError."""
    found: dict[str, Row | None] = {}
    pairs = [("", _resolve(repository, old), _resolve(repository, new))]
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
    """The rows of the folders that hold these paths of a tree, and of those around, by path. Raises
    GitError."""
    top, holding = _resolve(repository, tree), {path.rpartition("/")[0] for path in paths}
    found = {"": _read_folders(repository, [top])[top]}
    level = [""]
    while level:
        inner: dict[str, str] = {}
        for parent in level:
            start = f"{parent}/" if parent else ""
            names = {path[len(start) :].split("/")[0] for path in holding if path.startswith(start)}
            ids = ((name, _get_folder(found[parent].get(name))) for name in names)
            inner |= {start + name: folder for name, folder in ids if folder}
        folders = _read_folders(repository, set(inner.values()))
        found |= {path: folders[folder] for path, folder in inner.items()}
        level = list(inner)
    return found


def _resolve(repository: Repository, revision: str) -> str:
    if revision in repository.folders:
        return revision
    if not is_full_id(revision):
        return resolve_tree(repository, revision)
    if revision not in repository.trees:
        tree = resolve_tree(repository, revision)
        repository.trees.update({revision: tree, tree: tree})
    return repository.trees[revision]


def _get_folder(row: Row | None) -> str:
    """The id of a folder; "" for anything else."""
    return row[1] if row and row[0] == FOLDER else ""


def _read_folders(repository: Repository, ids: Collection[str]) -> dict[str, Rows]:
    known = repository.folders
    new = [each for each in ids if each not in known]
    objects = read_objects(repository, new, "tree")
    known.update((each, dict(_parse_rows(data, len(each)))) for each, data in objects.items())
    for each in (each for each in new if each not in known):  # git says what is wrong with it
        known[each] = dict(_parse_rows(repository.run("cat-file", "tree", each), len(each)))
    return {each: known[each] for each in ids}


def _parse_rows(data: bytes, length: int) -> Iterator[tuple[str, Row]]:
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        at = end + 1 + length // 2
        yield os.fsdecode(name), (mode.decode(), data[end + 1 : at].hex())


def _edit(repository: Repository, folder: str, edits: Edits, length: int) -> str:
    """The id of a folder ("": a new one) after these edits; "" if nothing is left of it."""
    rows = dict(_read_folders(repository, [folder])[folder]) if folder else {}
    inner: dict[str, dict[tuple[str, ...], bytes | None]] = {}
    for (name, *rest), data in edits.items():
        if rest:
            inner.setdefault(name, {})[tuple(rest)] = data
        elif data is None:
            rows.pop(name, None)
        else:
            row = rows.get(name)
            mode = row[0] if row and row[0] != FOLDER else PLAIN_FILE
            rows[name] = mode, write_blob(repository, data, length)
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
    repository.folders[made] = dict(rows)
    return made
