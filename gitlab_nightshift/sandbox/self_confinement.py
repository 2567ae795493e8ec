"""Drops rights of this process before it reads agents' work, and checks that they are gone.

``confinement.py`` has chosen the mode. In the mode NAMESPACES, access to files and capabilities are
dropped before the process runs; this module takes the other steps.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gitlab_nightshift.sandbox.broker_client import Broker, BrokerTerms, start_broker
from gitlab_nightshift.sandbox.confinement import ConfinementMode
from gitlab_nightshift.sandbox.inside import attacks, landlock, privileges, seccomp
from gitlab_nightshift.sandbox.inside.syscalls import AUDIT_ARCH
from gitlab_nightshift.sandbox.launch import Sandbox
from gitlab_nightshift.sandbox.privilege_drop import is_single_threaded
from gitlab_nightshift.sandbox.process_places import (
    list_around_package,
    list_installation,
    list_programs,
    list_unenforceable,
)
from gitlab_nightshift.sandbox.proof import ProbeFinding
from gitlab_nightshift.sandbox.system_paths import DEVICES, SHARED_MEMORY
from gitlab_nightshift.sandbox.tiers import WORK_READERS, Guarantee, SandboxUser, Tier
from gitlab_nightshift.sandbox.visible_system import System, add_paths_around

FOR_FILES = (privileges.DAC_OVERRIDE, privileges.FSETID, privileges.KILL, privileges.SETPCAP)
"""Capabilities (capabilities(7)) that root needs to write the checkout, kill processes, and drop
more capabilities later."""
FOR_AGENTS = (*FOR_FILES, privileges.FOWNER, privileges.SETGID, privileges.SETUID)
"""Also to become the agents' user, and to remove its files from a sticky folder."""
FOR_OWNERS = (*FOR_AGENTS, privileges.CHOWN)
"""Also to give files to other users."""
FOR_NAMESPACES = (*FOR_OWNERS, privileges.SETFCAP)
"""Also to make a user namespace in which root stays root."""
_KERNEL_SETTING = "/proc/sys/kernel/core_pattern"


@dataclass(frozen=True)
class WorkNeeds:
    """The rights that this process keeps if Landlock confines it. Besides its own program it may
    read the ``system`` and ``files``: agents need these, and inherit its confinement.
    ``identity`` is the agents' own user, who may write the machine's shared memory.
    ``keep_owners``: root has to give files to other users, or back to them. ``monitored``: agents
    have a monitor, so a broker can start them."""

    system: System
    files: tuple[str, ...] = ()
    identity: SandboxUser | None = None
    keep_owners: bool = True
    monitored: bool = True


@dataclass(frozen=True)
class OwnConfinement:
    """The confinement of this process: the mode, why no stronger one works, and the accesses to
    try."""

    mode: ConfinementMode
    reason: str
    probes: Mapping[str, Any]
    _complete: Callable[[WorkNeeds], Broker | None]
    _announce_agents: Callable[[], object] = lambda: None

    def complete(self, needs: WorkNeeds) -> Broker | None:
        """Drop access to files, if the mode leaves that to this process. Call it before the first
        agent, but after the checkout is opened, as its real git configuration may refer to files
        that this closes. From here on this process cannot change how it is confined, and the broker
        that is returned, if any, starts all processes in the sandbox. Raises OSError."""
        broker = self._complete(needs)
        self._announce_agents()
        return broker


def confine(
    data: Mapping[str, Any],
    start_threads: Callable[[], None],
    announce_agents: Callable[[], object] = lambda: None,
) -> OwnConfinement:
    """Drop the rights that the supervisor's ``data`` names; in the mode LANDLOCK, access to files
    only when ``complete`` is called. ``start_threads`` is called after the last of these steps:
    Landlock confines only the calling thread and its later children (landlock(7)).
    ``announce_agents`` tells the supervisor, irrevocably, that agents follow. Raises OSError."""
    mode = ConfinementMode(data["mode"])
    privileges.join_own_keyring()
    # In namespaces, bwrap and inside/own_proc.py have dropped the others already.
    if mode is not ConfinementMode.NAMESPACES:
        privileges.keep_capabilities(*FOR_NAMESPACES)
    privileges.forbid_new_privileges()
    if AUDIT_ARCH:
        seccomp.install_shared_filter()
    if mode is ConfinementMode.SCOPES:
        landlock.restrict_scopes()
    if mode is not ConfinementMode.LANDLOCK:
        start_threads()
        return OwnConfinement(mode, data["reason"], data["probes"], lambda _: None, announce_agents)

    def complete(needs: WorkNeeds) -> Broker | None:
        privileges.keep_capabilities(*(FOR_OWNERS if needs.keep_owners else FOR_FILES))
        shared = [SHARED_MEMORY] if needs.identity and Path(SHARED_MEMORY).is_dir() else []
        own_paths = (*list_installation(), *list_programs(data["path"]), *data["readable"])
        writable = [*data["writable"], *shared]
        _restrict(needs.system, (*needs.files, *own_paths), data["hidden"], writable)
        # After Landlock, which the broker inherits; before the threads, which would lack its
        # filter: that is the calling thread's (seccomp(2)).
        broker = _open_broker(needs, data["writable"], shared)
        start_threads()
        return broker

    return OwnConfinement(mode, data["reason"], data["probes"], complete, announce_agents)


def _open_broker(needs: WorkNeeds, folders: list[str], shared: list[str]) -> Broker | None:
    """Start the broker, which starts agents' launchers and changes attributes for this process.
    None if the kernel does not allow it, or if there is no monitor."""
    if not (needs.monitored and AUDIT_ARCH):
        return None
    user, abi = needs.identity, landlock.find_usable_abi()
    uid, gid = (user.uid, user.gid) if user else (None, None)
    broker = start_broker(BrokerTerms(tuple(folders), tuple(shared), uid, gid, abi))
    if broker:
        privileges.keep_capabilities(*(FOR_AGENTS if needs.keep_owners else FOR_FILES))
    return broker


def _restrict(
    system: System, needed: Sequence[str], hidden: Sequence[str], writable: Sequence[str]
) -> None:
    """Allow reading only of the system and the ``needed`` paths, without the ``hidden`` ones inside
    them: Landlock has no exceptions, so the paths around those are opened one by one."""
    if not is_single_threaded():
        raise RuntimeError("threads are running that cannot be confined")
    readable, listable = list(system.readable), [*system.listable, *list_around_package()]
    for path in dict.fromkeys(map(os.path.realpath, filter(os.path.lexists, needed))):
        add_paths_around(path, hidden, readable, listable)
    paths = landlock.LandlockPaths(readable, listable, [*writable], list(DEVICES))
    landlock.restrict(landlock.find_usable_abi(), paths, None)


def weaken_sandbox(sandbox: Sandbox, confinement: OwnConfinement) -> Sandbox:
    """The sandbox with a weaker guarantee if this process is not confined at all, or if the kernel
    cannot keep the later processes that read agents' work to their rights
    (``process_table.py``)."""
    reason = confinement.reason if confinement.mode is ConfinementMode.NONE else ""
    if not reason and (rights := list_unenforceable()):
        reason = f"this kernel cannot keep {' and '.join(rights)} from it"
    if not reason or sandbox.tier is Tier.NONE:
        return sandbox
    open_rows = (*sandbox.guarantees.secrets.open_rows, WORK_READERS)
    text = f"what reads agents' work is not confined ({reason})"
    weaker = replace(sandbox.guarantees, secrets=Guarantee(text, open_rows=open_rows))
    return replace(sandbox, guarantees=weaker)


# --- attempts -------------------------------------------------------------------------------------


def try_own_access(confinement: OwnConfinement, broker: Broker | None) -> Iterator[ProbeFinding]:
    """Try each access that this process must not have, as an exploit in it would. A ``broker`` is
    its only way to change attributes, and only in folders that agents may write."""
    closed = set(_list_closed_kinds(confinement, broker))
    for kind, name, verb, *arguments in _list_probes(confinement.probes):
        is_open, how = attacks.run_probe(verb, arguments)
        if verb == "write" and is_open:
            Path(str(arguments[0])).unlink(missing_ok=True)
        # None: the attempt could not be made, which proves nothing.
        succeeded = is_open is not False
        text = f"{confinement.mode}: {how}" if succeeded else confinement.mode
        yield ProbeFinding(WORK_READERS, name, succeeded, kind in closed, text)


def _list_closed_kinds(confinement: OwnConfinement, broker: Broker | None) -> Iterator[str]:
    """The kinds of attempts that the mode stops."""
    if confinement.mode is ConfinementMode.NAMESPACES or broker:
        yield "attributes"
    if confinement.mode in (ConfinementMode.NAMESPACES, ConfinementMode.LANDLOCK):
        yield from ("files", "processes")
    if confinement.mode is ConfinementMode.SCOPES:
        yield "processes"
    if confinement.mode is ConfinementMode.NAMESPACES or (
        confinement.mode is not ConfinementMode.NONE and landlock.read_abi() >= landlock.CAN_SCOPE
    ):
        yield "scopes"
    if confinement.mode is ConfinementMode.LANDLOCK or os.geteuid() != 0:
        yield "kernel"


def _list_probes(probes: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The kind and name of each attempt, and its verb in ``inside/attacks.py`` with arguments."""
    for path in probes["read"]:
        yield "files", f"read {path}", "list" if Path(path).is_dir() else "read", path
    for folder in probes["write"]:
        path = f"{folder}/.nightshift-proof-{os.urandom(8).hex()}"
        yield "files", f"write into {folder}", "write", path
    for path in probes["change"]:
        yield "files", f"change {path}", "open_to_write", path
        yield "attributes", f"change the mode of {path}", "set_mode", path
    for path, device, inode in probes["same"]:
        yield "files", "the real .git/config", "same", path, device, inode
    for pid, started in probes["processes"]:
        for entry in ("environment", "memory", "descriptors"):
            yield "processes", f"the {entry} of {pid}", entry, pid, started
        yield "processes", f"the root of {pid}", "folder", pid, started, "root"
    for pid, started in probes["processes"][:1]:
        yield "scopes", f"signal {pid}", "signal", pid, started
    yield "scopes", "connect to an abstract socket", "unix", f"@{probes['socket']}"
    yield "kernel", "change the kernel's settings", "open_to_write", _KERNEL_SETTING
