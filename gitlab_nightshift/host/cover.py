"""The cover: an agent sees a throw-away ``.git`` while the real one is out of its reach.

Where agents have mounts of their own, the throw-away is mounted over the real one for them alone.
Else the real one is moved into the checkout's folder (``aside.py``) meanwhile.
"""

import contextlib
import os
from dataclasses import replace
from pathlib import Path

from gitlab_nightshift.host.aside import Aside
from gitlab_nightshift.host.git import Place
from gitlab_nightshift.host.openat import Refused, grant, opened, read_regular, remove_path
from gitlab_nightshift.host.throwaway import MARKER, copied

THROWAWAY = "throwaway"
"""The pattern that every throw-away is a copy of."""


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
    """Move the real ``.git`` aside and a copy of the throw-away into its place, or make that ready
    to be mounted there. Raises OSError."""
    if aside.mounted:
        copied(aside.folder / THROWAWAY, aside.shown_git, aside.user)
        return
    fresh = _copied(aside)
    (aside.checkout / ".git").rename(aside.real_git)
    fresh.rename(aside.checkout / ".git")


def renew(aside: Aside) -> None:
    """Give the next agent a throw-away as the first one found it. Raises OSError.

    Does nothing before ``cover``.
    """
    if aside.mounted and os.path.lexists(aside.shown_git):
        remove_path(aside.shown_git)
        cover(aside)
    if os.path.lexists(aside.real_git):
        discard(aside)
        _copied(aside).rename(aside.checkout / ".git")


def discard(aside: Aside) -> None:
    """Remove the throw-away, with all that an agent put there. Raises OSError.

    Does nothing before ``cover``. Until ``renew`` the next agent would have none.
    """
    if aside.mounted and os.path.lexists(aside.shown_git):
        remove_path(aside.shown_git)
        aside.shown_git.mkdir()
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
    return on_base and not fetched and b"url" not in (config or b"").lower()


def _small_file(checkout: Path, name: str) -> bytes | None:
    with contextlib.suppress(Refused):
        return read_regular(checkout, f".git/{name}", 100_000)
    return None
