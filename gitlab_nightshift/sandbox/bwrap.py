"""The namespaces tier: bubblewrap's command line. In the namespaces the launcher runs, and adds the
other layers.

The sandbox has its own user, process, network, IPC and host name namespaces: nothing of the job has
a name in them, so nothing of it can be accessed. The only network interface is loopback. The cgroup
namespace stays the job's: in a new one ``/sys/fs/cgroup`` shows paths at which Java fails.
"""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.sandbox.system_paths import (
    FOLDERS,
    SETTINGS,
    SHARED_MEMORY,
    list_interpreter_paths,
)
from gitlab_nightshift.sandbox.tiers import Confinement

if TYPE_CHECKING:
    from gitlab_nightshift.sandbox.visible_system import System

SEARCHED = "/usr/bin:/usr/local/bin:/bin"
GATES = "/run/nightshift"
OBJECTS = f"{GATES}/objects"
"""The objects of a repository whose ``.git`` is hidden by a mount."""
OWN_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108 - the sandbox's own, new and empty
WRITABLE = (*OWN_FOLDERS, SHARED_MEMORY)
NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
    *("--die-with-parent", "--cap-drop", "ALL"),
    *("--hostname", "nightshift"),
)
"""Without ``--new-session``: the caller starts a session, and SIGINT to its group has to arrive
inside. Instead the launcher's filter refuses TIOCSTI, as bwrap(1) recommends."""


def find() -> str | None:
    """The system's own bwrap; never one from another folder on the job's PATH."""
    return shutil.which("bwrap", path=SEARCHED)


def build_gate_path(port: int) -> str:
    """The path of a gate's UNIX socket inside."""
    return f"{GATES}/{port}"


def build_command(bwrap: str, confinement: Confinement, system: "System") -> list[str]:
    """The command, to be followed by the program to run inside."""
    private = filter(os.path.lexists, system.private)
    mounts = [
        *_build_own_mounts(),
        *_build_system_mounts(),
        *(word for path in private for word in (*choose_mask(path), path)),
        *_build_binds(confinement, system),
    ]
    for gate in confinement.gates:
        mounts += ["--bind", str(gate.socket), build_gate_path(gate.port)]
    return [bwrap, *NAMESPACES, *mounts, "--chdir", str(confinement.cwd), "--"]


def _build_own_mounts() -> list[str]:
    folders = [word for folder in OWN_FOLDERS for word in ("--tmpfs", folder)]
    # GATES in a new /run: bwrap makes missing folders, and nothing of the machine's /run is
    # mounted.
    return ["--proc", "/proc", "--dev", "/dev", *folders, "--dir", GATES]


def _build_system_mounts() -> list[str]:
    options = ["--ro-bind", SETTINGS, SETTINGS, "--ro-bind", "/sys", "/sys"]
    for folder in map(Path, FOLDERS):
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
    ours = [path for path in list_interpreter_paths() if not system.shows(path)]
    # "-try" ignores a missing source (bwrap(1)): a cache may be gone since it was found.
    binds = [("--ro-bind-try", path, path) for path in (*ours, *confinement.read_only)]
    binds += [("--bind", path, path) for path in confinement.writable]
    for mount in confinement.mounts:
        binds.append(("--bind" if mount.writable else "--ro-bind", mount.source, mount.target))
    ordered = sorted(binds, key=lambda bind: len(bind[2].parts))
    return [word for option, *paths in ordered for word in (option, *map(str, paths))]
