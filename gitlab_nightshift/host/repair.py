"""What a killed run left of a checkout is undone by the next start."""

import os
import tempfile
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.host.aside import (
    COPIES,
    SAVED,
    Aside,
    Note,
    read_note,
    release,
    take_over,
    use_of,
)
from gitlab_nightshift.host.cover import discard, is_cover, is_cover_unused, uncover
from gitlab_nightshift.host.git import Git, Place, pristine
from gitlab_nightshift.host.openat import remove_path
from gitlab_nightshift.host.owners import end_left, give_back_after_kill
from gitlab_nightshift.host.paths import display
from gitlab_nightshift.host.repository import private_repository
from gitlab_nightshift.host.restore import put_back, settle
from gitlab_nightshift.host.saved import Saved, read_saved
from gitlab_nightshift.host.signals import shield
from gitlab_nightshift.host.space import Disks
from gitlab_nightshift.host.tree import TOP


def repair(path: Path, *, private: Path, search_path: str) -> bool:
    """Undo what a killed run left of ``path``; True where there was something to undo.

    To be called before anything else reads the checkout's git (``open_checkout`` does it too).
    ``private`` is a folder that no agent can reach, in that for temporary files. Raises
    NightshiftError E_WORKSPACE_DIRTY where another night runs there, where not everything could be
    undone, or where something else has worked on in the throw-away ``.git``; the real one is back
    in each of the last two cases.
    """
    aside = take_over(path.resolve(), private.parent)
    if aside is None:
        return False
    note = read_note(aside.folder)
    with shield():
        end_left(aside)
        if aside.mounted:
            _undo_where_unused(aside, note, pristine(private / "home", search_path), private)
        elif not os.path.lexists(aside.real_git):
            give_back_after_kill(aside)
            release(aside)
        elif _is_another_checkout(aside, note):
            _keep(aside)
        elif note and _is_as_killed(aside, note) and (saved := _saved(aside)):
            _undo(aside, note, saved, pristine(private / "home", search_path), private)
        else:
            raise _hand_over(aside)
    return True


def _is_another_checkout(aside: Aside, note: Note | None) -> bool:
    """True where the folder was deleted since and the project checked out anew."""
    status = aside.checkout.stat()
    moved = note is not None and note.top != (status.st_dev, status.st_ino)
    return moved and not is_cover(aside.checkout)


def _is_as_killed(aside: Aside, note: Note) -> bool:
    """True where nothing has used the throw-away since; a runner would have fetched into it."""
    if not os.path.lexists(aside.checkout / ".git"):
        return True
    return is_cover(aside.checkout) and is_cover_unused(aside.checkout, note.base_sha)


def _undo_where_unused(aside: Aside, note: Note | None, git: Git, private: Path) -> None:
    """The real ``.git`` never moved. Whoever has fetched into it since has put the tree right."""
    unused = note and note.use == use_of(aside.checkout / ".git")
    if note and unused and not _is_another_checkout(aside, note) and (saved := _saved(aside)):
        _undo(aside, note, saved, git, private)
    else:
        release(aside)


def _saved(aside: Aside) -> Saved | None:
    try:
        return read_saved(aside.folder / SAVED, aside.folder / COPIES)
    except (OSError, ValueError):
        return None


def _undo(aside: Aside, note: Note, saved: Saved, git: Git, private: Path) -> None:
    nowhere = private / "nowhere"
    objects = tuple(Path(folder) for folder in note.objects)
    source = Place(nowhere, nowhere, nowhere, nowhere, None, objects, note.object_format)
    with tempfile.TemporaryDirectory(prefix="repair-", dir=private) as folder:
        repository = private_repository(git, Path(folder) / "git", source)
        if Disks((aside.checkout,)).full():
            discard(aside)
        failed = put_back(aside.checkout, saved, saved.entries, repository).failed
    uncover(aside)
    settle(aside.checkout, TOP, saved.entries[TOP], saved.lists.get(TOP, {}))
    give_back_after_kill(aside)
    release(aside)
    if failed:
        raise NightshiftError(Code.WORKSPACE_DIRTY, _left_changed(aside.checkout, failed))


def _left_changed(checkout: Path, failed: tuple[str, ...]) -> str:
    names = ", ".join(display(path) for path in failed[:3])
    more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
    return (
        f"a killed night left changes in {checkout} that cannot be undone ({names}{more}):"
        " make these files anew, then start the job again"
    )


def _hand_over(aside: Aside) -> NightshiftError:
    """The real ``.git`` comes back; the throw-away and the copies are kept beside the checkout.

    The tree is not touched: it is no longer the night's. A runner that fetches into the real
    ``.git`` next time brings all in order; a person finds what was done in the throw-away.
    """
    uncover(aside)
    give_back_after_kill(aside)
    left = _keep(aside)
    return NightshiftError(
        Code.WORKSPACE_DIRTY,
        f"a night was killed in {aside.checkout} and its throw-away .git was used since; the real"
        f" .git is back, the other is kept in {left}: start the job again",
    )


def _keep(aside: Aside) -> Path:
    """What may be somebody's is kept under another name, the last one only."""
    left = aside.folder.with_name(f"{aside.folder.name}-left")
    remove_path(left)
    aside.folder.rename(left)
    os.close(aside.lock)
    return left
