"""All files of a tree with their sizes: listed once, then derived for trees that differ little."""

import os
import sys
from collections.abc import Iterator

from gitlab_nightshift.repository.git import split_names
from gitlab_nightshift.repository.git_formats import SUBMODULE
from gitlab_nightshift.repository.private_repository import (
    ListedFile,
    Listing,
    Repository,
    read_blobs,
)
from gitlab_nightshift.repository.tree_objects import (
    list_differences,
    resolve_tree,
)

MOST_DIFFERING = 200
"""Files of which a listing is derived: the size of each is found by reading it."""


def list_tree(repository: Repository, revision: str) -> Listing:
    """The files, links and submodules of a tree or commit by raw path, sorted as git does. Raises
    GitError, also for a partial clone that lacks a file."""
    tree, known = resolve_tree(repository, revision), repository.listings
    if tree not in known:
        known[tree] = _build_from_other(repository, tree) or _list(repository, tree)
    return known[tree]


def list_names(repository: Repository, revision: str) -> frozenset[str]:
    """Their paths alone, which a partial clone knows too. Raises GitError."""
    tree, known = resolve_tree(repository, revision), repository.listings
    if listing := known.get(tree) or _build_from_other(repository, tree):
        return frozenset(known.setdefault(tree, listing))
    listed = repository.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree)
    return frozenset(split_names(listed))


def _list(repository: Repository, tree: str) -> Listing:
    return dict(_parse(repository.run("ls-tree", "-r", "-l", "-z", "--full-tree", tree)))


def _parse(listed: bytes) -> Iterator[tuple[str, ListedFile]]:
    """One row after the other: of half a million, a list of all takes 100 MB."""
    at = 0
    while (end := listed.find(b"\0", at)) >= 0:
        row, _, path = listed[at:end].partition(b"\t")
        mode, _, blob, size = row.decode().split()
        file = ListedFile(sys.intern(mode), blob, int(size) if size != "-" else 0)
        yield os.fsdecode(path), file
        at = end + 1


def _build_from_other(repository: Repository, tree: str) -> Listing | None:
    """The listing of ``tree`` from one of another tree; None without one that differs little."""
    for old, listing in repository.listings.items():
        changed = list_differences(repository, old, tree)
        if len(changed) > MOST_DIFFERING:
            continue
        stored = {row[1] for row in changed.values() if row and row[0] != SUBMODULE}
        blobs = read_blobs(repository, stored)
        if blobs.keys() == stored:
            new = {
                p: row and ListedFile(*row, len(blobs.get(row[1], b"")))
                for p, row in changed.items()
            }
            made = {path: file for path, file in {**listing, **new}.items() if file}
            added = not new.keys() <= listing.keys()
            return dict(sorted(made.items(), key=_get_raw_path)) if added else made
    return None


def _get_raw_path(item: tuple[str, ListedFile]) -> bytes:
    return os.fsencode(item[0])
