"""The folder that a run keeps for a checkout: a note, what is saved of the tree, the throw-away
``.git``, and the real one where that had to be moved.

It shows how far a killed run came: the next start reads it. It is beside the checkout; where that
is impossible, in the folder for temporary files, under a name made from the checkout's path.
"""

import contextlib
import fcntl
import json
import os
import re
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.repository.adjacent_folders import choose_place, list_candidate_places
from gitlab_nightshift.repository.git import RepositoryPaths
from gitlab_nightshift.sandbox.tree_ownership import Owner
from gitlab_nightshift.sealed_start import SUFFIX
from gitlab_nightshift.system.disk_reserve import Reserve
from gitlab_nightshift.system.openat import open_folder, pin_file, remove_path

VERSION = 3
RESERVE_BYTES = 1_000_000
NOTE, SAVED, COPIES, OWNERS = "note.json", "saved.json", "copies", "owners.json"
GIVEN = "given.json"
"""What is saved of a tree that is agents' user's: it counts as long as there is ``OWNERS``."""
OWN, SHOWN, LOCK, SHARED, RESERVE = "own", "shown", "lock", "shared", "reserve"


@dataclass(frozen=True)
class StateFolder:
    """A checkout's state folder, held as long as ``lock`` is open.

    ``user`` (user, group) is whom the throw-away is for, None for this process's own. Where it is
    ``mounted`` over the real ``.git`` in a sandbox, the real one never moves.
    """

    checkout: Path
    folder: Path
    lock: int
    user: Owner | None = None
    mounted: bool = False

    @property
    def own(self) -> Path:
        """What is written while agents work. All else is as it was before the first of them."""
        return self.folder / OWN

    @property
    def real_git(self) -> Path:
        """Where the real ``.git`` is while it is moved."""
        return self.folder / "git"

    @property
    def reserve(self) -> Reserve:
        """Space on the checkout's disk for putting back what an agent has moved or removed."""
        return Reserve(self.own / RESERVE, RESERVE_BYTES)

    @property
    def last_reserve(self) -> Reserve:
        """The same for the very end, where whoever reads agents' work cannot use it up."""
        return Reserve(self.folder / RESERVE, RESERVE_BYTES)

    @property
    def shown_git(self) -> Path:
        """Where the throw-away is that is mounted."""
        return self.own / SHOWN


@dataclass(frozen=True)
class RunNote:
    """What the next start has to know of a run: ids, the object folders, and, for a real ``.git``
    that stays in place, what shows that it was used since (``read_git_use``)."""

    run_id: str
    pid: int
    base_sha: str
    top: tuple[int, int]
    object_format: str
    objects: tuple[str, ...]
    use: str


def read_git_use(git_dir: Path) -> str:
    """What changes in a real ``.git`` as soon as somebody fetches, commits or checks out there."""
    found = []
    for name in ("HEAD", "FETCH_HEAD", "ORIG_HEAD"):
        try:
            status = (git_dir / name).stat()
            found.append(f"{name} {status.st_ino} {status.st_mtime_ns} {status.st_size}")
        except OSError:
            found.append(f"{name} -")
    return ", ".join(found)


# --- claiming it ----------------------------------------------------------------------------------


def write_note(
    held: "LockedStateFolder", checkout: Path, run_id: str, base_sha: str, parts: RepositoryPaths
) -> None:
    """Write it, before the checkout is changed."""
    status = checkout.stat()
    note = RunNote(
        run_id=run_id,
        pid=os.getpid(),
        base_sha=base_sha,
        top=(status.st_dev, status.st_ino),
        object_format=parts.object_format,
        objects=tuple(map(str, parts.objects)),
        use=read_git_use(checkout / ".git"),
    )
    (held.folder / NOTE).write_text(json.dumps({"version": VERSION, **vars(note)}))


def _make_beside(place: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"{place.name}-", dir=place.parent))


def hold(checkout: Path, spare: Path, *, shared: bool = False) -> "LockedStateFolder":
    """Make the folder, locked from its first moment, where ``.git`` can be moved to, else wherever
    possible. Others may join one that is ``shared`` (``shared_state.py``).

    Raises NightshiftError: E_CONFIG where there is no place for it, E_WORKSPACE_DIRTY where another
    night was faster.
    """
    try:
        place = choose_place(checkout, spare, moving=True)
    except NightshiftError:
        place = choose_place(checkout, spare, moving=False)
    try:
        try:
            new = _make_beside(place)
        except PermissionError:  # a confined process may not, whatever modes say
            place = list_candidate_places(checkout, spare)[-1]
            new = _make_beside(place)
    except OSError as error:
        raise build_config_error(f"{place.parent} cannot be written ({error.strerror})") from None
    try:
        if (lock := _lock(new)) is None:
            raise FileNotFoundError
        (new / OWN).mkdir()
        if shared:
            (new / SHARED).touch()
            fcntl.flock(lock, fcntl.LOCK_SH)
    except FileNotFoundError:  # a start at the same moment took it for one that a kill has left
        raise build_another_night_error(checkout, None) from None
    try:
        new.rename(place)
    except OSError:
        os.close(lock)
        remove_path(new)
        raise build_another_night_error(checkout, None) from None
    return LockedStateFolder(place, lock)


@dataclass
class LockedStateFolder:
    """A checkout's folder, made and locked, maybe for another process that inherits ``lock``: the
    lock holds until both are gone."""

    folder: Path
    lock: int

    def take(self, checkout: Path) -> StateFolder:
        """The folder of that checkout, for whoever puts it back; it is no longer held here. Raises
        OSError."""
        restore_rights(self.folder)
        lock, self.lock = self.lock, -1
        return StateFolder(checkout, self.folder, lock)

    def close(self) -> None:
        """Unlock it, and remove it where there is nothing to put back. Once."""
        if self.lock < 0:
            return
        begun = (self.folder / each for each in ("git", OWNERS, SAVED))
        if not any(map(os.path.lexists, begun)):
            with contextlib.suppress(OSError):
                remove_path(self.folder)
        os.close(self.lock)
        self.lock = -1


def take_over(checkout: Path, spare: Path) -> StateFolder | None:
    """The folder that an ended run left, now ours; None where there is none.

    A run that was killed before it had one leaves nothing, either. Raises NightshiftError
    E_WORKSPACE_DIRTY where that run is still alive.
    """
    for place in list_candidate_places(checkout, spare):
        _remove_unclaimed(place)
    folder = find_state_folder(checkout, spare)
    if folder is None:
        return None
    try:
        lock = _lock(folder)
    except OSError as error:
        text = f"{folder}, left by a killed night, cannot be used ({error.strerror}): remove it"
        raise NightshiftError(Code.WORKSPACE_DIRTY, text) from None
    if lock is None:
        raise build_another_night_error(checkout, read_note(folder))
    return StateFolder(checkout, folder, lock)


def find_state_folder(checkout: Path, spare: Path) -> Path | None:
    """The folder of a checkout, whoever holds it; None where there is none."""
    return next(filter(_is_ours, list_candidate_places(checkout, spare)), None)


def _remove_unclaimed(place: Path) -> None:
    """Remove folders that were to become ``place`` and that nobody holds (``hold``)."""
    name = re.compile(re.escape(place.name) + "-[a-z0-9_]{8}")
    with contextlib.suppress(OSError), os.scandir(place.parent) as entries:
        for entry in entries:
            if not name.fullmatch(entry.name) or not entry.is_dir(follow_symlinks=False):
                continue
            own = entry.stat(follow_symlinks=False).st_uid == os.geteuid()
            if own and (lock := _lock(Path(entry.path))) is not None:
                remove_path(Path(entry.path))
                os.close(lock)


def _is_ours(folder: Path) -> bool:
    """True for a folder that nobody else can have put there: temporary files are everybody's."""
    if not folder.is_dir() or folder.is_symlink():
        return False
    return folder.name.endswith(SUFFIX) or folder.stat().st_uid == os.geteuid()


def restore_rights(folder: Path) -> None:
    """Take back our rights to what is kept there: work may run as the same user, and Landlock does
    not see that it changes modes. Raises OSError."""
    with open_folder(folder) as held:
        for name in (LOCK, NOTE, SAVED, GIVEN, OWNERS, COPIES, "git"):
            with contextlib.suppress(FileNotFoundError):
                _restore_right(name, held, stat.S_IRUSR | stat.S_IWUSR)
    if os.geteuid() != 0 and (folder / "git").is_dir():
        for _, folders, files, fd in os.fwalk(folder / "git"):
            for name in (*folders, *files):
                with contextlib.suppress(OSError):
                    _restore_right(name, fd, stat.S_IRUSR)


def _restore_right(name: str, dir_fd: int, of_file: int) -> None:
    with pin_file(name, dir_fd) as (link, mode):
        needed = stat.S_IRWXU if stat.S_ISDIR(mode) else of_file
        if not stat.S_ISLNK(mode) and mode & needed != needed:
            os.chmod(link, stat.S_IMODE(mode) | needed)  # noqa: PTH101


def _lock(folder: Path) -> int | None:
    restore_rights(folder)
    with open_folder(folder) as held:
        fd = os.open(
            LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=held
        )
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def build_another_night_error(checkout: Path, note: RunNote | None) -> NightshiftError:
    """Two runs cannot share a checkout."""
    who = f" (pid {note.pid}, run {note.run_id})" if note else ""
    text = f"another night runs in {checkout}{who}: wait for its end"
    return NightshiftError(Code.WORKSPACE_DIRTY, text)


def read_note(folder: Path) -> RunNote | None:
    """The note in a checkout's folder; None where it is missing or damaged."""
    try:
        data: Any = json.loads((folder / NOTE).read_bytes())
        if data.pop("version") != VERSION:
            return None
        data["top"], data["objects"] = tuple(data["top"]), tuple(data["objects"])
        return RunNote(**data)
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return None


def release(state_folder: StateFolder) -> None:
    """Remove the folder, unless the real ``.git`` or owners are still in it."""
    if not any(
        os.path.lexists(path) for path in (state_folder.real_git, state_folder.folder / OWNERS)
    ):
        with contextlib.suppress(OSError):
            remove_path(state_folder.folder)
    with contextlib.suppress(OSError):
        os.close(state_folder.lock)
