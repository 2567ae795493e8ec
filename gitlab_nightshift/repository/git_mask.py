"""Masks ``.git``: an agent sees a throw-away one and cannot access the real one.

If agents have their own mounts, the throw-away is mounted over the real one for them alone.
Otherwise the real one is moved to the checkout's state folder (``state_folder.py``).
"""

import contextlib
import os
from dataclasses import replace
from pathlib import Path

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.repository.git import RepositoryPaths
from gitlab_nightshift.repository.state_folder import StateFolder, refuse_other_mount
from gitlab_nightshift.repository.throwaway_git import MARKER, copy_throwaway, is_fresh_copy
from gitlab_nightshift.system.openat import (
    RefusedFileError,
    grant_access,
    open_folder,
    read_regular,
    remove_path,
)


def build_moved_paths(paths: RepositoryPaths, checkout: Path, folder: Path) -> RepositoryPaths:
    """The paths of the repository's parts once ``.git``, if it is a folder, is in ``folder``."""
    git = checkout / ".git"
    real = folder / "git" if os.path.lexists(folder / "git") else git
    if real.is_symlink() or not real.is_dir():
        return paths

    def move_path(path: Path) -> Path:
        return folder / "git" / path.relative_to(git) if path.is_relative_to(git) else path

    return replace(
        paths,
        git_dir=move_path(paths.git_dir),
        index=move_path(paths.index),
        exclude=move_path(paths.exclude),
        attributes=move_path(paths.attributes),
        shallow=move_path(paths.shallow) if paths.shallow else None,
        objects=tuple(move_path(path) for path in paths.objects),
    )


def mask_git(state: StateFolder) -> None:
    """Move the real ``.git`` to the state folder and put a copy of the throw-away in its place, or
    prepare that copy to be mounted there. Raises OSError, NightshiftError E_CONFIG."""
    if state.mounted:
        copy_throwaway(state.template, state.shown_git, state.user)
        return
    # The copy first: between the two renames, the checkout has no .git at all.
    fresh = _copy_throwaway(state)
    move_git(state.checkout, state.folder)
    fresh.rename(state.checkout / ".git")


def move_git(checkout: Path, folder: Path) -> None:
    """Move the real ``.git`` to ``folder``, unless it is there already. Raises E_CONFIG."""
    target = folder / "git"
    if os.path.lexists(target):
        return
    refuse_other_mount(checkout, folder)
    try:
        (checkout / ".git").rename(target)
    except OSError as error:
        raise build_config_error(
            f"{checkout}/.git cannot be moved to {folder} ({error.strerror}):"
            " check the project out on a file system of its own user, not in an image"
        ) from None


def renew_throwaway(state: StateFolder) -> None:
    """After ``mask_git``: replace the throw-away unless it is unchanged. Raises OSError."""
    shown = state.shown_git if state.mounted else state.checkout / ".git"
    if not os.path.lexists(state.shown_git if state.mounted else state.real_git):
        return
    if os.path.lexists(shown) and is_fresh_copy(state.template, shown, state.user):
        return
    if state.mounted:
        remove_path(shown)
        mask_git(state)
    else:
        discard_throwaway(state)
        _copy_throwaway(state).rename(shown)


def discard_throwaway(state: StateFolder) -> None:
    """Remove the throw-away with all that an agent put there. There is none until
    ``renew_throwaway``. Does nothing before ``mask_git``. Raises OSError."""
    if os.path.lexists(state.shown_git):
        remove_path(state.shown_git)
        if state.mounted:  # a sandbox can mount only what exists (mount(2))
            state.shown_git.mkdir()
    if os.path.lexists(state.real_git) and (moved := _move_throwaway(state, state.writable)):
        remove_path(moved)


def unmask_git(state: StateFolder) -> None:
    """Move the real ``.git`` back, and what was in its place to the state folder. Does nothing if
    the real one is in place. Raises OSError."""
    with open_folder(state.folder):
        if os.path.lexists(state.real_git):
            _move_throwaway(state, state.folder)
            state.real_git.rename(state.checkout / ".git")


def _copy_throwaway(state: StateFolder) -> Path:
    path = _build_unused_path(state.writable, "fresh")
    return copy_throwaway(state.template, path, state.user)


def _move_throwaway(state: StateFolder, folder: Path) -> Path | None:
    """Move what is in the place of ``.git``, if anything, to ``folder``; returns its new path."""
    shown, target = state.checkout / ".git", _build_unused_path(folder, "used")
    with open_folder(state.checkout), open_folder(folder):
        if not os.path.lexists(shown):
            return None
        grant_access(shown)
        shown.rename(target)
    return target


def _build_unused_path(folder: Path, kind: str) -> Path:
    return folder / f"{kind}-{os.urandom(4).hex()}"


def is_masked(checkout: Path) -> bool:
    """True if the checkout's ``.git`` is a throw-away of ours."""
    return _read_small_file(checkout, MARKER) is not None


def is_mask_unused(checkout: Path, base_sha: str) -> bool:
    """True if the throw-away is still at its commit, and no runner has fetched into it: a fetch
    writes FETCH_HEAD, and the runner a URL into the configuration."""
    config = _read_small_file(checkout, "config")
    if config is None or os.path.lexists(checkout / ".git/FETCH_HEAD"):
        return False
    on_base = _read_small_file(checkout, "HEAD") == f"{base_sha}\n".encode()
    return on_base and b"url" not in config.lower()


def _read_small_file(checkout: Path, name: str) -> bytes | None:
    with contextlib.suppress(RefusedFileError):
        return read_regular(checkout, f".git/{name}", 100_000)
    return None
