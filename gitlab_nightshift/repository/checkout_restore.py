"""Restores a checkout for good: each part is tried even if another one fails. After a kill the next
start does so (``killed_run_repair.py``)."""

import contextlib
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from gitlab_nightshift.records.events import Note
from gitlab_nightshift.repository.changed_files import format_some_paths
from gitlab_nightshift.repository.disk_space import Disks
from gitlab_nightshift.repository.git_mask import discard, unmask_git
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.restore import RestoredTree, restore_folder, restore_tree
from gitlab_nightshift.repository.saved_state import SavedCheckout
from gitlab_nightshift.repository.state_folder import SAVED, StateFolder
from gitlab_nightshift.repository.tree_snapshot import (
    TOP,
    ComparedTree,
    TreeSnapshot,
    compare,
)
from gitlab_nightshift.sandbox.process import count_runs
from gitlab_nightshift.system.file_names import format_path

IMPERFECT = "put back; paths with a new owner or time, which only root could restore: {}"


@dataclass
class KnownTree:
    """The last state of the tree known to equal the saved one; each restore updates it.
    ``imperfect`` are paths whose owner or times could not be restored."""

    entries: TreeSnapshot
    imperfect: set[str] = field(default_factory=set)
    _looked: tuple[int, ComparedTree] | None = None

    def look(self, root: Path, limit: int) -> ComparedTree:
        """The tree as it is now, and for ``take_look``. Raises TooManyEntriesError beyond
        ``limit`` entries, OSError."""
        runs = count_runs()
        tree = compare(root, self.entries, limit=limit)
        self._looked = runs, tree
        return tree

    def take_look(self) -> ComparedTree | None:
        """The latest look, once; None if something has run since, or it is of another state."""
        looked, self._looked = self._looked, None
        if looked and looked[0] == count_runs() and looked[1].known is self.entries:
            return looked[1]
        return None


@dataclass
class RestoreReport:
    """``failed`` are paths that could not be restored, ``trouble`` has a line for each kind of
    failure; ``imperfect`` counts paths with a new owner or time, which only root could restore.
    ``saved`` is the saved state with the restored tree's status, if nothing differs from it."""

    failed: tuple[str, ...] = ()
    trouble: list[str] = field(default_factory=list)
    imperfect: int = 0
    saved: SavedCheckout | None = field(default=None, repr=False)

    def build_notes(self) -> list[Note]:
        """For the log: a warning for each kind of failure, and the number of imperfect paths."""
        notes = [Note(line, warning=True) for line in self.trouble]
        return [*notes, Note(IMPERFECT.format(self.imperfect))] if self.imperfect else notes


def restore_files(
    state: StateFolder,
    saved: SavedCheckout,
    known: KnownTree,
    repository: Repository,
    *,
    keep_watched: bool = False,
    looked: ComparedTree | None = None,
) -> RestoredTree:
    """Restore the files; if the disk is full, first remove the throw-away to make space. For the
    rest see ``restore_tree``."""
    # An agent may have filled the disk by files below the throw-away .git.
    if Disks((state.checkout,)).find_full():
        for make_space in (state.reserve.release, functools.partial(discard, state)):
            with contextlib.suppress(OSError):  # an agent may have damaged either: go on
                make_space()
    return restore_tree(
        state.checkout,
        saved,
        known.entries,
        repository,
        keep_watched=keep_watched,
        looked=looked,
    )


def restore_checkout(
    state: StateFolder, saved: SavedCheckout, known: KnownTree, repository: Repository
) -> RestoreReport:
    """Restore everything: files, the real ``.git``, the folder itself. The saved state is removed
    once the real ``.git`` is in place: after that, the next start only has owners to restore."""
    report = RestoreReport()
    with _record_errors(report, "the checkout could not be restored"):
        done = restore_files(state, saved, known, repository)
        known.entries = done.known
        known.imperfect.update(done.imperfect)
        report.failed = tuple(map(format_path, done.failed))
    if report.failed:
        report.trouble.append(f"could not be restored: {format_some_paths(report.failed)}")
    for reserve in (state.reserve, state.last_reserve):
        with contextlib.suppress(OSError):
            reserve.release()
    with _record_errors(report, f"the real .git is still in {state.folder}"):
        unmask_git(state)
    with _record_errors(report, "the checkout could not be restored"):
        if restore_folder(state.checkout, TOP, saved.entries[TOP], saved.lists.get(TOP, {})).rights:
            known.imperfect.add(TOP)
    # Last: while the saved state exists, the next start restores the files again.
    if not os.path.lexists(state.real_git):
        with _record_errors(report, f"{state.folder} cannot be removed"):
            (state.folder / SAVED).unlink(missing_ok=True)
    report.imperfect = len(known.imperfect)
    if not report.trouble and not report.imperfect:
        report.saved = replace(saved, entries=known.entries)
    return report


@contextlib.contextmanager
def _record_errors(report: RestoreReport, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        report.trouble.append(f"{what}: {error}")
