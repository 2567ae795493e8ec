"""The cover: an agent sees a throw-away ``.git`` while the real one is out of its reach.

Beside the checkout a folder ``<name>.nightshift`` holds the real ``.git``, a note and what is
saved of the tree. It says by itself how far a killed run came: the next start reads it.
"""

import contextlib
import fcntl
import json
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError, config_error
from gitlab_nightshift.host.git import Place
from gitlab_nightshift.host.openat import Refused, grant, opened, read_regular, remove_path
from gitlab_nightshift.host.sandbox.ownership import Owner
from gitlab_nightshift.host.throwaway import MARKER, copied

VERSION = 1
SUFFIX = ".nightshift"
SAVED, COPIES, THROWAWAY, OWNERS = "saved.json", "copies", "throwaway", "owners.json"


@dataclass(frozen=True)
class Aside:
    """The folder beside a checkout, claimed by this process as long as ``lock`` is open.

    ``user`` (user, group) is whom the throw-away is for, None for this process's own.
    """

    checkout: Path
    folder: Path
    lock: int
    user: Owner | None = None

    @property
    def real_git(self) -> Path:
        """Where the real ``.git`` is while it is covered."""
        return self.folder / "git"


@dataclass(frozen=True)
class Note:
    """What the next start has to know of a run: ids and the object folders while covered."""

    run_id: str
    pid: int
    base_sha: str
    top: tuple[int, int]
    object_format: str
    objects: tuple[str, ...]


# --- the folder beside the checkout -------------------------------------------------------------


def aside_of(checkout: Path) -> Path:
    """Where a checkout's folder for the real ``.git`` stands."""
    return checkout.with_name(checkout.name + SUFFIX)


def claim(checkout: Path, note: Note, user: Owner | None = None) -> Aside:
    """Make the folder beside the checkout, locked from its first moment.

    Raises NightshiftError: E_CONFIG where it cannot be there, E_WORKSPACE_DIRTY where another
    night was faster.
    """
    if checkout.parent.stat().st_dev != checkout.stat().st_dev:
        raise config_error(f"{checkout} is a mount point: check the project out in a folder of it")
    try:
        new = Path(tempfile.mkdtemp(prefix=f"{checkout.name}{SUFFIX}-", dir=checkout.parent))
    except OSError as error:
        raise config_error(
            f"{checkout.parent} cannot be written ({error.strerror}), but the real .git is moved"
            " there while agents work: give the job's user the right to write there"
        ) from None
    try:
        lock = _lock(new)
        assert lock is not None
        (new / "note.json").write_text(json.dumps({"version": VERSION, **vars(note)}))
    except OSError:  # such as a full disk
        remove_path(new)
        raise
    try:
        new.rename(aside_of(checkout))
    except OSError:
        os.close(lock)
        remove_path(new)
        raise another_night(checkout, None) from None
    return Aside(checkout, aside_of(checkout), lock, user)


def take_over(checkout: Path) -> Aside | None:
    """The folder that an ended run left, now ours; None where there is none.

    Raises NightshiftError E_WORKSPACE_DIRTY where that run is still alive.
    """
    folder = aside_of(checkout)
    if not folder.is_dir():
        return None
    try:
        lock = _lock(folder)
    except OSError as error:
        text = f"{folder}, left by a killed night, cannot be used ({error.strerror}): remove it"
        raise NightshiftError(Code.WORKSPACE_DIRTY, text) from None
    if lock is None:
        raise another_night(checkout, read_note(folder))
    return Aside(checkout, folder, lock)


def _lock(folder: Path) -> int | None:
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def another_night(checkout: Path, note: Note | None) -> NightshiftError:
    """Two runs cannot share a checkout."""
    who = f" (pid {note.pid}, run {note.run_id})" if note else ""
    text = f"another night runs in {checkout}{who}: wait for its end"
    return NightshiftError(Code.WORKSPACE_DIRTY, text)


def read_note(folder: Path) -> Note | None:
    """The note in a folder beside a checkout; None where it is missing or damaged."""
    try:
        data: Any = json.loads((folder / "note.json").read_bytes())
        if data.pop("version") != VERSION:
            return None
        data["top"], data["objects"] = tuple(data["top"]), tuple(data["objects"])
        return Note(**data)
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return None


def release(aside: Aside) -> None:
    """Remove the folder beside the checkout, unless the real ``.git`` or owners are still in it."""
    if not any(os.path.lexists(path) for path in (aside.real_git, aside.folder / OWNERS)):
        with contextlib.suppress(OSError):
            remove_path(aside.folder)
    with contextlib.suppress(OSError):
        os.close(aside.lock)


# --- the cover ------------------------------------------------------------------------------------


def covered(place: Place, checkout: Path, aside: Path) -> Place:
    """Where the parts of the repository are once ``.git`` is moved, if it is a folder."""
    git = checkout / ".git"
    if git.is_symlink() or not git.is_dir():
        return place

    def moved(path: Path) -> Path:
        return aside / "git" / path.relative_to(git) if path.is_relative_to(git) else path

    return replace(
        place,
        git_dir=moved(place.git_dir),
        index=moved(place.index),
        exclude=moved(place.exclude),
        attributes=moved(place.attributes),
        shallow=moved(place.shallow) if place.shallow else None,
        objects=tuple(moved(path) for path in place.objects),
    )


def cover(aside: Aside) -> None:
    """Move the real ``.git`` aside and a copy of the throw-away into its place. Raises OSError."""
    fresh = _copied(aside)
    (aside.checkout / ".git").rename(aside.real_git)
    fresh.rename(aside.checkout / ".git")


def renew(aside: Aside) -> None:
    """Give the next agent a throw-away as the first one found it. Raises OSError.

    Does nothing where the real ``.git`` is in place.
    """
    if os.path.lexists(aside.real_git):
        discard(aside)
        _copied(aside).rename(aside.checkout / ".git")


def discard(aside: Aside) -> None:
    """Remove the throw-away, with all that an agent put there. Raises OSError.

    Does nothing where the real ``.git`` is in place. Until ``renew`` the checkout has none.
    """
    if os.path.lexists(aside.real_git) and (used := _taken_away(aside)):
        remove_path(used)


def uncover(aside: Aside) -> None:
    """Bring the real ``.git`` back, whatever stands in its place; that is kept in ``aside``.

    Does nothing where the real one is in place. Raises OSError.
    """
    if os.path.lexists(aside.real_git):
        _taken_away(aside)
        aside.real_git.rename(aside.checkout / ".git")


def _copied(aside: Aside) -> Path:
    return copied(aside.folder / THROWAWAY, _unused(aside, "fresh"), aside.user)


def _taken_away(aside: Aside) -> Path | None:
    shown, used = aside.checkout / ".git", _unused(aside, "used")
    with opened(aside.checkout):
        if not os.path.lexists(shown):
            return None
        grant(shown)
        shown.rename(used)
    return used


def _unused(aside: Aside, kind: str) -> Path:
    return aside.folder / f"{kind}-{os.urandom(4).hex()}"


def is_cover(checkout: Path) -> bool:
    """True where the checkout's ``.git`` is a throw-away of ours."""
    return _small_file(checkout, MARKER) is not None


def is_cover_unused(checkout: Path, base_sha: str) -> bool:
    """True where the throw-away is still on its commit and nobody has fetched into it."""
    config = _small_file(checkout, "config")
    fetched = os.path.lexists(checkout / ".git/FETCH_HEAD") or config is None
    on_base = _small_file(checkout, "HEAD") == f"{base_sha}\n".encode()
    return on_base and not fetched and b"remote" not in (config or b"").lower()


def _small_file(checkout: Path, name: str) -> bytes | None:
    with contextlib.suppress(Refused):
        return read_regular(checkout, f".git/{name}", 100_000)
    return None
