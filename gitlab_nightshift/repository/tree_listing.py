"""All files of a tree with their sizes: listed once, then derived for trees that differ little."""

from gitlab_nightshift.repository.git import split_names, split_rows
from gitlab_nightshift.repository.git_formats import SUBMODULE
from gitlab_nightshift.repository.packed_listing import (
    ListedFile,
    TreeListing,
    group_files,
    pack_file,
)
from gitlab_nightshift.repository.private_repository import Repository, read_blobs
from gitlab_nightshift.repository.tree_objects import list_differences, resolve_tree

MOST_DIFFERING = 200
"""Files of which a listing is derived: the size of each is found by reading it."""


def list_tree(repository: Repository, revision: str) -> TreeListing:
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


def _list(repository: Repository, tree: str) -> TreeListing:
    listed = repository.run("ls-tree", "-r", "-l", "-z", "--full-tree", tree)
    return TreeListing(list(group_files(map(_parse, split_rows(listed)))))


def _parse(row: bytes) -> tuple[bytes, bytes]:
    """The raw path and the packed row of a file."""
    about, _, path = row.partition(b"\t")
    mode, _, blob, size = about.decode().split()
    return path, pack_file(mode, blob, int(size) if size != "-" else 0)


def _build_from_other(repository: Repository, tree: str) -> TreeListing | None:
    """The listing of ``tree`` from one of another tree; None without one that differs little."""
    for old, listing in repository.listings.items():
        changed = list_differences(repository, old, tree)
        if len(changed) > MOST_DIFFERING:
            continue
        stored = {row[1] for row in changed.values() if row and row[0] != SUBMODULE}
        blobs = read_blobs(repository, stored)
        if blobs.keys() == stored:
            return listing.replace(
                {
                    path: row and ListedFile(*row, len(blobs.get(row[1], b"")))
                    for path, row in changed.items()
                }
            )
    return None
