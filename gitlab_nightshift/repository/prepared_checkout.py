"""Prepares a checkout before agents work in it: checks it, and saves it so that it can be restored.
Also makes folders for the process that works in it.

A process may prepare a checkout for another one, to which it passes the result as JSON.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.records.codec import LOCAL, make_record
from gitlab_nightshift.repository.changed_files import refuse_changed
from gitlab_nightshift.repository.git import (
    ATTRIBUTE_KEYS,
    CONVERSION_KEYS,
    Git,
    RepositoryPaths,
    find_paths_and_head,
    read_settings,
)
from gitlab_nightshift.repository.saved_state import (
    SavedCheckout,
    list_checkout,
    read_saved,
    save_checkout,
    save_restored,
    write_saved,
)
from gitlab_nightshift.repository.state_folder import (
    COPIES,
    SAVED,
    LockedStateFolder,
    StateFolder,
    write_note,
)
from gitlab_nightshift.system.file_names import within
from gitlab_nightshift.system.private_folders import open_scratch_folder

FileState = tuple[int, ...]
"""Device, inode, size, mtime and ctime of a file; () if it is missing."""


@dataclass(frozen=True)
class PreparedCheckout:
    """A checked and saved checkout. ``held`` is its state folder; ``paths`` are the original paths
    of its repository's parts; ``moved``: the real ``.git`` is already in the state folder.
    ``config`` has the settings of ``git.CONVERSION_KEYS``, ``git_file_states`` the states of the
    files that git reads."""

    checkout: Path
    held: LockedStateFolder
    paths: RepositoryPaths
    base_sha: str
    output_dir: str
    config: Mapping[str, str]
    saved: SavedCheckout = field(repr=False, metadata=LOCAL)
    moved: bool = field(default=False, metadata=LOCAL)
    git_file_states: tuple[FileState, ...] = field(default=(), metadata=LOCAL)


def read_prepared(data: Mapping[str, Any], *, moved: bool) -> PreparedCheckout:
    """The checkout that another process has prepared, from its JSON; this process inherits
    ``held.lock``. Raises OSError, ValueError."""
    folder = Path(data["held"]["folder"])
    saved = read_saved(folder / SAVED, folder / COPIES)
    return make_record(PreparedCheckout, data, saved=saved, moved=moved)


def prepare_checkout(
    held: LockedStateFolder,
    checkout: Path,
    *,
    git: Git,
    machine_git: Git,
    output_dir: str,
    run_id: str,
) -> PreparedCheckout:
    """Check and save a clean checkout. ``machine_git`` is a git with this machine's own settings
    (LFS), ``output_dir`` (relative) is never part of a change.

    Raises NightshiftError E_CONFIG, E_WORKSPACE_DIRTY.
    """
    paths, base_sha = find_paths_and_head(git, checkout)
    refuse_changed(machine_git, checkout)
    git_file_states = _read_git_file_states(paths)
    listed = list_checkout(git, checkout)
    refuse_tracked(listed.index, output_dir)
    write_note(held, checkout, run_id, base_sha, paths)
    settings = read_settings(git, checkout, *CONVERSION_KEYS, *ATTRIBUTE_KEYS)
    attributes_outside_tree = (
        not settings.keys().isdisjoint(ATTRIBUTE_KEYS) or paths.attributes.exists()
    )
    copies = held.folder / COPIES
    saved = save_checkout(
        git, checkout, listed, copies, attributes_outside_tree=attributes_outside_tree
    )
    _write_state(held, checkout, saved)
    config = {key: value for key, value in settings.items() if key in CONVERSION_KEYS}
    return PreparedCheckout(
        checkout, held, paths, base_sha, output_dir, config, saved, git_file_states=git_file_states
    )


def prepare_restored(
    held: LockedStateFolder, earlier: PreparedCheckout, run_id: str
) -> PreparedCheckout | None:
    """Prepare a restored checkout for another process, without running git. ``earlier.saved`` is
    its state after the restore.

    None if the tree, or what git would answer, may have changed since: then call
    ``prepare_checkout``. Raises OSError, NightshiftError E_CONFIG.
    """
    paths, checkout = earlier.paths, earlier.checkout
    # HEAD has to name the commit: a branch could have moved without a change of HEAD.
    detached = (paths.git_dir / "HEAD").read_bytes() == f"{earlier.base_sha}\n".encode()
    if not detached or earlier.git_file_states != _read_git_file_states(paths):
        return None
    saved = save_restored(earlier.saved, checkout, held.folder / COPIES)
    if saved is None:
        return None
    write_note(held, checkout, run_id, earlier.base_sha, paths)
    _write_state(held, checkout, saved)
    return replace(earlier, held=held, saved=saved)


def _write_state(held: LockedStateFolder, checkout: Path, saved: SavedCheckout) -> None:
    write_saved(held.folder / SAVED, saved)
    StateFolder(checkout, held.folder, held.lock).last_reserve.allocate()


def _read_git_file_states(paths: RepositoryPaths) -> tuple[FileState, ...]:
    """The states of the files from which an isolated git knows the tree."""
    configs = dict.fromkeys(
        folder / name
        for folder in (paths.git_dir, paths.objects[0].parent)
        for name in ("config", "config.worktree")
    )
    return tuple(map(_read_file_state, (*configs, paths.index, paths.exclude, paths.attributes)))


def _read_file_state(path: Path) -> FileState:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def refuse_tracked(files: Iterable[str], output_dir: str) -> None:
    """Raise E_CONFIG if one of these tracked files is in the output folder."""
    if any(within(path, output_dir) for path in files):
        raise build_config_error(
            f"output_dir: {output_dir} is tracked by git: choose another folder"
        )


# --- folders of the process that works in it ------------------------------------------------------


TEMPORARY = "own"  # the name of the process's folder for temporary files


@dataclass(frozen=True)
class PreparedFolders:
    """Folders that the supervisor makes for work or another process, which may not make them
    itself. ``private`` is the process's part of the run's private folder; ``scratch`` is for the
    folders of agents. In ``spare``, the job's folder for temporary files, the process may write
    only to these two. ``checkout`` is set once it is prepared."""

    private: Path
    scratch: Path
    spare: Path
    checkout: PreparedCheckout | None = field(default=None, metadata=LOCAL)

    @property
    def temporary(self) -> Path:
        """The process's folder for temporary files. Like ``scratch``, other users may enter it."""
        return self.scratch / TEMPORARY

    @property
    def writable(self) -> tuple[Path, ...]:
        """The folders in which the process may write."""
        return self.private, self.scratch


@contextlib.contextmanager
def prepare_folders(checkout: Path, private: Path, name: str = "work") -> Iterator[PreparedFolders]:
    """Make the folders for a process of a run. ``private`` is the run's private folder, ``name``
    that of the process's part of it. ``scratch`` is removed at the end of the block."""
    process_private = private / name
    process_private.mkdir(mode=0o700)
    with open_scratch_folder(private.parent, checkout) as scratch:
        folders = PreparedFolders(process_private, scratch, private.parent)
        folders.temporary.mkdir()
        folders.temporary.chmod(0o711)
        yield folders
