"""The namespaces tier: bubblewrap's command line. Inside it the launcher adds the base layer.

Own user, process, network, IPC and host name namespaces: nothing of the job can be named there, so
nothing of it can be accessed. There is no interface but loopback. The cgroup namespace is the
job's: in another one ``/sys/fs/cgroup`` shows paths at which Java fails.
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
"""Where the objects of a repository are whose ``.git`` is mounted over."""
OWN_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108 - a new one each time
WRITABLE = (*OWN_FOLDERS, SHARED_MEMORY)
NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
    *("--die-with-parent", "--cap-drop", "ALL"),
    *("--hostname", "nightshift"),
)
"""No ``--new-session``: the caller has made one, and SIGINT to its group has to arrive inside."""


def find() -> str | None:
    """The system's own bwrap; never one from a folder that is only on the job's PATH."""
    return shutil.which("bwrap", path=SEARCHED)


def build_gate_path(port: int) -> str:
    """Where the UNIX socket of a gate is inside."""
    return f"{GATES}/{port}"


def build_command(bwrap: str, confinement: Confinement, machine: "System") -> list[str]:
    """The command up to the program that is to run inside."""
    mounts = [
        *_build_own_mounts(),
        *_build_system_mounts(),
        *_build_masks(machine),
        *_build_binds(confinement, machine),
    ]
    for gate in confinement.gates:
        mounts += ["--bind", str(gate.socket), build_gate_path(gate.port)]
    return [bwrap, *NAMESPACES, *mounts, "--chdir", str(confinement.cwd), "--"]


def _build_own_mounts() -> list[str]:
    folders = [word for folder in OWN_FOLDERS for word in ("--tmpfs", folder)]
    return ["--proc", "/proc", "--dev", "/dev", *folders, "--dir", GATES]


def _build_system_mounts() -> list[str]:
    words = ["--ro-bind", SETTINGS, SETTINGS, "--ro-bind", "/sys", "/sys"]
    for folder in map(Path, FOLDERS):
        if folder.is_symlink():
            words += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            words += ["--ro-bind", str(folder), str(folder)]
    return words


def _build_masks(machine: "System") -> list[str]:
    """An empty folder over each private one, nothing over each file, socket or pipe."""
    words = list[str]()
    for path in machine.private:
        if Path(path).is_dir():
            words += ["--tmpfs", path]
        elif os.path.lexists(path):
            words += ["--ro-bind", "/dev/null", path]
    return words


def _build_binds(confinement: Confinement, machine: "System") -> list[str]:
    """Binds, the outer ones first, so that an inner one has the last word."""
    ours = [path for path in list_interpreter_paths() if not machine.shows(path)]
    binds = [("--ro-bind-try", path, path) for path in (*ours, *confinement.read_only)]
    binds += [("--bind", path, path) for path in confinement.writable]
    for mount in confinement.mounts:
        binds.append(("--bind" if mount.writable else "--ro-bind", mount.source, mount.target))
    ordered = sorted(binds, key=lambda bind: len(bind[2].parts))
    return [word for option, *paths in ordered for word in (option, *map(str, paths))]
