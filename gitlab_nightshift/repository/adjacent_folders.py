"""What is kept beside a checkout, and where: the runner's files, this program's folder."""

import hashlib
import os
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.sealed_start import SUFFIX


def list_hidden_places(home: Path, temporary: Path, checkout: Path) -> tuple[Path, ...]:
    """What no agent may see, wherever it is: the home, the folder for temporary files that holds a
    run's private one, what the runner and this program keep beside the checkout."""
    return (home, temporary, *list_places_beside(checkout))


def list_places_beside(checkout: Path) -> tuple[Path, ...]:
    """What the runner and this program keep beside a checkout."""
    return tuple(checkout.with_name(f"{checkout.name}{end}") for end in (".tmp", SUFFIX))


def list_candidate_places(checkout: Path, spare: Path) -> tuple[Path, Path]:
    """Where a checkout's state folder may be, the preferred place first; ``spare`` is the folder
    for temporary files."""
    name = hashlib.sha256(os.fsencode(checkout)).hexdigest()[:20]
    return checkout.with_name(checkout.name + SUFFIX), spare / f"gitlab-nightshift-{name}"


def choose_place(checkout: Path, spare: Path, *, moving: bool) -> Path:
    """The first place where the state folder can be, and to which ``.git`` can be moved if needed.

    Raises NightshiftError E_CONFIG where there is none.
    """
    here = _read_mount(checkout)
    for place in list_candidate_places(checkout, spare):
        near = not moving or _read_mount(place.parent) == here
        if near and os.access(place.parent, os.W_OK | os.X_OK):
            return place
    raise _build_no_place_error(checkout)


def refuse_far(checkout: Path, folder: Path) -> None:
    """Raise E_CONFIG where ``.git`` cannot be moved from the checkout to a folder."""
    if _read_mount(folder) != _read_mount(checkout):
        raise _build_no_place_error(checkout)


def _build_no_place_error(checkout: Path) -> NightshiftError:
    return build_config_error(
        f"the real .git of {checkout} has to be moved while agents work, and there is no place for"
        f" it on that file system: {checkout.parent} is on another one or cannot be written, and so"
        " is TMPDIR. Let TMPDIR name a folder there, or install bubblewrap, which needs no move"
    )


def _read_mount(folder: Path) -> str:
    """The mount that a folder is on: nothing can be renamed from one to another, not even where a
    bind mount shows the same file system."""
    fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        parts = Path(f"/proc/self/fdinfo/{fd}").read_text().split("mnt_id:")
        return parts[1].split()[0] if len(parts) > 1 else f"device {os.fstat(fd).st_dev}"
    finally:
        os.close(fd)
