"""The namespaces tier: bubblewrap's command line. Inside the namespaces runs the launcher, which
adds the other layers.

The sandbox has its own user, process, network, IPC and host name namespaces: nothing of the job has
a name in them, so nothing of it can be accessed. The only network interface is loopback. The cgroup
namespace stays the job's: in a new one ``/sys/fs/cgroup`` shows paths at which Java fails.
"""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.sandbox.system_paths import (
    SHARED_MEMORY,
    SYSTEM_FOLDERS,
    SYSTEM_SETTINGS,
    list_interpreter_paths,
)
from gitlab_nightshift.sandbox.tiers import Confinement

if TYPE_CHECKING:
    from gitlab_nightshift.sandbox.visible_system import System

SEARCH_PATH = "/usr/bin:/usr/local/bin:/bin"
NIGHTSHIFT_FOLDER = "/run/nightshift"
HIDDEN_OBJECTS = f"{NIGHTSHIFT_FOLDER}/objects"
"""The objects of a repository whose ``.git`` is hidden by a mount."""
TEMPORARY_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108 - new and empty in the sandbox
WRITABLE = (*TEMPORARY_FOLDERS, SHARED_MEMORY)
NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
    *("--die-with-parent", "--cap-drop", "ALL"),
    *("--hostname", "nightshift"),
)
"""Without ``--new-session``: the caller starts a session, and SIGINT to its group has to arrive
inside. Instead the launcher's filter refuses TIOCSTI, as bwrap(1) recommends."""


def find() -> str | None:
    """The system's own bwrap; never one from another folder on the job's PATH."""
    return shutil.which("bwrap", path=SEARCH_PATH)


def build_socket_path(port: int) -> str:
    """The path of a service's UNIX socket inside the sandbox."""
    return f"{NIGHTSHIFT_FOLDER}/{port}"


def build_command(bwrap: str, confinement: Confinement, system: "System") -> list[str]:
    """The command, to be followed by the program to run inside."""
    mounts = [*_build_new_mounts(), *_build_system_mounts()]
    for path in filter(os.path.lexists, system.private):
        mounts += [*choose_mask(path), path]
    mounts += _build_binds(confinement, system)
    for service in confinement.services:
        mounts += ["--bind", str(service.socket), build_socket_path(service.port)]
    return [bwrap, *NAMESPACES, *mounts, "--chdir", str(confinement.cwd), "--"]


def _build_new_mounts() -> list[str]:
    options = ["--proc", "/proc", "--dev", "/dev"]
    for folder in TEMPORARY_FOLDERS:
        options += ["--tmpfs", folder]
    # bwrap makes /run too: nothing of the machine's is mounted there.
    return [*options, "--dir", NIGHTSHIFT_FOLDER]


def _build_system_mounts() -> list[str]:
    options = ["--ro-bind", SYSTEM_SETTINGS, SYSTEM_SETTINGS, "--ro-bind", "/sys", "/sys"]
    for folder in map(Path, SYSTEM_FOLDERS):
        if folder.is_symlink():  # as /bin and /lib are where /usr is merged
            options += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            options += ["--ro-bind", str(folder), str(folder)]
    return options


def choose_mask(path: str) -> tuple[str, ...]:
    """The options that mount an empty folder over a folder, or /dev/null over a file, socket or
    pipe; the path is to follow them."""
    return ("--tmpfs",) if Path(path).is_dir() else ("--ro-bind", "/dev/null")


def _build_binds(confinement: Confinement, system: "System") -> list[str]:
    """Bind mounts, the outer ones first: bwrap mounts in order, a later one hides an earlier."""
    interpreter = [path for path in list_interpreter_paths() if not system.shows(path)]
    # "-try" ignores a missing source (bwrap(1)): a cache may be gone since it was found.
    binds = [("--ro-bind-try", path, path) for path in (*interpreter, *confinement.read_only)]
    binds += [("--bind", path, path) for path in confinement.writable]
    for mount in confinement.mounts:
        binds.append(("--bind" if mount.writable else "--ro-bind", mount.source, mount.target))
    options: list[str] = []
    for option, source, target in sorted(binds, key=lambda bind: len(bind[2].parts)):
        options += [option, str(source), str(target)]
    return options
