"""The uid tier: a user of its own for agents, where the job is root."""

import contextlib
import fcntl
import os
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from gitlab_nightshift.host.openat import remove_path
from gitlab_nightshift.host.sandbox.places import INSIDE, SHARED_MEMORY, own_python
from gitlab_nightshift.host.sandbox.records import Identity

FREE = range(60578, 61184)
"""User ids that nothing hands out: https://systemd.io/UIDS-GIDS (60578 to 61183 are unused)."""
LOCKS = (Path("/run"), Path("/var/tmp"))  # noqa: S108 - the folder in it is checked
SWEEP_S = 10.0


def pick() -> Identity | None:
    """An unused user and group, ours until this process ends; None where there is none."""
    import grp
    import pwd

    taken = {entry.pw_uid for entry in pwd.getpwall()} | {entry.gr_gid for entry in grp.getgrall()}
    taken |= _alive()
    for number in FREE:
        if number not in taken and (lock := _locked(number)):
            return Identity(number, number, lock)
    return None


def release(identity: Identity) -> None:
    """Others may take the user again."""
    os.close(identity.lock)


def _alive() -> set[int]:
    """The users of all processes that have not ended."""
    found: set[int] = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()[0]
                if state not in (b"Z", b"X"):
                    found.add(entry.stat().st_uid)
    return found


def _locked(number: int) -> int | None:
    """Two runs on one machine take two users. The lock's descriptor, which the kernel frees with
    this process; it lies where no agent can be first, in a folder of root's."""
    for parent in LOCKS:
        with contextlib.suppress(OSError):
            folder = _roots_own(parent / "gitlab-nightshift")
            lock = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                return None
            return lock
    return None


def _roots_own(folder: Path) -> Path:
    """A folder that only root may enter, made where it is not there. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0 or status.st_mode & 0o077:
        raise PermissionError(f"{folder} is not root's alone")
    return folder


def is_left(identity: Identity) -> bool:
    """True where a process of the user is alive, or shared memory of it is there."""
    return identity.uid in _alive() or any(_shared_memory(identity))


def _shared_memory(identity: Identity) -> Iterator[Path]:
    shared = Path(SHARED_MEMORY)
    for path in shared.iterdir() if shared.is_dir() else ():
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_uid == identity.uid:
                yield path


def sweep(identity: Identity) -> bool:
    """End every process of the user, and remove its shared memory; True where it could be done.

    One that keeps forking is outrun: the whole user is hit at once.
    """
    for _ in range(3):
        if _swept(identity) and identity.uid not in _alive():
            for path in list(_shared_memory(identity)):
                remove_path(path)
            return True
    return False


def _swept(identity: Identity) -> bool:
    command = own_python(str(INSIDE / "sweep.py"), str(identity.uid), str(identity.gid))
    try:
        done = subprocess.run(
            command,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SWEEP_S,
            check=False,
        )
    except subprocess.TimeoutExpired:  # a busy machine: once more
        return False
    return done.returncode == 0


def sweep_after_kill(uid: int, gid: int) -> bool:
    """The same for the user of a run that was killed; True where nothing of it is left.

    A run that has taken the user since has seen that nothing was: its agents are left alone.
    """
    if uid not in FREE or (lock := _locked(uid)) is None:
        return uid in FREE
    identity = Identity(uid, gid, lock)
    try:
        return not is_left(identity) or sweep(identity)
    finally:
        release(identity)


def closed_folder(path: Path) -> Path | None:
    """The first folder above (or at) ``path`` that another user cannot pass, None if it can."""
    for folder in reversed((path, *path.parents)):
        if folder.is_dir() and not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


def exposed_folder(path: Path) -> Path | None:
    """A folder above (or at) ``path`` in which every user can rename what lies there, None if no.

    Only Landlock keeps another user from that.
    """
    for folder in (path, *path.parents):
        mode = folder.stat().st_mode
        if mode & stat.S_IWOTH and (folder == path or not mode & stat.S_ISVTX):
            return folder
    return None


def unreachable(programs: Iterable[Path]) -> list[str]:
    """Of these programs those that another user cannot run, each with the reason."""
    found = []
    for program in programs:
        real = program.resolve()
        if folder := closed_folder(real.parent):
            found.append(f"{program} lies behind {folder}, which only its owner may enter")
        elif not real.stat().st_mode & stat.S_IXOTH:
            found.append(f"{program} may only be run by its owner")
    return found
