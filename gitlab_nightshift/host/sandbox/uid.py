"""The uid tier: a user of its own for agents, where the job is root."""

import contextlib
import os
import socket
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path

from gitlab_nightshift.host.sandbox.places import INSIDE, SHARED_MEMORY, interpreter
from gitlab_nightshift.host.sandbox.records import Identity

FREE = range(60578, 61184)
"""User ids that nothing hands out: https://systemd.io/UIDS-GIDS (60578 to 61183 are unused)."""
SWEEP_S = 10.0


def pick() -> Identity | None:
    """An unused user and group, ours until this process ends; None where there is none."""
    import grp
    import pwd

    taken = {entry.pw_uid for entry in pwd.getpwall()} | {entry.gr_gid for entry in grp.getgrall()}
    taken |= _alive()
    for number in FREE:
        if number not in taken and (lock := _locked(number)):
            return Identity(number, number, lock.detach())
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


def _locked(number: int) -> socket.socket | None:
    """Two runs on one machine take two users: a name that the kernel frees by itself."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(f"\0gitlab-nightshift-uid-{number}")
    except OSError:
        lock.close()
        return None
    return lock


def is_left(identity: Identity) -> bool:
    """True where a process of the user is alive, or shared memory of it is there."""
    if identity.uid in _alive():
        return True
    shared = Path(SHARED_MEMORY)
    return shared.is_dir() and any(p.lstat().st_uid == identity.uid for p in shared.iterdir())


def sweep(identity: Identity) -> bool:
    """End every process of the user, and remove its shared memory; True where it could be done.

    One that keeps forking is outrun: the whole user is hit at once.
    """
    command = [str(interpreter()), "-I", "-S", str(INSIDE / "sweep.py")]
    for _ in range(3):
        done = subprocess.run(
            [*command, str(identity.uid), str(identity.gid)],
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SWEEP_S,
            check=False,
        )
        if done.returncode == 0 and identity.uid not in _alive():
            return True
    return False


def closed_folder(path: Path) -> Path | None:
    """The first folder above (or at) ``path`` that another user cannot pass, None if it can."""
    for folder in reversed((path, *path.parents)):
        if folder.is_dir() and not folder.stat().st_mode & stat.S_IXOTH:
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
