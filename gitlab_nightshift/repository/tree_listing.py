"""All files of a tree with their sizes. Listings of similar trees are derived from earlier ones."""

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
"""Files in which a similar tree differs at most: each is read to find its size."""


def list_tree(repository: Repository, revision: str) -> TreeListing:
    """The files, links and submodules of a tree or commit by raw path, sorted as git does. Raises
    GitError, also for a partial clone that lacks a file."""
    tree, cache = resolve_tree(repository, revision), repository.listings
    if tree not in cache:
        cache[tree] = _build_from_similar(repository, tree) or _read_listing(repository, tree)
    return cache[tree]


def list_names(repository: Repository, revision: str) -> frozenset[str]:
    """The paths alone, which a partial clone also has. Raises GitError."""
    tree, cache = resolve_tree(repository, revision), repository.listings
    if listing := cache.get(tree) or _build_from_similar(repository, tree):
        return frozenset(cache.setdefault(tree, listing))
    listed = repository.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree)
    return frozenset(split_names(listed))


def _read_listing(repository: Repository, tree: str) -> TreeListing:
    listed = repository.run("ls-tree", "-r", "-l", "-z", "--full-tree", tree)
    return TreeListing(list(group_files(map(_parse_row, split_rows(listed)))))


def _parse_row(row: bytes) -> tuple[bytes, bytes]:
    """The raw path and the packed row of a file, from a row of ``git ls-tree``."""
    meta, _, path = row.partition(b"\t")
    mode, _, blob, size = meta.decode().split()
    return path, pack_file(mode, blob, int(size) if size != "-" else 0)


def _build_from_similar(repository: Repository, tree: str) -> TreeListing | None:
    """The listing of ``tree``, derived from that of a similar tree; None if there is no such."""
    for old, listing in repository.listings.items():
        changed = list_differences(repository, old, tree)
        if len(changed) > MOST_DIFFERING:
            continue
        stored = {entry[1] for entry in changed.values() if entry and entry[0] != SUBMODULE}
        blobs = read_blobs(repository, stored)
        if blobs.keys() == stored:
            files = {
                path: entry and ListedFile(*entry, len(blobs.get(entry[1], b"")))
                for path, entry in changed.items()
            }
            return listing.replace(files)
    return None
