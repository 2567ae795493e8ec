"""The repository of a delegation: its location, its lock for one run at a time, its JSON form."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.repository import git as git_verbs
from gitlab_nightshift.repository import state_folder
from gitlab_nightshift.repository.git import Git, RepositoryPaths
from gitlab_nightshift.repository.packed_paths import (
    pack_repository_paths,
    unpack_repository_paths,
)
from gitlab_nightshift.repository.shared_state import restrict_access, share
from gitlab_nightshift.system.signals import defer_signals


@dataclass(frozen=True)
class DelegationSource:
    """The checkout from which a delegation starts.

    ``git`` is isolated, ``machine`` has this machine's filters and identity. ``fetched``: it is our
    own private clone of a URL, at the requested commit, with its default branch at ``head``.
    """

    top: Path
    place: RepositoryPaths
    git: Git
    machine: Git
    head: str
    spare: Path
    fetched: bool = False

    @property
    def secrets(self) -> tuple[Path, ...]:
        """Files and folders with credentials: no agent may read them. In the last one a runner
        keeps those of a job."""
        folders = dict.fromkeys((self.place.git_dir, self.place.objects[0].parent))
        own = [folder / name for folder in folders for name in ("config", "logs")]
        return (*own, self.top.with_name(f"{self.top.name}.tmp"))


@contextlib.contextmanager
def share_source(source: DelegationSource, run_id: str, closed: Iterable[Path]) -> Iterator[None]:
    """During the block, lock the checkout against runs that change it, and close the files and
    folders ``closed`` to other users of the machine. Raises what ``state_folder.hold`` does."""
    with share(source.top, source.spare) as held:
        if not (held.folder / state_folder.NOTE).exists():
            state_folder.write_note(held, source.top, run_id, source.head, source.place)
        restrict_access(held.folder, closed)
        yield


@contextlib.contextmanager
def claim_source(source: DelegationSource, run_id: str) -> Iterator[None]:
    """Lock the checkout against other runs during the block. Raises what ``state_folder.hold``
    does."""
    held = state_folder.hold(source.top, source.spare)
    try:
        state_folder.write_note(held, source.top, run_id, source.head, source.place)
        yield
    finally:
        with defer_signals():
            held.close()


def pack_source(source: DelegationSource, home: str) -> dict[str, Any]:
    """A source as JSON; ``home`` is this machine's own."""
    known = {
        "top": source.top,
        "place": pack_repository_paths(source.place),
        "head": source.head,
        "spare": source.spare,
        "fetched": source.fetched,
        "path": source.git.env["PATH"],
        "home": home,
    }
    packed: dict[str, Any] = json.loads(json.dumps(known, default=str))
    return packed


def unpack_source(data: Mapping[str, Any], private: Path) -> DelegationSource:
    """The source from that JSON, with git's settings in ``private``, a folder of this process."""
    return DelegationSource(
        top=Path(data["top"]),
        place=unpack_repository_paths(data["place"]),
        git=git_verbs.build_isolated_git(private / "git", data["path"]),
        machine=git_verbs.with_machine_config(
            private / "machine-git", data["path"], Path(data["home"])
        ),
        head=data["head"],
        spare=Path(data["spare"]),
        fetched=data["fetched"],
    )
