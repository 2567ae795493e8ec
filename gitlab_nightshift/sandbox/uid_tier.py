"""The uid tier: if the job is root, agents run as a separate user, who gets the checkout's files.

Some files are never given away, because a change of owner would damage or expose them: programs
with setuid, setgid or capabilities, devices, files with another hard link that may lie outside, and
folders of other file systems (a mounted cache). They stay unchanged.
"""

import contextlib
import errno
import fcntl
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gitlab_nightshift.sandbox.system_paths import INSIDE, SHARED_MEMORY, build_python_command
from gitlab_nightshift.sandbox.tiers import SandboxUser
from gitlab_nightshift.system.openat import Owner, remove_path
from gitlab_nightshift.system.processes import read_stat

UNASSIGNED_IDS = range(60578, 61184)
"""User ids that no system assigns: https://systemd.io/UIDS-GIDS (60578 to 61183 are unused)."""
LOCK_PARENTS = (Path("/run"), Path("/var/tmp"))  # noqa: S108 - see _ensure_root_folder
CLEANUP_S = 10.0
_TRIAL_INFIX = ".nightshift-probe-"
"""Between the checkout's name and a random part, in the name of a trial's folder."""


def reserve_user() -> SandboxUser | None:
    """Reserve an unused user and group until this process ends; None if all are in use."""
    import grp
    import pwd

    used = {entry.pw_uid for entry in pwd.getpwall()} | {entry.gr_gid for entry in grp.getgrall()}
    used |= _list_active_uids()
    for uid in UNASSIGNED_IDS:
        if uid not in used and (lock := _lock_uid(uid)):
            return SandboxUser(uid, uid, lock)
    return None


def release_user(identity: SandboxUser) -> None:
    """Let other runs use the user again."""
    os.close(identity.lock)


def _list_active_uids() -> set[int]:
    """The users of all processes that have not ended."""
    uids: set[int] = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # Z is a zombie, X is dead (proc_pid_stat(5)).
                if read_stat(int(entry.name))[0] not in (b"Z", b"X"):
                    uids.add(entry.stat().st_uid)
    return uids


def _lock_uid(uid: int) -> int | None:
    """Lock a user id, so that two runs on one machine use different ones. Returns the descriptor,
    or None if another run has the lock. The kernel frees the lock with this process."""
    for parent in LOCK_PARENTS:
        with contextlib.suppress(OSError):
            # Root's alone: no agent of an earlier night can have made a lock in it.
            folder = _ensure_root_folder(parent / "gitlab-nightshift")
            # The lock ends with the last copy of this descriptor (flock(2)). No program keeps one:
            # Python opens files with O_CLOEXEC (PEP 446).
            lock = os.open(folder / str(uid), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
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
    """The user's files in shared memory."""
    folder = Path(SHARED_MEMORY)
    for path in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_uid == identity.uid:
                yield path


def kill_leftovers(identity: SandboxUser) -> bool:
    """Kill every process of the user, and remove the user's shared memory; True on success."""
    # Again if the helper was too slow, or a killed process is still ending.
    for _ in range(3):
        if _kill_user_processes(identity) and identity.uid not in _list_active_uids():
            for path in list(_list_shared_memory(identity)):
                remove_path(path)
            return True
    return False


def _kill_user_processes(identity: SandboxUser) -> bool:
    # By a process that becomes the user: kill(-1) hits all of the user's processes at once, so none
    # escapes by forking (kill(2)).
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
    """Kill the processes that a killed run's user still has; True if none is left.

    If another run has locked the user since, that run has cleaned up, and its agents are spared.
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
    """Make a folder beside the checkout that the user owns, as the user will own the checkout.
    Raises OSError."""
    prefix = f"{checkout.name}{_TRIAL_INFIX}"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=checkout.parent) as name:
        lock = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.chown(name, identity.uid, identity.gid)
            yield Path(name)
        finally:
            os.close(lock)


def remove_trial_folders(checkout: Path) -> None:
    """Remove the trial folders that killed runs have left beside the checkout, without a lock."""
    pattern = re.compile(re.escape(f"{checkout.name}{_TRIAL_INFIX}") + "[a-z0-9_]{8}")
    with contextlib.suppress(OSError), os.scandir(checkout.parent) as entries:
        for entry in entries:
            if pattern.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _remove_trial_folder(Path(entry.path))


def _remove_trial_folder(folder: Path) -> None:
    """Remove a trial folder. Raises OSError if a run has it locked."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(lock).st_uid in (os.geteuid(), *UNASSIGNED_IDS):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_path(folder)
    finally:
        os.close(lock)


def find_closed_folder(path: Path) -> Path | None:
    """The outermost of ``path`` and the folders above it that another user cannot enter, if any."""
    for folder in reversed((path, *path.parents)):
        # To enter a folder takes the right to search it (path_resolution(7)).
        if folder.is_dir() and not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


def find_exposed_folder(path: Path) -> Path | None:
    """One of ``path`` and the folders above it in which every user can rename entries, if any. Only
    Landlock prevents that."""
    for folder in (path, *path.parents):
        mode = folder.stat().st_mode
        # In a sticky folder, such as /tmp, only the owner of an entry may rename it (inode(7)).
        if mode & stat.S_IWOTH and (folder == path or not mode & stat.S_ISVTX):
            return folder
    return None


def list_unreachable(programs: Iterable[Path]) -> list[str]:
    """The programs that another user cannot run, as sentences with the reason."""
    reasons = list[str]()
    for program in programs:
        real = program.resolve()
        if folder := find_closed_folder(real.parent):
            reasons.append(f"{program} lies behind {folder}, which only its owner may enter")
        elif not real.stat().st_mode & stat.S_IXOTH:
            reasons.append(f"{program} may only be run by its owner")
    return reasons


# --- the owner of the tree ------------------------------------------------------------------------


SETUID_OR_SETGID = stat.S_ISUID | stat.S_ISGID
EXECUTABLE = 0o111
CAPABILITIES = "security.capability"
"""The extended attribute with a program's capabilities (capabilities(7))."""
MOST_LEVELS = 250
"""Nested folders: each takes a descriptor, often out of 1,024 (RLIMIT_NOFILE, getrlimit(2))."""
GIT = ".git"

_Entry = tuple[int, str, str, os.stat_result]
"""A file in the tree: the descriptor of its folder, its name, its path below the top, its
status."""


@dataclass(frozen=True)
class Owners:
    """The owners of a tree before it was given to ``user``: the ``usual`` owner of most paths, and
    ``others`` by path. Saved in a file, for the next start if this one is killed."""

    user: Owner
    usual: Owner
    others: dict[str, Owner]
    version: Literal[1] = 1


def read_owners(root: Path, identity: SandboxUser) -> Owners:
    """The owners below ``root`` except in its ``.git``, before the tree is given to ``identity``.
    Raises OSError."""
    root_status = root.lstat()
    usual = (root_status.st_uid, root_status.st_gid)
    owners = Owners((identity.uid, identity.gid), usual, {})
    for _, _, path, status in _walk(root):
        if (owner := (status.st_uid, status.st_gid)) != owners.usual:
            owners.others[path] = owner
    return owners


def give(root: Path, user: Owner) -> None:
    """Give everything below ``root`` except its ``.git`` to the user, before any agent runs.

    No link is followed. Raises OSError, also if the file system refuses, as NFS does.
    """
    for fd, name, _, status in _walk(root):
        if _can_be_given(fd, name, status):
            os.chown(name, *user, dir_fd=fd, follow_symlinks=False)


def take_back(root: Path, owners: Owners) -> None:
    """Give every path back to its old owner, once no process of the user is left. Raises OSError.

    New files of the user get the usual owner; this clears a setuid bit that the user has set
    (chown(2)).
    """
    uid, gid = owners.user
    for fd, name, path, status in _walk(root):
        if status.st_uid == uid or status.st_gid == gid:
            old_owner = owners.others.get(path, owners.usual)
            os.chown(name, *old_owner, dir_fd=fd, follow_symlinks=False)


def _can_be_given(fd: int, name: str, status: os.stat_result) -> bool:
    mode = status.st_mode
    if not stat.S_ISREG(mode):
        return not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode))
    if mode & SETUID_OR_SETGID:
        return False  # chown would clear the bits (chown(2)), and file capabilities likewise
    return not mode & EXECUTABLE or not _has_capabilities(f"/proc/self/fd/{fd}/{name}")


def _has_capabilities(path: str) -> bool:
    try:
        return bool(os.getxattr(path, CAPABILITIES, follow_symlinks=False))
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return False
        raise


# --- the walk -------------------------------------------------------------------------------------


class _HardLinks:
    """Paths of files with several hard links, by device and inode."""

    def __init__(self) -> None:
        self._links: dict[tuple[int, int], list[tuple[str, os.stat_result]]] = {}

    def add(self, path: str, status: os.stat_result) -> None:
        self._links.setdefault((status.st_dev, status.st_ino), []).append((path, status))

    def list_complete(self) -> Iterator[tuple[str, os.stat_result]]:
        """The paths of files that have all their hard links in the tree."""
        for links in self._links.values():
            _, status = links[0]
            if len(links) == status.st_nlink:
                yield from links


def _walk(root: Path) -> Iterator[_Entry]:
    """Everything below ``root`` except its ``.git``; ``root`` itself comes last, as ""."""
    with _open_folder(str(root), None) as fd:
        root_status, links = os.fstat(fd), _HardLinks()
        yield from _walk_below(fd, "", root_status.st_dev, links, 0)
        # At the end, when all names of such a file are known.
        for path, status in links.list_complete():
            with _open_parent(fd, path) as (parent, name):
                yield parent, name, path, status
        yield fd, ".", "", root_status


def _walk_below(
    fd: int, prefix: str, device: int, links: _HardLinks, depth: int
) -> Iterator[_Entry]:
    if depth > MOST_LEVELS:
        raise OSError(errno.ELOOP, "folders are nested too deep")
    with os.scandir(fd) as scan:
        entries = [(entry.name, entry.stat(follow_symlinks=False)) for entry in scan]
    for name, status in entries:
        path = prefix + name
        if path == GIT:
            continue
        if stat.S_ISDIR(status.st_mode):
            if status.st_dev == device:
                with _open_folder(name, fd) as inner:
                    yield from _walk_below(inner, f"{path}/", device, links, depth + 1)
                yield fd, name, path, status
        elif stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            links.add(path, status)
        else:
            yield fd, name, path, status


@contextlib.contextmanager
def _open_folder(name: str, dir_fd: int | None) -> Iterator[int]:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _open_parent(fd: int, path: str) -> Iterator[tuple[int, str]]:
    """Open the folder that contains a path, one by one from ``fd`` and following no link; yields
    its descriptor and the last name."""
    *above, name = path.split("/")
    with contextlib.ExitStack() as stack:
        for folder in above:
            fd = stack.enter_context(_open_folder(folder, fd))
        yield fd, name
