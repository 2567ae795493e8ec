"""The repository of a delegation: its location, its lock for one run at a time, its JSON form."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.repository import state_folder
from gitlab_nightshift.repository.git import (
    Git,
    RepositoryPaths,
    build_isolated_git,
    with_machine_config,
)
from gitlab_nightshift.repository.shared_state import restrict_access, share
from gitlab_nightshift.system.signals import defer_signals


@dataclass(frozen=True)
class DelegationSource:
    """The checkout from which a delegation starts.

    ``git`` is isolated, ``machine_git`` has this machine's filters and identity. ``fetched``: it is
    our own private clone of a URL, at the requested commit, with its default branch at ``head``.
    """

    top: Path
    paths: RepositoryPaths
    git: Git
    machine_git: Git
    head: str
    spare: Path
    fetched: bool = False

    @property
    def secrets(self) -> tuple[Path, ...]:
        """Files and folders with credentials: no agent may read them. In the last one a runner
        keeps those of a job."""
        folders = dict.fromkeys((self.paths.git_dir, self.paths.objects[0].parent))
        own = [folder / name for folder in folders for name in ("config", "logs")]
        return (*own, self.top.with_name(f"{self.top.name}.tmp"))


@contextlib.contextmanager
def share_source(source: DelegationSource, run_id: str, closed: Iterable[Path]) -> Iterator[None]:
    """During the block, lock the checkout against runs that change it, and close the files and
    folders ``closed`` to other users of the machine. Raises what ``state_folder.hold`` does."""
    with share(source.top, source.spare) as held:
        if not (held.folder / state_folder.NOTE).exists():
            state_folder.write_note(held, source.top, run_id, source.head, source.paths)
        restrict_access(held.folder, closed)
        yield


@contextlib.contextmanager
def claim_source(source: DelegationSource, run_id: str) -> Iterator[None]:
    """Lock the checkout against other runs during the block. Raises what ``state_folder.hold``
    does."""
    held = state_folder.hold(source.top, source.spare)
    try:
        state_folder.write_note(held, source.top, run_id, source.head, source.paths)
        yield
    finally:
        with defer_signals():
            held.close()


@dataclass(frozen=True)
class SourceRecord:
    """A source as another process gets it; ``path`` and ``home`` are what this machine's git looks
    in."""

    top: Path
    paths: RepositoryPaths
    head: str
    spare: Path
    fetched: bool
    path: str
    home: Path


def build_source_record(source: DelegationSource, home: str) -> SourceRecord:
    """A source for another process; ``home`` is this machine's own."""
    path = source.git.env["PATH"]
    return SourceRecord(
        source.top, source.paths, source.head, source.spare, source.fetched, path, Path(home)
    )


def open_source_record(data: Any, private: Path) -> DelegationSource:
    """The source of a record's JSON, with git's settings in ``private``, a folder of this
    process."""
    known: SourceRecord = make_record(SourceRecord, data)
    return DelegationSource(
        top=known.top,
        paths=known.paths,
        git=build_isolated_git(private / "git", known.path),
        machine_git=with_machine_config(private / "machine-git", known.path, known.home),
        head=known.head,
        spare=known.spare,
        fetched=known.fetched,
    )
