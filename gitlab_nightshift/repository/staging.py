"""A private work tree beside the private repository: the only tree that git sees after an agent
ran."""

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.repository.git import GitError, split_names
from gitlab_nightshift.repository.private_repository import (
    Repository,
    open_scratch_index,
    write_tree,
)
from gitlab_nightshift.repository.tree_snapshot import EntryKind, Snapshot
from gitlab_nightshift.system.openat import RefusedFileError, read_regular

RULES = (".gitignore", ".gitattributes")
MAX_RULES_BYTES = 1_000_000
MAX_PATH_BYTES = 2_000


@dataclass(frozen=True)
class StagingTree:
    """A new work tree, with an index that contains the base."""

    repository: Repository
    folder: Path
    index: Path

    def run_git(
        self, *args: str, paths: Iterable[str], env: Mapping[str, str] | None = None
    ) -> bytes:
        """Run a git command that reads paths on stdin in the stage. Raises GitError."""
        listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
        return self.repository.run_in(self.folder, self.index, *args, stdin=listed, env=env)


@contextlib.contextmanager
def open_staging_tree(repository: Repository, base: str) -> Iterator[StagingTree]:
    """An empty work tree, and an index with revision ``base``."""
    private = tempfile.TemporaryDirectory(prefix="stage-", dir=repository.folder)
    with private as folder, open_scratch_index(repository, base) as index:
        yield StagingTree(repository, Path(folder), index)


def write_rules(stage: StagingTree, root: Path, now: Snapshot) -> None:
    """Copy all ignore and attribute files as they are after the change.

    One that cannot be read has no effect, as in git.
    """
    for path, entry in now.items():
        rules = entry.kind is EntryKind.FILE and path.rpartition("/")[2] in RULES
        if rules and len(os.fsencode(path)) <= MAX_PATH_BYTES:
            with contextlib.suppress(RefusedFileError):
                data = read_regular(root, path, MAX_RULES_BYTES, linked=True)
                write_file(stage, path, data, executable=False)


def write_file(stage: StagingTree, path: str, data: bytes, *, executable: bool) -> None:
    """Put a file into the work tree."""
    place = stage.folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    place.chmod(0o755 if executable else 0o644)


def find_ignored(stage: StagingTree, paths: Iterable[str]) -> frozenset[str]:
    """The paths that git's rules ignore. Raises GitError.

    check-ignore refuses literal pathspecs; with "./" in front, no path is read as a pattern.
    """
    prefixed = [f"./{path}" for path in paths]
    if not prefixed:
        return frozenset()
    literal = {"GIT_LITERAL_PATHSPECS": "0"}
    try:
        out = stage.run_git(
            "check-ignore", "--no-index", "-z", "--stdin", paths=prefixed, env=literal
        )
    except GitError as error:
        if error.status == 1 and not error.stderr:  # none is ignored (git-check-ignore(1))
            return frozenset()
        raise
    return frozenset(path.removeprefix("./") for path in split_names(out))


def find_filtered(stage: StagingTree, paths: Iterable[str]) -> dict[str, str]:
    """The paths that have a filter (such as LFS), with the filter's name."""
    parts = split_names(stage.run_git("check-attr", "-z", "--stdin", "filter", paths=paths))
    values = zip(parts[::3], parts[2::3], strict=True)
    return {path: value for path, value in values if value not in ("unspecified", "unset")}


def store(stage: StagingTree, gone: Collection[str], present: Collection[str]) -> str:
    """The id of the base's tree without ``gone`` and with ``present`` as staged. Raises GitError.

    Removals come first: a removed path may lie below what is now a link.
    """
    update = ("update-index", "-z")
    for how, paths in (("--force-remove", gone), ("--add", present)):
        if paths:
            stage.run_git(*update, how, "--stdin", paths=paths)
    return write_tree(stage.repository, stage.index)
