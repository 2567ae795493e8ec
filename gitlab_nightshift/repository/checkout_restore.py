"""The final restore of a checkout: at the end of a run or, after a kill, at the next start. Each
part is tried even if another one fails."""

import contextlib
import functools
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.repository.changed_files import format_some_paths
from gitlab_nightshift.repository.delegated_repository import restore_modes
from gitlab_nightshift.repository.disk_space import Disks
from gitlab_nightshift.repository.git import Git, RepositoryPaths, build_isolated_git
from gitlab_nightshift.repository.git_mask import (
    build_moved_paths,
    discard_throwaway,
    is_mask_unused,
    is_masked,
    unmask_git,
)
from gitlab_nightshift.repository.owners import kill_leftovers, restore_owners_after_kill
from gitlab_nightshift.repository.private_repository import (
    Repository,
    create_private_repository,
    share_reader,
)
from gitlab_nightshift.repository.restore import RestoredTree, restore_folder, restore_tree
from gitlab_nightshift.repository.saved_state import SavedCheckout, read_saved
from gitlab_nightshift.repository.state_folder import (
    COPIES,
    GIVEN,
    OWNERS,
    SAVED,
    LockedStateFolder,
    RunNote,
    StateFolder,
    identify_folder,
    read_git_state,
    read_note,
    release,
    take_over,
    was_changed_after_run,
)
from gitlab_nightshift.repository.tree_snapshot import TOP, ComparedTree, TreeSnapshot, compare
from gitlab_nightshift.sandbox.process import count_started_programs
from gitlab_nightshift.sandbox.uid_tier import remove_trial_folders
from gitlab_nightshift.system.file_names import format_path
from gitlab_nightshift.system.openat import remove_path
from gitlab_nightshift.system.signals import defer_signals

IMPERFECT = "put back; paths with a new owner or time, which only root could restore: {}"
"""A line of the job log, with the number of such paths."""


@dataclass
class KnownTree:
    """The last state of the tree that is known to equal the saved one; each restore updates it.
    ``imperfect`` are paths whose owner or times could not be restored."""

    entries: TreeSnapshot
    imperfect: set[str] = field(default_factory=set)
    _comparison: tuple[int, ComparedTree] | None = None
    """The number of programs run before the latest comparison, and its result."""

    def compare_now(self, root: Path, limit: int) -> ComparedTree:
        """Compare the tree with this state, and keep the result for ``take_comparison``. Raises
        TooManyEntriesError beyond ``limit`` entries, OSError."""
        runs = count_started_programs()
        tree = compare(root, self.entries, limit=limit)
        self._comparison = runs, tree
        return tree

    def take_comparison(self) -> ComparedTree | None:
        """The latest comparison, once; None if a program ran or the state changed since."""
        if self._comparison is None:
            return None
        (runs, tree), self._comparison = self._comparison, None
        return tree if runs == count_started_programs() and tree.snapshot is self.entries else None


@dataclass
class RestoreReport:
    """What a final restore could not restore: the paths ``failed``; ``problems``, a line for each
    kind of failure; ``imperfect``, the number of paths with a new owner or time, which only root
    could restore. If there are none of these, ``saved`` is the saved state with the entries of the
    restored tree."""

    failed: tuple[str, ...] = ()
    problems: list[str] = field(default_factory=list)
    imperfect: int = 0
    saved: SavedCheckout | None = field(default=None, repr=False)

    def build_notes(self) -> list[Note]:
        """For the log: a warning for each kind of failure, and the number of imperfect paths."""
        notes = [Note(line, warning=True) for line in self.problems]
        return [*notes, Note(IMPERFECT.format(self.imperfect))] if self.imperfect else notes


def restore_files(
    state: StateFolder,
    saved: SavedCheckout,
    known: KnownTree,
    repository: Repository,
    *,
    keep_watched: bool = False,
    compared: ComparedTree | None = None,
) -> RestoredTree:
    """Call ``restore_tree``. If the disk is full, first remove the reserve and the throw-away."""
    # An agent may have filled the disk by files below the throw-away .git.
    if Disks((state.checkout,)).find_full():
        for free_space in (state.reserve.release, functools.partial(discard_throwaway, state)):
            with contextlib.suppress(OSError):  # an agent may have damaged one: try the other
                free_space()
    return restore_tree(
        state.checkout,
        saved,
        known.entries,
        repository,
        keep_watched=keep_watched,
        compared=compared,
    )


def restore_checkout(
    state: StateFolder, saved: SavedCheckout, known: KnownTree, repository: Repository
) -> RestoreReport:
    """Restore everything: files, the real ``.git``, the top folder itself. Once the real ``.git``
    is in place, the saved state is removed: after that, the next start restores only owners."""
    report = RestoreReport()
    with _record_errors(report, "the checkout could not be restored"):
        restored = restore_files(state, saved, known, repository)
        known.entries = restored.snapshot
        known.imperfect.update(restored.imperfect)
        report.failed = tuple(map(format_path, restored.failed))
    if report.failed:
        report.problems.append(f"could not be restored: {format_some_paths(report.failed)}")
    for reserve in (state.reserve, state.last_reserve):
        with contextlib.suppress(OSError):
            reserve.release()
    with _record_errors(report, f"the real .git is still in {state.folder}"):
        unmask_git(state)
    with _record_errors(report, "the checkout could not be restored"):
        if restore_folder(state.checkout, TOP, saved.entries[TOP], saved.acls.get(TOP, {})).rights:
            known.imperfect.add(TOP)
    # Last: while the saved state exists, the next start restores the files again.
    if not os.path.lexists(state.real_git):
        with _record_errors(report, f"{state.folder} cannot be removed"):
            (state.folder / SAVED).unlink(missing_ok=True)
    report.imperfect = len(known.imperfect)
    if not report.problems and not report.imperfect:
        report.saved = replace(saved, entries=known.entries)
    return report


@contextlib.contextmanager
def _record_errors(report: RestoreReport, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        report.problems.append(f"{what}: {error}")


# --- after a kill ---------------------------------------------------------------------------------


def repair(
    path: Path,
    *,
    private: Path,
    search_path: str,
    unused_since_run: bool = False,
    receive_report: Callable[[RestoreReport], object] | None = None,
    held: LockedStateFolder | None = None,
    saved: SavedCheckout | None = None,
) -> bool:
    """Undo the changes of a killed run in ``path``; True if there was something to undo.

    Call it before anything else reads the checkout's git (``open_checkout`` calls it too).
    ``private`` is a folder that no agent can access, in the folder for temporary files.
    ``unused_since_run``: nobody used the checkout since that run's end, so a commit in the
    throw-away ``.git`` is an agent's. ``held`` and ``saved`` are that run's state folder and saved
    state; without them, both are looked for. What is undone depends only on the state folder,
    without the part that agents can write, and, at a later start, on a use of the checkout since.

    Raises NightshiftError E_WORKSPACE_DIRTY if another night runs in the checkout, if not
    everything could be undone (unless ``receive_report`` gets the report), or if the throw-away
    ``.git`` was used since. In the last two cases the real ``.git`` is back in place.
    """
    remove_trial_folders(path.resolve())
    state = held.hand_over(path.resolve()) if held else take_over(path.resolve(), private.parent)
    if state is None:
        return False
    note = read_note(state.folder)
    with defer_signals():
        kill_leftovers(state)
        git = build_isolated_git(private / "home", search_path)
        if not os.path.lexists(state.real_git):
            report = _undo_where_unused(state, note, saved, git, private)
        else:
            report = _undo_with_moved_git(state, note, saved, git, private, unused=unused_since_run)
    if receive_report:
        receive_report(report)
    elif report.problems:
        raise NightshiftError(Code.WORKSPACE_DIRTY, _describe_left_changes(state.checkout, report))
    return True


def _is_another_checkout(state: StateFolder, note: RunNote | None) -> bool:
    """True if the folder was deleted since the run, and the project checked out again."""
    return note is not None and note.top != identify_folder(state.checkout)


def _is_as_killed(state: StateFolder, note: RunNote) -> bool:
    """True if nothing has used the throw-away since the kill, such as a runner's fetch."""
    git = state.checkout / ".git"
    if not os.path.lexists(git) or not was_changed_after_run(state.folder, git):
        return True
    return is_masked(state.checkout) and is_mask_unused(state.checkout, note.base_sha)


def _undo_with_moved_git(
    state: StateFolder,
    note: RunNote | None,
    saved: SavedCheckout | None,
    git: Git,
    private: Path,
    *,
    unused: bool,
) -> RestoreReport:
    """Undo a run whose real ``.git`` was moved, unless something has used the throw-away since."""
    if not unused and _is_another_checkout(state, note):
        _set_aside(state)
        return RestoreReport()
    if note and (unused or _is_as_killed(state, note)) and (saved := _find_saved(state, saved)):
        return _undo(state, note, saved, git, private)
    raise _keep_throwaway(state)


def _undo_where_unused(
    state: StateFolder, note: RunNote | None, saved: SavedCheckout | None, git: Git, private: Path
) -> RestoreReport:
    """Undo a run whose real ``.git`` is in place, unless something has used it since, such as a
    runner: then the tree is already right. While ``OWNERS`` exists, the files are restored and only
    owners are not."""
    if (
        note
        and note.use == read_git_state(state.checkout / ".git")
        and not os.path.lexists(state.folder / OWNERS)
        and not _is_another_checkout(state, note)
        and (saved := _find_saved(state, saved))
    ):
        return _undo(state, note, saved, git, private)
    restore_owners_after_kill(state)
    restore_modes(state.folder)
    release(state)
    return RestoreReport()


def _find_saved(state: StateFolder, saved: SavedCheckout | None) -> SavedCheckout | None:
    # While the agents' user owns the tree, the state that was saved with that owner is valid.
    is_given = all(os.path.lexists(state.folder / name) for name in (OWNERS, GIVEN))
    if saved and not is_given:
        return saved
    try:
        return read_saved(state.folder / (GIVEN if is_given else SAVED), state.folder / COPIES)
    except (OSError, ValueError, RecursionError):
        return None


def _undo(
    state: StateFolder, note: RunNote, saved: SavedCheckout, git: Git, private: Path
) -> RestoreReport:
    nowhere = private / "nowhere"  # only the objects are needed to restore files
    objects = tuple(map(Path, note.objects))
    source = RepositoryPaths(nowhere, nowhere, nowhere, nowhere, None, objects, note.object_format)
    if os.path.lexists(state.real_git):
        source = build_moved_paths(source, state.checkout, state.folder)
    with tempfile.TemporaryDirectory(prefix="repair-", dir=private) as folder:
        repository = create_private_repository(git, Path(folder) / "git", source)
        with share_reader(repository) as shared:
            report = restore_checkout(state, saved, KnownTree(saved.entries), shared)
    restore_owners_after_kill(state)
    release(state)
    return report


def _describe_left_changes(checkout: Path, report: RestoreReport) -> str:
    if not report.failed:
        return f"a killed night left {checkout} as it was: {'; '.join(report.problems)}"
    return (
        f"a killed night left changes in {checkout} that cannot be undone"
        f" ({format_some_paths(report.failed)}): restore these files, then start the job again"
    )


def _keep_throwaway(state: StateFolder) -> NightshiftError:
    """Move the real ``.git`` back; keep the throw-away and the copies beside the checkout. Returns
    the error to raise.

    Leaves the tree alone: somebody uses it. A runner's next fetch into the real ``.git`` repairs
    the tree; a person finds their work in the throw-away.
    """
    unmask_git(state)
    restore_owners_after_kill(state)
    folder = _set_aside(state)
    return NightshiftError(
        Code.WORKSPACE_DIRTY,
        f"a night was killed in {state.checkout} and its throw-away .git was used since; the real"
        f" .git is back, the other is kept in {folder}: start the job again",
    )


def _set_aside(state: StateFolder) -> Path:
    """Rename the state folder, which may contain somebody's work; returns its new path."""
    aside = state.folder.with_name(f"{state.folder.name}-left")
    remove_path(aside)  # rename fails if the target folder is not empty (rename(2))
    state.folder.rename(aside)
    os.close(state.lock)
    return aside
