"""Prepares a checkout before agents work in it: checks it, and saves it so that it can be restored.

One process may prepare it and another one open it, which gets it as JSON.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
    save,
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


@dataclass(frozen=True)
class PreparedCheckout:
    """A checked and saved checkout. ``paths`` are the original paths of its repository's parts;
    ``moved``: the real ``.git`` is already in the folder of ``held``. ``config`` comes from
    ``git.read_conversion_config``."""

    checkout: Path
    held: LockedStateFolder
    paths: RepositoryPaths
    base_sha: str
    output_dir: str
    config: Mapping[str, str]
    saved: SavedCheckout = field(repr=False, metadata=LOCAL)
    moved: bool = field(default=False, metadata=LOCAL)


def read_prepared(data: Mapping[str, Any], *, moved: bool) -> PreparedCheckout:
    """The checkout that another process has prepared; this one inherits ``held.lock``. Raises
    OSError, ValueError."""
    folder = Path(data["held"]["folder"])
    saved = read_saved(folder / SAVED, folder / COPIES)
    return make_record(PreparedCheckout, data, saved=saved, moved=moved)


def prepare_checkout(
    held: LockedStateFolder, checkout: Path, *, git: Git, machine: Git, output_dir: str, run_id: str
) -> PreparedCheckout:
    """Check and save a clean checkout. ``machine`` is a git with this machine's own settings (LFS),
    ``output_dir`` (relative) is never part of a change.

    Raises NightshiftError E_CONFIG, E_WORKSPACE_DIRTY.
    """
    paths, base_sha = find_paths_and_head(git, checkout)
    refuse_changed(machine, checkout)
    listed = list_checkout(git, checkout)
    refuse_tracked(listed.index, output_dir)
    write_note(held, checkout, run_id, base_sha, paths)
    found = read_settings(git, checkout, *CONVERSION_KEYS, *ATTRIBUTE_KEYS)
    attributed = paths.attributes.exists() or not found.keys().isdisjoint(ATTRIBUTE_KEYS)
    saved = save(git, checkout, listed, held.folder / COPIES, attributed=attributed)
    write_saved(held.folder / SAVED, saved)
    StateFolder(checkout, held.folder, held.lock).last_reserve.hold()
    config = {key: value for key, value in found.items() if key in CONVERSION_KEYS}
    return PreparedCheckout(checkout, held, paths, base_sha, output_dir, config, saved)


def refuse_tracked(files: Iterable[str], output_dir: str) -> None:
    """Raise E_CONFIG if files of the output folder are tracked."""
    if any(within(path, output_dir) for path in files):
        raise build_config_error(
            f"output_dir: {output_dir} is tracked by git: choose another folder"
        )
