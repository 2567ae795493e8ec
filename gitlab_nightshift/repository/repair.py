"""Undo, at the next start, what a killed run left in a checkout."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.repository.alive_mark import is_changed_since
from gitlab_nightshift.repository.changed_files import format_some_paths
from gitlab_nightshift.repository.checkout_restore import KnownTree, RestoreReport, restore_checkout
from gitlab_nightshift.repository.git import Git, RepositoryPaths, build_isolated_git
from gitlab_nightshift.repository.git_mask import (
    build_moved_place,
    is_mask_unused,
    is_masked,
    unmask_git,
)
from gitlab_nightshift.repository.owners import end_left, give_back_after_kill
from gitlab_nightshift.repository.private_repository import create_private_repository
from gitlab_nightshift.repository.saved_state import SavedCheckout, read_saved
from gitlab_nightshift.repository.shared_state import give_modes_back
from gitlab_nightshift.repository.state_folder import (
    COPIES,
    GIVEN,
    OWNERS,
    SAVED,
    LockedStateFolder,
    RunNote,
    StateFolder,
    read_git_use,
    read_note,
    release,
    take_over,
)
from gitlab_nightshift.sandbox.uid_tier import remove_trial_folders
from gitlab_nightshift.system.openat import remove_path
from gitlab_nightshift.system.signals import defer_signals


def repair(
    path: Path,
    *,
    private: Path,
    search_path: str,
    just_now: bool = False,
    tell: Callable[[RestoreReport], object] | None = None,
    held: LockedStateFolder | None = None,
) -> bool:
    """Undo what a run left of ``path``; True where there was something to undo.

    To be called before anything else reads the checkout's git (``open_checkout`` does it too).
    ``private`` is a folder that no agent can access, in that for temporary files. ``just_now`` says
    that nobody else was there since that run's end: a commit in the throw-away is an agent's.
    ``held`` is that run's state folder, where it is the caller's own: it is not looked for then.

    What is done depends on the state folder without its part ``own``, in which agents' side writes,
    and, for a later start, on whether something has used the checkout since.

    Raises NightshiftError E_WORKSPACE_DIRTY where another night runs there, where not everything
    could be undone (``tell`` gets that instead), or where something else has worked on in
    the throw-away ``.git``; the real one is back in each of the last two cases.
    """
    remove_trial_folders(path.resolve())
    state = held.take(path.resolve()) if held else take_over(path.resolve(), private.parent)
    if state is None:
        return False
    note, left = read_note(state.folder), RestoreReport()
    with defer_signals():
        end_left(state)
        git = build_isolated_git(private / "home", search_path)
        if not os.path.lexists(state.real_git):
            left = _undo_where_unused(state, note, git, private)
        elif not just_now and _is_another_checkout(state, note):
            _keep(state)
        elif note and (just_now or _is_as_killed(state, note)) and (saved := _find_saved(state)):
            left = _undo(state, note, saved, git, private)
        else:
            raise _hand_over(state)
    if tell:
        tell(left)
    elif left.trouble:
        raise NightshiftError(Code.WORKSPACE_DIRTY, _describe_left_changes(state.checkout, left))
    return True


def _is_another_checkout(state: StateFolder, note: RunNote | None) -> bool:
    """True where the folder was deleted since and the project checked out anew."""
    status = state.checkout.stat()
    return note is not None and note.top != (status.st_dev, status.st_ino)


def _is_as_killed(state: StateFolder, note: RunNote) -> bool:
    """True where nothing has used the throw-away since; a runner would have fetched into it."""
    git = state.checkout / ".git"
    if not os.path.lexists(git) or not is_changed_since(state.folder, git):
        return True
    return is_masked(state.checkout) and is_mask_unused(state.checkout, note.base_sha)


def _undo_where_unused(
    state: StateFolder, note: RunNote | None, git: Git, private: Path
) -> RestoreReport:
    """The real ``.git`` never moved, or is back. Whoever has fetched into it since has put the tree
    right. Where owners are left to be given back, ``.git`` was to be moved, or is back."""
    unused = note and note.use == read_git_use(state.checkout / ".git")
    same = unused and not os.path.lexists(state.folder / OWNERS)
    same = same and not _is_another_checkout(state, note)
    if note and same and (saved := _find_saved(state)):
        return _undo(state, note, saved, git, private)
    give_back_after_kill(state)
    give_modes_back(state.folder)
    release(state)
    return RestoreReport()


def _find_saved(state: StateFolder) -> SavedCheckout | None:
    given = all(os.path.lexists(state.folder / name) for name in (OWNERS, GIVEN))
    try:
        return read_saved(state.folder / (GIVEN if given else SAVED), state.folder / COPIES)
    except (OSError, ValueError, RecursionError):
        return None


def _undo(
    state: StateFolder, note: RunNote, saved: SavedCheckout, git: Git, private: Path
) -> RestoreReport:
    nowhere = private / "nowhere"
    objects = tuple(map(Path, note.objects))
    source = RepositoryPaths(nowhere, nowhere, nowhere, nowhere, None, objects, note.object_format)
    if os.path.lexists(state.real_git):
        source = build_moved_place(source, state.checkout, state.folder)
    with tempfile.TemporaryDirectory(prefix="repair-", dir=private) as folder:
        repository = create_private_repository(git, Path(folder) / "git", source)
        left = restore_checkout(state, saved, KnownTree(saved.entries), repository)
    give_back_after_kill(state)
    release(state)
    return left


def _describe_left_changes(checkout: Path, left: RestoreReport) -> str:
    if not left.failed:
        return f"a killed night left {checkout} as it was: {'; '.join(left.trouble)}"
    return (
        f"a killed night left changes in {checkout} that cannot be undone"
        f" ({format_some_paths(left.failed)}): make these files anew, then start the job again"
    )


def _hand_over(state: StateFolder) -> NightshiftError:
    """The real ``.git`` comes back; the throw-away and the copies are kept beside the checkout.

    The tree is not touched: it is no longer the night's. A runner that fetches into the real
    ``.git`` next time brings all in order; a person finds what was done in the throw-away.
    """
    unmask_git(state)
    give_back_after_kill(state)
    left = _keep(state)
    return NightshiftError(
        Code.WORKSPACE_DIRTY,
        f"a night was killed in {state.checkout} and its throw-away .git was used since; the real"
        f" .git is back, the other is kept in {left}: start the job again",
    )


def _keep(state: StateFolder) -> Path:
    """What may be somebody's is kept under another name, the last one only."""
    left = state.folder.with_name(f"{state.folder.name}-left")
    remove_path(left)
    state.folder.rename(left)
    os.close(state.lock)
    return left
