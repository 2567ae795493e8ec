"""The files and folders beside a checkout: the runner's, and this program's state folder."""

import hashlib
import os
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.sealed_start import SUFFIX


def list_hidden_paths(home: Path, temporary: Path, checkout: Path) -> tuple[Path, ...]:
    """Paths that no agent may see: the home, the folder for temporary files with the run's private
    folder in it, and the runner's and this program's files beside the checkout."""
    return (home, temporary, *list_adjacent_paths(checkout))


def list_adjacent_paths(checkout: Path) -> tuple[Path, ...]:
    """The runner's and this program's files beside a checkout."""
    return tuple(checkout.with_name(f"{checkout.name}{end}") for end in (".tmp", SUFFIX))


def list_candidate_folders(checkout: Path, spare: Path) -> tuple[Path, Path]:
    """Where a checkout's state folder may be, the preferred path first; ``spare`` is the folder for
    temporary files."""
    name = hashlib.sha256(os.fsencode(checkout)).hexdigest()[:20]
    return checkout.with_name(checkout.name + SUFFIX), spare / f"gitlab-nightshift-{name}"


def choose_folder(checkout: Path, spare: Path, *, moving: bool) -> Path:
    """The first path where the state folder can be, and to which ``.git`` can be moved if needed.

    Raises NightshiftError E_CONFIG if there is none.
    """
    mount = _read_mount(checkout)
    for path in list_candidate_folders(checkout, spare):
        same_mount = not moving or _read_mount(path.parent) == mount
        if same_mount and os.access(path.parent, os.W_OK | os.X_OK):
            return path
    raise _build_no_folder_error(checkout)


def refuse_other_mount(checkout: Path, folder: Path) -> None:
    """Raise E_CONFIG if ``.git`` cannot be moved from the checkout to a folder."""
    if _read_mount(folder) != _read_mount(checkout):
        raise _build_no_folder_error(checkout)


def _build_no_folder_error(checkout: Path) -> NightshiftError:
    return build_config_error(
        f"the real .git of {checkout} has to be moved while agents work, and there is no place for"
        f" it on that file system: {checkout.parent} is on another one or cannot be written, and so"
        " is TMPDIR. Let TMPDIR name a folder there, or install bubblewrap, which needs no move"
    )


def _read_mount(folder: Path) -> str:
    """The mount of a folder: rename fails with EXDEV between two mounts, even if both show the same
    file system (rename(2))."""
    # Of the same file system, a bind mount is another mount: st_dev does not tell them apart, the
    # mount's id does (proc_pid_fdinfo(5)).
    fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        parts = Path(f"/proc/self/fdinfo/{fd}").read_text().split("mnt_id:")
        return parts[1].split()[0] if len(parts) > 1 else f"device {os.fstat(fd).st_dev}"
    finally:
        os.close(fd)
