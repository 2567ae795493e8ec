"""Restore a checkout for good, each part whatever becomes of the others."""

import contextlib
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from gitlab_nightshift.records.events import Note
from gitlab_nightshift.repository.changed_files import format_some_paths
from gitlab_nightshift.repository.disk_space import Disks
from gitlab_nightshift.repository.git_mask import discard, unmask_git
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.restore import RestoredTree, restore_tree, settle
from gitlab_nightshift.repository.saved_state import SavedCheckout
from gitlab_nightshift.repository.state_folder import SAVED, StateFolder
from gitlab_nightshift.repository.tree_snapshot import TOP, Snapshot
from gitlab_nightshift.system.file_names import format_path

UNLIKE = "put back; paths with a new owner or time, which only root could restore: {}"


@dataclass
class KnownTree:
    """The state of the tree that is known to be as saved; each restore updates it. ``unlike`` are
    the paths whose owner or times not even that could bring back."""

    entries: Snapshot
    unlike: set[str] = field(default_factory=set)


@dataclass
class RestoreReport:
    """``failed`` are paths that could not be put back, ``trouble`` a line for each kind of it;
    ``unlike`` counts those whose owner or times are new, which is nothing that can be mended."""

    failed: tuple[str, ...] = ()
    trouble: list[str] = field(default_factory=list)
    unlike: int = 0

    def build_notes(self) -> list[Note]:
        """For the log: a warning for each kind of trouble, and how many paths are unlike."""
        notes = [Note(line, warning=True) for line in self.trouble]
        return [*notes, Note(UNLIKE.format(self.unlike))] if self.unlike else notes


def restore_files(
    state: StateFolder,
    saved: SavedCheckout,
    known: KnownTree,
    repository: Repository,
    *,
    keep_watched: bool = False,
) -> RestoredTree:
    """Restore the files; where the disk is full, the throw-away is removed first to make space."""
    if Disks((state.checkout,)).find_full():  # perhaps with what an agent put below .git
        for make_space in (state.reserve.release, functools.partial(discard, state)):
            with contextlib.suppress(OSError):  # what it has made of these keeps nothing from us
                make_space()
    return restore_tree(state.checkout, saved, known.entries, repository, keep_watched=keep_watched)


def restore_checkout(
    state: StateFolder, saved: SavedCheckout, known: KnownTree, repository: Repository
) -> RestoreReport:
    """Put all back: files, the real ``.git``, the folder itself. What was saved is gone once the
    real one is in place: from then on the next start has nothing to undo but owners."""
    left = RestoreReport()
    with _record_errors(left, "the checkout could not be put back"):
        done = restore_files(state, saved, known, repository)
        known.unlike.update(done.unlike)
        left.failed = tuple(map(format_path, done.failed))
    if left.failed:
        left.trouble.append(f"could not be put back: {format_some_paths(left.failed)}")
    for reserve in (state.reserve, state.last_reserve):
        with contextlib.suppress(OSError):
            reserve.release()
    with _record_errors(left, f"the real .git is still in {state.folder}"):
        unmask_git(state)
    with _record_errors(left, "the checkout could not be put back"):
        if settle(state.checkout, TOP, saved.entries[TOP], saved.lists.get(TOP, {})).rights:
            known.unlike.add(TOP)
    if not os.path.lexists(state.real_git):
        with _record_errors(left, f"{state.folder} cannot be removed"):
            (state.folder / SAVED).unlink(missing_ok=True)
    left.unlike = len(known.unlike)
    return left


@contextlib.contextmanager
def _record_errors(left: RestoreReport, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        left.trouble.append(f"{what}: {error}")
