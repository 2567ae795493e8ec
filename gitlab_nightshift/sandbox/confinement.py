"""Confines the work process, which reads what agents write; a trial before its start decides how.

In namespaces it sees the whole file system read-only, but of HOME only the parts that it needs
(``visible_home.py``). The folders that it has to write are mounted over that, and files that only
the supervisor may read are hidden. Agents are started in namespaces inside these. If mounts do not
work, or ``isolation`` requires that ``.git`` is moved, Landlock allows the same paths
(``self_confinement.py``). Standard library only, as the supervisor imports this module.
"""

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from gitlab_nightshift.sandbox import bwrap
from gitlab_nightshift.sandbox.inside import landlock
from gitlab_nightshift.sandbox.launched_process import MOST_STARTS, any_missing
from gitlab_nightshift.sandbox.system_paths import build_inside_command
from gitlab_nightshift.sandbox.visible_home import select_below
from gitlab_nightshift.system.file_names import within

RUN = "/run"
"""The folder with the machine's sockets and Kubernetes' token. Only its symbolic links stay
visible: programs may be found through them."""
TRIAL_S = 60.0
"""Seconds for a trial, which takes some hundredths of one on an idle machine."""
NO_ISOLATION = "isolation: none"
NAMESPACE_SETTINGS = ("auto", "namespaces")
"""Values of ``isolation`` under which agents may get namespaces."""
_CAPABILITIES = (
    *("--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"),
    *("--cap-add", "CAP_CHOWN", "--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_FOWNER"),
    *("--cap-add", "CAP_FSETID", "--cap-add", "CAP_SETFCAP"),
)
"""For root, as ``inside/own_proc.py`` needs them."""
_NAMESPACES = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--die-with-parent")


class ConfinementMode(StrEnum):
    """How the work process is confined. ``scopes``: Landlock confines only its signals and abstract
    sockets, as it cannot confine files without forbidding the mounts of agents' sandbox."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    SCOPES = "scopes"
    NONE = "none"


@dataclass(frozen=True)
class ConfinementPaths:
    """The paths that the work process may reach, absolute and with links resolved.

    ``writable``: folders that it may write.
    ``hidden``: paths that it may not read, except ``readable`` ones inside them.
    ``substitutes``: pairs of a path and the file that it sees there instead.
    ``git``: the real ``.git``. Without mounts it is moved to ``moved_git`` ("": it stays), where
    its files ``git_secrets`` may not be read.
    ``probes``: paths and processes that it tries to access (``self_confinement.py``).
    ``search_path``: its PATH.
    ``home``: with mounts, only ``opened``, ``writable`` and ``readable`` paths in it are visible
    ("": all of it).
    """

    writable: tuple[str, ...]
    hidden: tuple[str, ...]
    substitutes: tuple[tuple[str, str], ...]
    git: str
    moved_git: str
    git_secrets: tuple[str, ...]
    probes: dict[str, Any]
    readable: tuple[str, ...] = ()
    search_path: str = ""
    home: str = ""
    opened: tuple[str, ...] = ()

    def with_opened(self, *more: str) -> "ConfinementPaths":
        """These paths, with more of HOME visible."""
        return replace(self, opened=(*self.opened, *more))

    def find_unmounted(self, paths: Iterable[str]) -> tuple[str, ...]:
        """The given paths that lie in the part of HOME that work would not see."""
        visible = (*self.opened, *self.writable, *self.readable)
        below = select_below(self.home, paths) if self.home else ()
        return tuple(path for path in below if not any(within(path, top) for top in visible))

    def with_writable(self, *more: str) -> "ConfinementPaths":
        """These paths with more writable folders."""
        return replace(self, writable=(*self.writable, *more))


@dataclass(frozen=True)
class ConfinementChoice:
    """The mode, the ``reason`` why no stronger one works (after a failed trial: why this one does
    not), and the prefix of work's command, which mounts over ``hidden_paths``."""

    mode: ConfinementMode
    reason: str = ""
    prefix: tuple[str, ...] = ()
    hidden_paths: tuple[str, ...] = ()

    @property
    def disabled(self) -> bool:
        """``isolation: none``: nothing is confined, and no weakness reported."""
        return self.reason == NO_ISOLATION

    def has_lost_hidden_path(self) -> bool:
        """True if the prefix must fail, as a path that it hides is gone."""
        return any_missing(self.hidden_paths)

    def describe(self, paths: ConfinementPaths) -> dict[str, Any] | None:
        """As JSON for work itself (``self_confinement.py``)."""
        if self.disabled:
            return None
        # The folder around ``moved_git`` also holds the saved state of the checkout.
        state = [os.path.dirname(paths.moved_git)] if paths.moved_git else []  # noqa: PTH120
        return {
            "mode": self.mode.value,
            "reason": self.reason,
            "writable": list(paths.writable),
            "hidden": [*paths.hidden, *paths.git_secrets],
            "readable": [*paths.readable, *state],
            "path": paths.search_path,
            "probes": paths.probes,
        }


def choose(
    isolation: str, paths: ConfinementPaths, *, namespace_failure: str = ""
) -> ConfinementChoice:
    """The strongest mode that works here. ``isolation`` is the setting; ``namespace_failure`` is
    why agents get no namespaces, "" if that is not known yet."""
    if isolation == "none":
        return ConfinementChoice(ConfinementMode.NONE, NO_ISOLATION)
    bwrap_path = bwrap.find()
    failure = namespace_failure or _find_obstacle(isolation, paths, bwrap_path)
    if bwrap_path and not failure:
        choice = _try_namespaces(bwrap_path, paths)
        failure = choice.reason
        if not failure:
            return choice
        agent_command = _build_agent_command(bwrap_path)
        if landlock.read_abi() >= landlock.CAN_SCOPE and not _find_failure(agent_command):
            return ConfinementChoice(ConfinementMode.SCOPES, failure)
    if landlock.read_abi() >= landlock.CAN_MOVE:
        return ConfinementChoice(ConfinementMode.LANDLOCK, failure)
    return ConfinementChoice(ConfinementMode.NONE, f"{failure}; Landlock is missing or too old")


def _find_obstacle(isolation: str, paths: ConfinementPaths, bwrap_path: str | None) -> str:
    """Why namespaces cannot work here, "" if a trial has to decide."""
    if isolation not in NAMESPACE_SETTINGS:
        return f"isolation: {isolation} has to move .git"
    if not Path(paths.git).is_dir():
        return ".git is no folder, so it has to be moved"
    return "" if bwrap_path else "bwrap is not installed"


def _try_namespaces(bwrap_path: str, paths: ConfinementPaths) -> ConfinementChoice:
    """The choice of namespaces, with the reason if they do not work."""
    for _ in range(MOST_STARTS):
        hidden = tuple(filter(os.path.lexists, paths.hidden))
        prefix = build_prefix(bwrap_path, replace(paths, hidden=hidden))
        failure = _find_failure([*prefix, *_build_agent_command(bwrap_path)])
        choice = ConfinementChoice(ConfinementMode.NAMESPACES, failure, prefix, hidden)
        if not (failure and choice.has_lost_hidden_path()):
            break
    return choice


def _build_agent_command(bwrap_path: str) -> list[str]:
    """The command of a minimal sandbox with an agent's namespaces, to see if they work."""
    # The program inside is bwrap itself, the only one that is known to exist.
    root = ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
    return [bwrap_path, *bwrap.NAMESPACES, *root, "--", bwrap_path, "--version"]


def _find_failure(command: Sequence[str]) -> str:
    """Why a command fails, "" if it works."""
    try:
        done = subprocess.run(
            command,
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TRIAL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    last_line = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return last_line or f"exit status {done.returncode}"


# --- namespaces -----------------------------------------------------------------------------------


def build_prefix(bwrap_path: str, paths: ConfinementPaths) -> tuple[str, ...]:
    """The prefix of a command that runs in namespaces. The parent of that command has pid 1."""
    user_options: tuple[str, ...] = ("--unshare-user", "--proc", "/proc")
    mount_proc: list[str] = []
    if os.geteuid() == 0:
        # Root stays in the job's user namespace, to give files back to their owners. /proc is
        # mounted by inside/own_proc.py, which then drops the right to mount: bwrap would mask parts
        # of /proc, and then the kernel refuses a new one in an agent's sandbox (mount_too_revealing
        # in fs/namespace.c).
        user_options, mount_proc = _CAPABILITIES, build_inside_command("own_proc")
    mounts = ("--ro-bind", "/", "/", *user_options, "--dev", "/dev")
    return (bwrap_path, *_NAMESPACES, *mounts, *_build_binds(paths), "--", *mount_proc)


def _build_binds(paths: ConfinementPaths) -> Iterator[str]:
    """The options for mounts, the outer ones first: a later mount hides an earlier one."""
    binds: list[tuple[str, tuple[str, ...]]]
    # An empty HOME first, then the parts of it that work may see.
    binds = [(paths.home, ("--tmpfs",))] if paths.home else []
    binds += [(path, ("--ro-bind-try", path)) for path in _list_opened(paths)]
    binds += [(path, ("--bind", path)) for path in paths.writable]
    binds += [
        (path, bwrap.choose_mask(path)) for path in paths.hidden if not path.startswith(f"{RUN}/")
    ]
    binds += [(path, ("--ro-bind", path)) for path in (*paths.readable, paths.git)]
    binds += [(path, ("--ro-bind", file)) for path, file in paths.substitutes]
    # Options are applied in their order (bwrap(1)): RUN first, as the checkout or a writable folder
    # may lie in it.
    yield from ("--tmpfs", RUN)
    for entry in sorted(Path(RUN).iterdir()):
        if entry.is_symlink():
            yield from ("--symlink", str(entry.readlink()), str(entry))
    for path, options in sorted(binds, key=lambda bind: bind[0].count("/")):
        yield from (*options, path)
    if paths.home:
        # HOME becomes read-only last: bwrap has to make the targets of the mounts in it, and
        # --remount-ro changes none of these mounts (bwrap(1)).
        yield from ("--remount-ro", paths.home)


def _list_opened(paths: ConfinementPaths) -> Iterator[str]:
    """The parts of HOME to mount, without those inside writable or hidden folders."""
    for path in dict.fromkeys(paths.opened):
        if not any(within(path, folder) for folder in (*paths.writable, *paths.hidden)):
            yield path
