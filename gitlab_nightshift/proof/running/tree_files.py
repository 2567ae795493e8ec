"""The source files of a tree, in which faults are planted and tests found, read all at once."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from gitlab_nightshift.proof.reading.touched_files import is_vendored
from gitlab_nightshift.proof.syntax.file_side import Side
from gitlab_nightshift.proof.syntax.languages import (
    beside_tests,
    find_language,
    is_product,
    is_test_file,
)
from gitlab_nightshift.repository.blobs import read_blobs
from gitlab_nightshift.repository.packed_listing import TreeListing
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.tree_listing import list_tree
from gitlab_nightshift.repository.tree_objects import SUBMODULE

LARGEST_FILE = 300_000  # bytes; larger files are data or generated
MOST_BYTES = 8_000_000  # of all files together


@dataclass(frozen=True)
class TreeFiles:
    """The files of a tree or commit in supported languages. Paths are raw."""

    repository: Repository
    tree: str

    @cached_property
    def _listing(self) -> TreeListing:
        return list_tree(self.repository, self.tree)

    @cached_property
    def _contents(self) -> dict[str, bytes]:
        """What was read so far, by path."""
        return {}

    @cached_property
    def products(self) -> tuple[Side, ...]:
        """The project's own code, without tests and code beside them."""
        paths = (p for p in self._listing if find_language(p) and is_product(p))
        return self._read(path for path in paths if not is_vendored(path))

    @cached_property
    def tests(self) -> tuple[Side, ...]:
        """Files that a runner collects, and code beside them."""
        return self._read(
            p for p in self._listing if find_language(p) and (is_test_file(p) or beside_tests(p))
        )

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None if it does not exist."""
        if path not in self._contents and path in self._listing:
            self._read_all([path])
        return self._contents.get(path)

    def list_paths(self) -> tuple[str, ...]:
        """All paths."""
        return tuple(path for path, mode, _ in self._listing.read_sizes() if mode != SUBMODULE)

    def _read(self, paths: Iterable[str]) -> tuple[Side, ...]:
        chosen, size = [], 0
        for path in paths:
            file = self._listing[path]
            small = file.size <= LARGEST_FILE and size + file.size <= MOST_BYTES
            if small and file.mode != SUBMODULE:
                chosen.append(path)
                size += file.size
        self._read_all(chosen)
        return tuple(Side(path, self._contents.get(path)) for path in chosen)

    def _read_all(self, paths: Iterable[str]) -> None:
        """Read what was not read before, by one process."""
        files = {path: self._listing[path] for path in paths if path not in self._contents}
        wanted = {path: file.blob for path, file in files.items() if file.mode != SUBMODULE}
        found = read_blobs(self.repository, wanted.values()) if wanted else {}
        self._contents.update((p, found[blob]) for p, blob in wanted.items() if blob in found)
