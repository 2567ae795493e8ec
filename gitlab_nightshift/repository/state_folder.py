"""The state folder of a checkout, which exists while agents work: a note, the saved state of the
tree, the throw-away ``.git``, and the real one if it had to be moved.

It shows the next start how far a killed run got. It is beside the checkout or, if that is
impossible, in the folder for temporary files, named after a hash of the checkout's path.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import stat
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.records.codec import InvalidRecordError, decode_record, encode_record
from gitlab_nightshift.repository.git import RepositoryPaths
from gitlab_nightshift.sealed_start import STATE_FOLDER_SUFFIX
from gitlab_nightshift.system.disk_reserve import Reserve
from gitlab_nightshift.system.openat import Owner, open_folder, pin_file, remove_path
from gitlab_nightshift.system.signals import start_with_signals_blocked

RESERVE_BYTES = 1_000_000
NOTE, SAVED, COPIES, OWNERS = "note.json", "saved.json", "copies", "owners.json"
GIVEN = "given.json"
"""The saved state of a tree that was given to the agents' user; valid while ``OWNERS`` exists."""
WRITABLE, SHOWN, LOCK, SHARED, RESERVE = "own", "shown", "lock", "shared", "reserve"


@dataclass(frozen=True)
class StateFolder:
    """A checkout's state folder, which is locked as long as the descriptor ``lock`` is open.

    ``user`` (user, group) will own the throw-away; None is this process's own user. If the
    throw-away is ``mounted`` over the real ``.git`` in a sandbox, the real one is not moved.
    """

    checkout: Path
    folder: Path
    lock: int
    user: Owner | None = None
    mounted: bool = False

    @property
    def writable(self) -> Path:
        """The only part that is written while agents work."""
        return self.folder / WRITABLE

    @property
    def template(self) -> Path:
        """The throw-away that is copied for each agent."""
        return self.writable / "throwaway"

    @property
    def real_git(self) -> Path:
        """The path of the real ``.git`` while it is moved."""
        return self.folder / "git"

    @property
    def reserve(self) -> Reserve:
        """Disk space reserved for restoring what an agent has moved or removed."""
        return Reserve(self.writable / RESERVE, RESERVE_BYTES)

    @property
    def last_reserve(self) -> Reserve:
        """Disk space reserved for the final restore, which work cannot use up."""
        return Reserve(self.folder / RESERVE, RESERVE_BYTES)

    @property
    def shown_git(self) -> Path:
        """The path of the mounted throw-away."""
        return self.writable / SHOWN


@dataclass(frozen=True)
class RunNote:
    """What the next start needs to know of a run. ``top`` identifies the checkout's folder,
    ``objects`` are the object folders of its repository. ``use`` is the state of the real ``.git``
    at the start (``read_git_state``): it shows a later use of a ``.git`` that was not moved."""

    run_id: str
    pid: int
    base_sha: str
    top: str
    object_format: str
    objects: tuple[str, ...]
    use: str
    version: Literal[4] = 4


def read_git_state(git_dir: Path) -> str:
    """The state of a real ``.git``, in a form that changes with every fetch, commit or checkout."""
    states = []
    for name in ("HEAD", "FETCH_HEAD", "ORIG_HEAD"):
        try:
            status = (git_dir / name).stat()
            states.append(f"{name} {status.st_ino} {status.st_mtime_ns} {status.st_size}")
        except OSError:
            states.append(f"{name} -")
    return ", ".join(states)


# --- its path -------------------------------------------------------------------------------------


def list_hidden_paths(home: Path, temporary_folder: Path, checkout: Path) -> tuple[Path, ...]:
    """Paths that no agent may see: the home folder, the folder for temporary files, in which the
    run's private folder is, and the runner's and this program's files beside the checkout."""
    return (home, temporary_folder, *list_adjacent_paths(checkout))


def list_adjacent_paths(checkout: Path) -> tuple[Path, ...]:
    """The runner's files beside a checkout, and this program's state folder."""
    return tuple(
        checkout.with_name(f"{checkout.name}{end}") for end in (".tmp", STATE_FOLDER_SUFFIX)
    )


def list_candidate_folders(checkout: Path, temporary_folder: Path) -> tuple[Path, Path]:
    """The two paths where a checkout's state folder may be, the preferred one first."""
    path_hash = hashlib.sha256(os.fsencode(checkout)).hexdigest()[:20]
    adjacent = checkout.with_name(checkout.name + STATE_FOLDER_SUFFIX)
    return adjacent, temporary_folder / f"gitlab-nightshift-{path_hash}"


def choose_folder(checkout: Path, temporary_folder: Path, *, moving: bool) -> Path:
    """The first path where the state folder can be made and, with ``moving``, to which ``.git`` can
    be moved. Raises NightshiftError E_CONFIG if there is none."""
    mount = _read_mount(checkout)
    for path in list_candidate_folders(checkout, temporary_folder):
        same_mount = not moving or _read_mount(path.parent) == mount
        if same_mount and os.access(path.parent, os.W_OK | os.X_OK):
            return path
    raise _build_no_folder_error(checkout)


def refuse_other_mount(checkout: Path, folder: Path) -> None:
    """Raise E_CONFIG if ``.git`` cannot be moved to the folder, as it is on another mount."""
    if _read_mount(folder) != _read_mount(checkout):
        raise _build_no_folder_error(checkout)


def _build_no_folder_error(checkout: Path) -> NightshiftError:
    return build_config_error(
        f"the real .git of {checkout} has to be moved while agents work, and there is no place for"
        f" it on that file system: {checkout.parent} is on another one or cannot be written, and so"
        " is TMPDIR. Let TMPDIR name a folder there, or install bubblewrap, which needs no move"
    )


def _read_mount(folder: Path) -> str:
    """The mount of a folder: rename fails with EXDEV between two mounts (rename(2))."""
    # A bind mount has the st_dev of its file system, but its own mount id (proc_pid_fdinfo(5)).
    fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        _, found, mount_id = Path(f"/proc/self/fdinfo/{fd}").read_text().partition("mnt_id:")
        return mount_id.split()[0] if found else f"device {os.fstat(fd).st_dev}"
    finally:
        os.close(fd)


# --- claiming it ----------------------------------------------------------------------------------


def write_note(
    held: "LockedStateFolder", checkout: Path, run_id: str, base_sha: str, paths: RepositoryPaths
) -> None:
    """Write the note, before the checkout is changed."""
    note = RunNote(
        run_id=run_id,
        pid=os.getpid(),
        base_sha=base_sha,
        top=identify_folder(checkout),
        object_format=paths.object_format,
        objects=tuple(map(str, paths.objects)),
        use=read_git_state(checkout / ".git"),
    )
    (held.folder / NOTE).write_bytes(encode_record(note))


def identify_folder(folder: Path) -> str:
    """Device and inode of a folder, which differ for a new one at its path. Raises OSError."""
    status = folder.stat()
    return f"{status.st_dev} {status.st_ino}"


def hold_state_folder(
    checkout: Path, temporary_folder: Path, *, shared: bool = False
) -> "LockedStateFolder":
    """Make and lock the state folder, if possible where ``.git`` can be moved to. Other runs may
    join a ``shared`` one (``delegated_repository.py``).

    It is made under a temporary name, locked, then renamed, so it never exists unlocked. Raises
    NightshiftError: E_CONFIG if there is no place for it, E_WORKSPACE_DIRTY if another night was
    faster.
    """
    folder_path, new = _create_temporary(checkout, temporary_folder)
    try:
        if (lock := _lock(new)) is None:
            raise FileNotFoundError
        (new / WRITABLE).mkdir()
        if shared:
            (new / SHARED).touch()
            fcntl.flock(lock, fcntl.LOCK_SH)  # converts the lock: others can join (flock(2))
    except FileNotFoundError:  # another start removed it as the leftover of a killed run
        raise build_another_night_error(checkout, None) from None
    try:
        new.rename(folder_path)
    except OSError:
        os.close(lock)
        remove_path(new)
        raise build_another_night_error(checkout, None) from None
    return LockedStateFolder(folder_path, lock)


def _create_temporary(checkout: Path, temporary_folder: Path) -> tuple[Path, Path]:
    """Make the state folder under a temporary name; returns its final and its present path."""
    # Preferably on the checkout's own mount: rename(2) cannot move .git to another one.
    try:
        folder_path = choose_folder(checkout, temporary_folder, moving=True)
    except NightshiftError:
        folder_path = choose_folder(checkout, temporary_folder, moving=False)
    try:
        try:
            return folder_path, _create_adjacent(folder_path)
        except PermissionError:  # a confined process may not write there, whatever the modes say
            folder_path = list_candidate_folders(checkout, temporary_folder)[-1]
            return folder_path, _create_adjacent(folder_path)
    except OSError as error:
        text = f"{folder_path.parent} cannot be written ({error.strerror})"
        raise build_config_error(text) from None


def _create_adjacent(folder_path: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"{folder_path.name}-", dir=folder_path.parent))


@dataclass
class LockedStateFolder:
    """A state folder that this process has made and locked. Another process may inherit ``lock``:
    the folder is locked until both have closed the descriptor (flock(2))."""

    folder: Path
    lock: int

    def hand_over(self, checkout: Path) -> StateFolder:
        """Hand the lock over to a ``StateFolder``, to restore the checkout. Raises OSError."""
        restore_rights(self.folder)
        lock, self.lock = self.lock, -1
        return StateFolder(checkout, self.folder, lock)

    def close(self) -> None:
        """Unlock the folder unless handed over, and remove it if there is nothing to restore."""
        if self.lock < 0:
            return
        unrestored = (self.folder / name for name in ("git", OWNERS, SAVED))
        if not any(map(os.path.lexists, unrestored)):
            with contextlib.suppress(OSError):
                remove_path(self.folder)
        os.close(self.lock)
        self.lock = -1


def take_over(checkout: Path, temporary_folder: Path) -> StateFolder | None:
    """Take over the state folder that an ended run left; None if there is none.

    Also removes unfinished folders of killed runs. Raises NightshiftError E_WORKSPACE_DIRTY if that
    run is still alive.
    """
    for folder_path in list_candidate_folders(checkout, temporary_folder):
        _remove_unclaimed(folder_path)
    folder = find_state_folder(checkout, temporary_folder)
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


def find_state_folder(checkout: Path, temporary_folder: Path) -> Path | None:
    """The state folder of a checkout, locked or not; None if there is none."""
    return next(filter(_is_ours, list_candidate_folders(checkout, temporary_folder)), None)


def _remove_unclaimed(folder_path: Path) -> None:
    """Remove unlocked folders with a temporary name of ``folder_path`` (``_create_temporary``)."""
    temporary_name = re.compile(re.escape(folder_path.name) + "-[a-z0-9_]{8}")
    with contextlib.suppress(OSError), os.scandir(folder_path.parent) as entries:
        for entry in entries:
            if not temporary_name.fullmatch(entry.name) or not entry.is_dir(follow_symlinks=False):
                continue
            is_ours = entry.stat(follow_symlinks=False).st_uid == os.geteuid()
            if is_ours and (lock := _lock(Path(entry.path))) is not None:
                remove_path(Path(entry.path))
                os.close(lock)


def _is_ours(folder: Path) -> bool:
    """True for a folder that no other user can have made: anybody can make one in /tmp."""
    if not folder.is_dir() or folder.is_symlink():
        return False
    return folder.name.endswith(STATE_FOLDER_SUFFIX) or folder.stat().st_uid == os.geteuid()


def restore_rights(folder: Path) -> None:
    """Restore this user's rights to the folder's content: work may run as the same user, and
    Landlock does not stop it from changing modes (landlock(7)). Raises OSError."""
    with open_folder(folder) as folder_fd:
        for name in (LOCK, NOTE, SAVED, GIVEN, OWNERS, COPIES, "git"):
            with contextlib.suppress(FileNotFoundError):
                _add_rights(name, folder_fd, stat.S_IRUSR | stat.S_IWUSR)
    if os.geteuid() != 0 and (folder / "git").is_dir():  # root needs no rights
        for _, folders, files, fd in os.fwalk(folder / "git"):
            for name in (*folders, *files):
                with contextlib.suppress(OSError):
                    _add_rights(name, fd, stat.S_IRUSR)


def _add_rights(name: str, dir_fd: int, file_mode: int) -> None:
    """Give this user all rights to a folder, and to a file those of ``file_mode``."""
    with pin_file(name, dir_fd) as (link, mode):
        needed = stat.S_IRWXU if stat.S_ISDIR(mode) else file_mode
        if not stat.S_ISLNK(mode) and mode & needed != needed:
            os.chmod(link, stat.S_IMODE(mode) | needed)  # noqa: PTH101


def _lock(folder: Path) -> int | None:
    """The descriptor of the lock; None if another process has it. Raises OSError."""
    restore_rights(folder)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with open_folder(folder) as folder_fd:
        fd = os.open(LOCK, flags, 0o600, dir_fd=folder_fd)
    try:
        # The kernel releases it when the holder dies, even by SIGKILL (flock(2)).
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def build_another_night_error(checkout: Path, note: RunNote | None) -> NightshiftError:
    """The error if another run has locked the checkout."""
    who = f" (pid {note.pid}, run {note.run_id})" if note else ""
    text = f"another night runs in {checkout}{who}: wait for its end"
    return NightshiftError(Code.WORKSPACE_DIRTY, text)


def read_note(folder: Path) -> RunNote | None:
    """The note in a state folder; None if it is missing or damaged."""
    try:
        return decode_record(RunNote, (folder / NOTE).read_bytes())
    except (OSError, InvalidRecordError):
        return None


def release(state: StateFolder) -> None:
    """Remove a state folder, unless the real ``.git`` or old owners are in it, and unlock it."""
    if not any(map(os.path.lexists, (state.real_git, state.folder / OWNERS))):
        with contextlib.suppress(OSError):
            remove_path(state.folder)
    with contextlib.suppress(OSError):
        os.close(state.lock)


# --- how long its run was alive -------------------------------------------------------------------


# After a kill, the next start has to know whether somebody has used the throw-away .git since.
# Agents can fake its files, but not a ctime (utimensat(2)), and they died with their run. So if
# .git changed later than this file, somebody else has used it.
ALIVE = "alive"
BEAT_S, MARGIN_S = 1.0, 10.0
"""Seconds between two updates of the file, and seconds after the last one in which the run may have
been alive, as an update may be late."""


@contextlib.contextmanager
def mark_alive(folder: Path) -> Iterator[None]:
    """Update the ctime of ``ALIVE`` every ``BEAT_S`` seconds during the block. Raises OSError."""
    file, ended = folder / ALIVE, threading.Event()
    file.touch()

    def update_ctime() -> None:
        with contextlib.suppress(OSError):
            while not ended.wait(BEAT_S):
                os.utime(file)  # sets the ctime, too

    thread = threading.Thread(target=update_ctime)
    start_with_signals_blocked(thread)
    try:
        yield
    finally:
        ended.set()
        thread.join()


def was_changed_after_run(folder: Path, path: Path) -> bool:
    """True if ``path``, or a name in that folder, was changed after the end of the run with the
    state folder ``folder``; also if ``path`` or ``ALIVE`` is missing."""
    try:
        return path.lstat().st_ctime > (folder / ALIVE).stat().st_ctime + MARGIN_S
    except FileNotFoundError:
        return True
