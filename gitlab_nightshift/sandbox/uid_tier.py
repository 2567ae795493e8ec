"""The uid tier: a separate user for agents, if the job is root."""

import contextlib
import fcntl
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from gitlab_nightshift.sandbox.system_paths import INSIDE, SHARED_MEMORY, build_python_command
from gitlab_nightshift.sandbox.tiers import SandboxUser
from gitlab_nightshift.system.descendants import read_stat
from gitlab_nightshift.system.openat import remove_path

UNASSIGNED_IDS = range(60578, 61184)
"""User ids that no system assigns: https://systemd.io/UIDS-GIDS (60578 to 61183 are unused)."""
LOCK_PARENTS = (Path("/run"), Path("/var/tmp"))  # noqa: S108 - the folder in it is checked
CLEANUP_S = 10.0
_TRIAL = ".nightshift-probe-"


def reserve_user() -> SandboxUser | None:
    """Reserve an unused user and group until this process ends; None if all are in use."""
    import grp
    import pwd

    taken = {entry.pw_uid for entry in pwd.getpwall()} | {entry.gr_gid for entry in grp.getgrall()}
    taken |= _list_active_uids()
    for number in UNASSIGNED_IDS:
        if number not in taken and (lock := _lock_uid(number)):
            return SandboxUser(number, number, lock)
    return None


def release_user(identity: SandboxUser) -> None:
    """Let other runs use the user again."""
    os.close(identity.lock)


def _list_active_uids() -> set[int]:
    """The users of all processes that have not ended."""
    found: set[int] = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # Neither a zombie nor dead (proc_pid_stat(5)).
                if read_stat(int(entry.name))[0] not in (b"Z", b"X"):
                    found.add(entry.stat().st_uid)
    return found


def _lock_uid(number: int) -> int | None:
    """Lock a user id, so that two runs on one machine use different ones. Returns the descriptor;
    the kernel frees the lock with this process. No agent can create the file first: its folder is
    root's."""
    for parent in LOCK_PARENTS:
        with contextlib.suppress(OSError):
            folder = _ensure_root_folder(parent / "gitlab-nightshift")
            # The lock ends with the last copy of this descriptor (flock(2)). No program keeps one:
            # Python opens files with O_CLOEXEC (PEP 446).
            lock = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                return None
            return lock
    return None


def _ensure_root_folder(folder: Path) -> Path:
    """Create a folder that only root may enter, unless it exists. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0 or status.st_mode & 0o077:
        raise PermissionError(f"{folder} is not root's alone")
    return folder


def has_leftovers(identity: SandboxUser) -> bool:
    """True if the user has a live process or shared memory."""
    return identity.uid in _list_active_uids() or any(_list_shared_memory(identity))


def _list_shared_memory(identity: SandboxUser) -> Iterator[Path]:
    shared = Path(SHARED_MEMORY)
    for path in shared.iterdir() if shared.is_dir() else ():
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_uid == identity.uid:
                yield path


def kill_leftovers(identity: SandboxUser) -> bool:
    """Kill every process of the user, and remove its shared memory; True on success.

    ``kill(-1)`` hits all at once, so a process that keeps forking does not escape.
    """
    # Again, if the helper was too slow or a killed process is still ending.
    for _ in range(3):
        if _kill_user_processes(identity) and identity.uid not in _list_active_uids():
            for path in list(_list_shared_memory(identity)):
                remove_path(path)
            return True
    return False


def _kill_user_processes(identity: SandboxUser) -> bool:
    command = build_python_command(
        str(INSIDE / "kill_user.py"), str(identity.uid), str(identity.gid)
    )
    try:
        done = subprocess.run(
            command,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=CLEANUP_S,
            check=False,
        )
    except subprocess.TimeoutExpired:  # a busy machine: the caller tries again
        return False
    return done.returncode == 0


def clean_up_killed_run(uid: int, gid: int) -> bool:
    """Kill what a killed run left of its user; True if nothing is left.

    If another run has locked the user since, it has cleaned up itself: its agents are left alone.
    """
    if uid not in UNASSIGNED_IDS:
        return False
    if (lock := _lock_uid(uid)) is None:
        return True
    identity = SandboxUser(uid, gid, lock)
    try:
        return not has_leftovers(identity) or kill_leftovers(identity)
    finally:
        release_user(identity)


@contextlib.contextmanager
def open_trial_folder(checkout: Path, identity: SandboxUser) -> Iterator[Path]:
    """A folder beside the checkout that the user owns, as the checkout will be. Raises OSError."""
    prefix = f"{checkout.name}{_TRIAL}"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=checkout.parent) as name:
        held = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            os.chown(name, identity.uid, identity.gid)
            yield Path(name)
        finally:
            os.close(held)


def remove_trial_folders(checkout: Path) -> None:
    """Remove folders that killed runs have left beside the checkout: nobody locks them."""
    name = re.compile(re.escape(f"{checkout.name}{_TRIAL}") + "[a-z0-9_]{8}")
    with contextlib.suppress(OSError), os.scandir(checkout.parent) as entries:
        for entry in entries:
            if name.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _remove_left(Path(entry.path))


def _remove_left(folder: Path) -> None:
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(held).st_uid in (os.geteuid(), *UNASSIGNED_IDS):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_path(folder)
    finally:
        os.close(held)


def find_closed_folder(path: Path) -> Path | None:
    """The first folder above (or at) ``path`` that another user cannot enter, None if none."""
    for folder in reversed((path, *path.parents)):
        # To enter a folder takes the right to search it (path_resolution(7)).
        if folder.is_dir() and not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


def find_exposed_folder(path: Path) -> Path | None:
    """A folder above (or at) ``path`` in which every user can rename entries, None if none.

    Only Landlock keeps another user from that.
    """
    for folder in (path, *path.parents):
        mode = folder.stat().st_mode
        # In a sticky folder, such as /tmp, only the owner of an entry may rename it (inode(7)).
        if mode & stat.S_IWOTH and (folder == path or not mode & stat.S_ISVTX):
            return folder
    return None


def list_unreachable(programs: Iterable[Path]) -> list[str]:
    """The programs that another user cannot run, each with the reason."""
    found = list[str]()
    for program in programs:
        real = program.resolve()
        if folder := find_closed_folder(real.parent):
            found.append(f"{program} lies behind {folder}, which only its owner may enter")
        elif not real.stat().st_mode & stat.S_IXOTH:
            found.append(f"{program} may only be run by its owner")
    return found
