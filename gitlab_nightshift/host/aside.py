"""The folder that a night keeps for a checkout: a note, what is saved of the tree, the throw-away
``.git``, and the real one where that had to be moved.

It says by itself how far a killed run came: the next start reads it. It stands beside the checkout;
where it cannot, in the folder for temporary files, under a name that the checkout's path gives.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError, config_error
from gitlab_nightshift.host.git import Place
from gitlab_nightshift.host.openat import remove_path
from gitlab_nightshift.host.sandbox.ownership import Owner
from gitlab_nightshift.host.signals import shield

VERSION = 2
SUFFIX = ".nightshift"
SAVED, COPIES, OWNERS = "saved.json", "copies", "owners.json"


@dataclass(frozen=True)
class Aside:
    """A checkout's folder, claimed by this process as long as ``lock`` is open.

    ``user`` (user, group) is whom the throw-away is for, None for this process's own. Where it is
    ``mounted`` over the real ``.git`` in a sandbox, the real one never moves.
    """

    checkout: Path
    folder: Path
    lock: int
    user: Owner | None = None
    mounted: bool = False

    @property
    def real_git(self) -> Path:
        """Where the real ``.git`` is while it is moved."""
        return self.folder / "git"

    @property
    def shown_git(self) -> Path:
        """Where the throw-away is that is mounted."""
        return self.folder / "shown"


@dataclass(frozen=True)
class Note:
    """What the next start has to know of a run: ids, the object folders while agents work, and,
    where the real ``.git`` stays, what tells that it was used since (``use_of``)."""

    run_id: str
    pid: int
    base_sha: str
    top: tuple[int, int]
    object_format: str
    objects: tuple[str, ...]
    use: str


def use_of(git_dir: Path) -> str:
    """What changes in a real ``.git`` as soon as somebody fetches, commits or checks out there."""
    found = []
    for name in ("HEAD", "FETCH_HEAD", "ORIG_HEAD"):
        try:
            status = (git_dir / name).stat()
            found.append(f"{name} {status.st_ino} {status.st_mtime_ns} {status.st_size}")
        except OSError:
            found.append(f"{name} -")
    return ", ".join(found)


def own_places(home: Path, private: Path, checkout: Path) -> tuple[Path, ...]:
    """What no agent may see wherever it lies: the home, the folder for temporary files that a run's
    ``private`` one is in, what the runner and this program keep beside the checkout."""
    return (home, private.parent, *kept_beside(checkout))


def kept_beside(checkout: Path) -> tuple[Path, ...]:
    """What the runner and this program keep beside a checkout."""
    return tuple(checkout.with_name(f"{checkout.name}{end}") for end in (".tmp", SUFFIX))


# --- where it stands ------------------------------------------------------------------------------


def places_of(checkout: Path, spare: Path) -> tuple[Path, Path]:
    """Where a checkout's folder may stand, the preferred place first; ``spare`` is the folder for
    temporary files."""
    name = hashlib.sha256(os.fsencode(checkout)).hexdigest()[:20]
    return checkout.with_name(checkout.name + SUFFIX), spare / f"gitlab-nightshift-{name}"


def choose_place(checkout: Path, spare: Path, *, moving: bool) -> Path:
    """The first place where the folder can be, and to which ``.git`` can be moved if it has to.

    Raises NightshiftError E_CONFIG where there is none.
    """
    here = _mount_of(checkout)
    for place in places_of(checkout, spare):
        near = not moving or _mount_of(place.parent) == here
        if near and os.access(place.parent, os.W_OK | os.X_OK):
            return place
    raise config_error(
        f"the real .git of {checkout} has to be moved while agents work, and there is no place for"
        f" it on that file system: {checkout.parent} is on another one or cannot be written, and so"
        " is TMPDIR. Let TMPDIR name a folder there, or install bubblewrap, which needs no move"
    )


def _mount_of(folder: Path) -> str:
    """The mount that a folder is on: nothing can be renamed from one to another, not even where a
    bind mount shows the same file system."""
    fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        told = Path(f"/proc/self/fdinfo/{fd}").read_text().split("mnt_id:")
        return told[1].split()[0] if len(told) > 1 else f"device {os.fstat(fd).st_dev}"
    finally:
        os.close(fd)


# --- claiming it ----------------------------------------------------------------------------------


@contextlib.contextmanager
def claimed(
    checkout: Path,
    folder: Path,
    parts: Place,
    base_sha: str,
    run_id: str,
    user: Owner | None = None,
    *,
    mounted: bool = False,
) -> Iterator[Aside]:
    """No other run works in the checkout as long as the block lasts. Raises as ``claim``.

    ``parts`` is where the parts of its repository are meanwhile.
    """
    status = checkout.stat()
    note = Note(
        run_id=run_id,
        pid=os.getpid(),
        base_sha=base_sha,
        top=(status.st_dev, status.st_ino),
        object_format=parts.object_format,
        objects=tuple(map(str, parts.objects)),
        use=use_of(checkout / ".git") if mounted else "",
    )
    aside = claim(checkout, folder, note, user, mounted=mounted)
    try:
        yield aside
    finally:
        with shield():
            release(aside)


def claim(
    checkout: Path, place: Path, note: Note, user: Owner | None = None, *, mounted: bool = False
) -> Aside:
    """Make the folder, locked from its first moment.

    Raises NightshiftError: E_CONFIG where it cannot be there, E_WORKSPACE_DIRTY where another
    night was faster.
    """
    try:
        new = Path(tempfile.mkdtemp(prefix=f"{place.name}-", dir=place.parent))
    except OSError as error:
        raise config_error(f"{place.parent} cannot be written ({error.strerror})") from None
    try:
        lock = _lock(new)
        assert lock is not None
        (new / "note.json").write_text(json.dumps({"version": VERSION, **vars(note)}))
    except OSError:  # such as a full disk
        remove_path(new)
        raise
    try:
        new.rename(place)
    except OSError:
        os.close(lock)
        remove_path(new)
        raise another_night(checkout, None) from None
    return Aside(checkout, place, lock, user, mounted)


def take_over(checkout: Path, spare: Path) -> Aside | None:
    """The folder that an ended run left, now ours; None where there is none.

    Raises NightshiftError E_WORKSPACE_DIRTY where that run is still alive.
    """
    folder = next((place for place in places_of(checkout, spare) if _is_ours(place)), None)
    if folder is None:
        return None
    try:
        lock = _lock(folder)
    except OSError as error:
        text = f"{folder}, left by a killed night, cannot be used ({error.strerror}): remove it"
        raise NightshiftError(Code.WORKSPACE_DIRTY, text) from None
    if lock is None:
        raise another_night(checkout, read_note(folder))
    return Aside(checkout, folder, lock, mounted=os.path.lexists(folder / "shown"))


def _is_ours(folder: Path) -> bool:
    """True for a folder that nobody else can have put there: temporary files are everybody's."""
    if not folder.is_dir() or folder.is_symlink():
        return False
    return folder.name.endswith(SUFFIX) or folder.stat().st_uid == os.geteuid()


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
    """The note in a checkout's folder; None where it is missing or damaged."""
    try:
        data: Any = json.loads((folder / "note.json").read_bytes())
        if data.pop("version") != VERSION:
            return None
        data["top"], data["objects"] = tuple(data["top"]), tuple(data["objects"])
        return Note(**data)
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return None


def release(aside: Aside) -> None:
    """Remove the folder, unless the real ``.git`` or owners are still in it."""
    if not any(os.path.lexists(path) for path in (aside.real_git, aside.folder / OWNERS)):
        with contextlib.suppress(OSError):
            remove_path(aside.folder)
    with contextlib.suppress(OSError):
        os.close(aside.lock)
