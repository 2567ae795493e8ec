"""What confines the process that reads agents' work: chosen by trial before it starts.

In namespaces of its own the whole file system is there, read-only, but of HOME only what is needed
(``visible_home.py``); what work has to write is bound over it, and what nobody but the supervisor's
side may read is hidden. Agents are started in namespaces within these. Where nothing mounts, or the
tier has to move ``.git``, Landlock allows the same places (``self_confinement.py``). Standard
library alone: the supervisor imports it.
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
from gitlab_nightshift.sandbox.launched_process import STARTS, has_gone
from gitlab_nightshift.sandbox.system_paths import INSIDE, build_python_command
from gitlab_nightshift.sandbox.visible_home import select_below
from gitlab_nightshift.system.file_names import within

RUN = "/run"
"""Holds the machine's sockets and Kubernetes' token. Only its links stay: a system may find its
programs by them."""
TRIAL_S = 60.0
CAN_MOVE, CAN_SCOPE = 2, 6
"""The Landlock ABIs from which a folder can be moved between two others, and from which abstract
sockets and signals are confined."""
NO_ISOLATION = "isolation: none"
AGENTS = ("auto", "namespaces")
"""Settings of ``isolation`` under which agents may get namespaces."""
_CAPABILITIES = (
    *("--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"),
    *("--cap-add", "CAP_CHOWN", "--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_FOWNER"),
    *("--cap-add", "CAP_FSETID", "--cap-add", "CAP_SETFCAP"),
)
"""Root's, as ``inside/own_proc.py`` needs them."""
_SHARED = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--die-with-parent")


class ConfinementMode(StrEnum):
    """How work is confined; ``scopes`` leaves it its files, because agents' sandbox mounts."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    SCOPES = "scopes"
    NONE = "none"


@dataclass(frozen=True)
class ConfinementPaths:
    """Absolute paths, links resolved: what work may write, what it may not read (but what is
    ``readable`` in it), and of what it sees another file (path → file). ``git`` is the real
    ``.git``. Where nothing mounts it is moved to ``state_folder`` ("": it stays); ``moved`` is what
    work may not read of it then. ``probes`` is what work is to try to get at
    (``self_confinement.py``), ``search_path`` where its programs are. Where it mounts, it sees of
    ``home`` ("": nothing is hidden) what is ``opened``, and what is named before."""

    writable: tuple[str, ...]
    hidden: tuple[str, ...]
    shown: tuple[tuple[str, str], ...]
    git: str
    state_folder: str
    moved: tuple[str, ...]
    probes: dict[str, Any]
    readable: tuple[str, ...] = ()
    search_path: str = ""
    home: str = ""
    opened: tuple[str, ...] = ()

    def with_opened(self, *more: str) -> "ConfinementPaths":
        """These paths with more of HOME."""
        return replace(self, opened=(*self.opened, *more))

    def find_closed(self, paths: Iterable[str]) -> tuple[str, ...]:
        """What of these is in the part of HOME that work does not see."""
        shown = (*self.opened, *self.writable, *self.readable)
        below = select_below(self.home, paths) if self.home else ()
        return tuple(path for path in below if not any(within(path, top) for top in shown))

    def with_writable(self, *more: str) -> "ConfinementPaths":
        """These paths with more writable folders."""
        return replace(self, writable=(*self.writable, *more))

    def list_state_folders(self) -> list[str]:
        """Where the moved ``.git`` is, and what is saved of the checkout to put it back."""
        return [os.path.dirname(self.state_folder)] if self.state_folder else []  # noqa: PTH120

    def drop_gone(self) -> "ConfinementPaths":
        """These paths with what is still there of the hidden ones."""
        return replace(self, hidden=tuple(filter(os.path.lexists, self.hidden)))


@dataclass(frozen=True)
class ConfinementChoice:
    """The mode, why it is no stronger one, and what goes before the command of work, which mounts
    over ``hidden_paths``."""

    way: ConfinementMode
    why: str = ""
    prefix: tuple[str, ...] = ()
    hidden_paths: tuple[str, ...] = ()

    @property
    def unwanted(self) -> bool:
        """Agents may do whatever this program may: nothing is confined, and nothing reported."""
        return self.why == NO_ISOLATION

    def has_lost_hidden_path(self) -> bool:
        """True where the prefix fails, because it hides what is gone."""
        return has_gone(self.hidden_paths)

    def to_data(self, places: ConfinementPaths) -> dict[str, Any] | None:
        """As JSON for work itself (``self_confinement.py``)."""
        if self.unwanted:
            return None
        return {
            "way": self.way.value,
            "why": self.why,
            "writable": list(places.writable),
            "hidden": [*places.hidden, *places.moved],
            "readable": [*places.readable, *places.list_state_folders()],
            "path": places.search_path,
            "tries": places.probes,
        }


def choose(isolation: str, places: ConfinementPaths, *, fallen: str = "") -> ConfinementChoice:
    """The strongest mode here. ``isolation`` is the setting; ``fallen`` is why agents get
    no namespaces after all, "" while that is not known."""
    if isolation == "none":
        return ConfinementChoice(ConfinementMode.NONE, NO_ISOLATION)
    why, found = fallen, bwrap.find()
    if not why and isolation not in AGENTS:
        why = f"isolation: {isolation} has to move .git"
    if not why and not Path(places.git).is_dir():
        why = ".git is no folder, so it has to be moved"
    if not why:
        why = "bwrap is not installed"
        if found:
            chosen = _try_namespaces(found, places)
            if not (why := chosen.why):
                return chosen
            if landlock.read_abi() >= CAN_SCOPE and not _try_command(_build_inner_command(found)):
                return ConfinementChoice(ConfinementMode.SCOPES, why)
    if landlock.read_abi() >= CAN_MOVE:
        return ConfinementChoice(ConfinementMode.LANDLOCK, why)
    return ConfinementChoice(ConfinementMode.NONE, f"{why}; Landlock is missing or too old")


def _try_namespaces(found: str, places: ConfinementPaths) -> ConfinementChoice:
    """The choice of namespaces; its ``why`` is why they do not work."""
    for _ in range(STARTS):
        there = places.drop_gone()
        prefix = build_prefix(found, there)
        why = _try_command([*prefix, *_build_inner_command(found)])
        chosen = ConfinementChoice(ConfinementMode.NAMESPACES, why, prefix, there.hidden)
        if not (why and chosen.has_lost_hidden_path()):
            break
    return chosen


def _build_inner_command(found: str) -> list[str]:
    """The part of an agent's sandbox that a machine can refuse."""
    root = ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
    return [found, *bwrap.NAMESPACES, *root, "--", *build_python_command("-c", "")]


def _try_command(command: Sequence[str]) -> str:
    """Why a command does not work, "" where it does."""
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
    said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return "" if done.returncode == 0 else said or f"exit status {done.returncode}"


# --- namespaces -----------------------------------------------------------------------------------


def build_prefix(found: str, places: ConfinementPaths) -> tuple[str, ...]:
    """What goes before a command that is to run in namespaces. Its parent's pid is 1 there.

    Root's are in the user namespace of the job, so that owners can be given back. Its ``/proc`` is
    mounted by a program of ours (``inside/own_proc.py``), which gives up the right to mount:
    bwrap masks parts of root's, and then the kernel refuses an agent's sandbox another one.
    """
    root = os.geteuid() == 0
    own = _CAPABILITIES if root else ("--unshare-user", "--proc", "/proc")
    before = build_python_command(str(INSIDE / "own_proc.py")) if root else []
    mounts = ("--ro-bind", "/", "/", *own, "--dev", "/dev")
    return (found, *_SHARED, *mounts, *_build_binds(places), "--", *before)


def _build_binds(places: ConfinementPaths) -> Iterator[str]:
    """The outer ones first: an inner one has the last word."""
    binds: list[tuple[str, tuple[str, ...]]]
    binds = [(places.home, ("--tmpfs",))] if places.home else []
    binds += [(path, ("--ro-bind-try", path)) for path in _list_opened(places)]
    binds += [(path, ("--bind", path)) for path in places.writable]
    binds += [
        (path, _build_mask_options(path))
        for path in places.hidden
        if not path.startswith(f"{RUN}/")
    ]
    binds += [(path, ("--ro-bind", path)) for path in (*places.readable, places.git)]
    binds += [(path, ("--ro-bind", file)) for path, file in places.shown]
    yield from ("--tmpfs", RUN)
    for entry in sorted(Path(RUN).iterdir()):
        if entry.is_symlink():
            yield from ("--symlink", str(entry.readlink()), str(entry))
    for path, words in sorted(binds, key=lambda bind: bind[0].count("/")):
        yield from (*words, path)
    if places.home:
        yield from ("--remount-ro", places.home)


def _list_opened(places: ConfinementPaths) -> Iterator[str]:
    """What of HOME is bound over it: no part of what is writable or hidden as a whole."""
    others = (*places.writable, *places.hidden)
    for path in dict.fromkeys(places.opened):
        if not any(within(path, other) for other in others):
            yield path


def _build_mask_options(path: str) -> tuple[str, ...]:
    return ("--tmpfs",) if Path(path).is_dir() else ("--ro-bind", "/dev/null")
