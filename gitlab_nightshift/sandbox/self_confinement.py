"""The process that reads agents' work: what it gives up itself, and what it then tries to access.

``confinement.py`` has chosen the way. In namespaces all is done before this process runs.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gitlab_nightshift.sandbox.broker_client import Broker, BrokerTerms, start_broker
from gitlab_nightshift.sandbox.confinement import CAN_SCOPE, ConfinementMode
from gitlab_nightshift.sandbox.inside import attacks, landlock, privileges, shared_filter
from gitlab_nightshift.sandbox.inside.syscall_numbers import AUDIT_ARCH
from gitlab_nightshift.sandbox.launch import Sandbox
from gitlab_nightshift.sandbox.privilege_drop import is_alone
from gitlab_nightshift.sandbox.process_places import (
    list_around_package,
    list_installation,
    list_programs,
    list_unheld,
)
from gitlab_nightshift.sandbox.proof import ProbeFinding
from gitlab_nightshift.sandbox.proof_rows import CONFINED
from gitlab_nightshift.sandbox.system_paths import DEVICES, SHARED_MEMORY
from gitlab_nightshift.sandbox.tiers import Guarantee, SandboxUser, Tier
from gitlab_nightshift.sandbox.visible_system import System, open_around

CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL = 0, 1, 3, 4, 5
SETGID, SETUID, SETPCAP, SETFCAP = 6, 7, 8, 31
FOR_FILES = (DAC_OVERRIDE, FSETID, KILL, SETPCAP)
FOR_AGENTS = (*FOR_FILES, FOWNER, SETGID, SETUID)
FOR_OWNERS = (*FOR_AGENTS, CHOWN)
KEPT = (*FOR_OWNERS, SETFCAP)
"""What root needs: to write the checkout; to become agents' user, to end what is left of it and to
remove what it has put into a sticky folder; to give files to others; and a user namespace in which
root stays root."""
_KERNEL = "/proc/sys/kernel/core_pattern"


@dataclass(frozen=True)
class WorkNeeds:
    """What this process keeps where Landlock confines it. It may read the ``system`` and ``files``
    besides its own program: no more than agents may, as what it starts is confined as it is.
    ``identity`` is agents' own user, who may write the machine's shared memory. ``keep_owners``:
    root has to give files to others, or to put back what others own. ``monitored``: agents have a
    monitor, so a broker can start them."""

    system: System
    files: tuple[str, ...] = ()
    identity: SandboxUser | None = None
    keep_owners: bool = True
    monitored: bool = True


@dataclass(frozen=True)
class OwnConfinement:
    """The way in which this process is confined, why in no stronger one, and what it is to try."""

    way: ConfinementMode
    why: str
    probes: Mapping[str, Any]
    _complete: Callable[[WorkNeeds], Broker | None]
    _close_latch: Callable[[], object] = lambda: None

    def complete(self, needs: WorkNeeds) -> Broker | None:
        """Give up the files, where that is left to do: before the first agent, but after the
        checkout is opened, whose real configuration may refer to files that are closed then. From
        here on this process has no say in how it is confined, and a broker that there is starts
        what runs in the sandbox. Raises OSError."""
        broker = self._complete(needs)
        self._close_latch()
        return broker


def confine(
    data: Mapping[str, Any],
    then: Callable[[], None],
    close_latch: Callable[[], object] = lambda: None,
) -> OwnConfinement:
    """Give up what the supervisor's ``data`` says, files last. ``then`` is called when all is given
    up: it may start threads, which Landlock would not confine. ``close_latch`` says for good that
    agents follow. Raises OSError."""
    way = ConfinementMode(data["way"])
    privileges.join_own_keyring()
    if way is not ConfinementMode.NAMESPACES:
        privileges.keep_capabilities(*KEPT)
    privileges.forbid_new_privileges()
    if AUDIT_ARCH:
        shared_filter.install_shared_filter()
    if way is ConfinementMode.SCOPES:
        landlock.restrict_scopes()
    if way is not ConfinementMode.LANDLOCK:
        then()
        return OwnConfinement(way, data["why"], data["tries"], lambda _: None, close_latch)

    def complete(needs: WorkNeeds) -> Broker | None:
        privileges.keep_capabilities(*(FOR_OWNERS if needs.keep_owners else FOR_FILES))
        shared = [SHARED_MEMORY] if needs.identity and Path(SHARED_MEMORY).is_dir() else []
        own = (*list_installation(), *list_programs(data["path"]), *data["readable"])
        writable = [*data["writable"], *shared]
        _restrict(needs.system, (*needs.files, *own), data["hidden"], writable)
        broker = _open_broker(needs, data["writable"], shared)
        then()
        return broker

    return OwnConfinement(way, data["why"], data["tries"], complete, close_latch)


def _open_broker(needs: WorkNeeds, folders: list[str], shared: list[str]) -> Broker | None:
    """Leave changes of attributes to a broker, where the kernel lets it judge them."""
    if not (needs.monitored and AUDIT_ARCH):
        return None
    user = needs.identity
    version = min(landlock.read_abi(), landlock.LATEST)
    uid, gid = (user.uid, user.gid) if user else (None, None)
    broker = start_broker(BrokerTerms(tuple(folders), tuple(shared), uid, gid, version))
    if broker:
        privileges.keep_capabilities(*(FOR_AGENTS if needs.keep_owners else FOR_FILES))
    return broker


def _restrict(
    system: System, needed: Sequence[str], hidden: Sequence[str], writable: Sequence[str]
) -> None:
    """Nothing may be read but the system and what is needed, of that nothing that is hidden:
    Landlock knows no exceptions, so what lies around it is opened."""
    if not is_alone():
        raise RuntimeError("threads are running that cannot be confined")
    around, listable = list(system.readable), [*system.listable, *list_around_package()]
    for path in dict.fromkeys(map(os.path.realpath, filter(os.path.lexists, needed))):
        open_around(path, hidden, around, listable)
    paths = landlock.LandlockPaths(around, listable, [*writable], list(DEVICES))
    landlock.restrict(min(landlock.read_abi(), landlock.LATEST), paths, None)


def weaken_sandbox(sandbox: Sandbox, own: OwnConfinement) -> Sandbox:
    """A sandbox that promises less, where this process is not confined at all, or those that read
    agents' work after it cannot be kept to their rows."""
    why = own.why if own.way is ConfinementMode.NONE else ""
    if not why and (unheld := list_unheld()):
        why = f"this kernel cannot keep {' and '.join(unheld)} from it"
    if not why or sandbox.tier is Tier.NONE:
        return sandbox
    left = (*sandbox.guarantees.secrets.leaves, CONFINED)
    text = f"what reads agents' work is not confined ({why})"
    weaker = replace(sandbox.guarantees, secrets=Guarantee(text, left))
    return replace(sandbox, guarantees=weaker)


# --- what is tried --------------------------------------------------------------------------------


def try_places(own: OwnConfinement, broker: Broker | None) -> Iterator[ProbeFinding]:
    """Try to get at each place that this process is to be kept from, as an exploit of it would;
    ``broker`` is the one that changes attributes for it."""
    closed = set(_list_closed_kinds(own, broker))
    for kind, name, verb, *arguments in _list_probes(own.probes):
        is_open, how = attacks.run_probe(verb, arguments)
        if verb == "write" and is_open:
            Path(str(arguments[0])).unlink(missing_ok=True)
        through = is_open is not False  # what could not be tried is not proven
        way = f"{own.way}: {how}" if through else own.way
        yield ProbeFinding(CONFINED, name, through, kind in closed, way)


def _list_closed_kinds(own: OwnConfinement, broker: Broker | None) -> Iterator[str]:
    """The kinds of attempts that the way closes."""
    if own.way is ConfinementMode.NAMESPACES or broker:
        yield "attributes"
    if own.way in (ConfinementMode.NAMESPACES, ConfinementMode.LANDLOCK):
        yield from ("files", "processes")
    if own.way is ConfinementMode.SCOPES:
        yield "processes"
    if own.way is ConfinementMode.NAMESPACES or (
        own.way is not ConfinementMode.NONE and landlock.read_abi() >= CAN_SCOPE
    ):
        yield "scopes"
    if own.way is ConfinementMode.LANDLOCK or os.geteuid() != 0:
        yield "kernel"


def _list_probes(probes: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
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
        for what in ("environment", "memory", "descriptors"):
            yield "processes", f"the {what} of {pid}", what, pid, started
        yield "processes", f"the root of {pid}", "folder", pid, started, "root"
    for pid, started in probes["processes"][:1]:
        yield "scopes", f"signal {pid}", "signal", pid, started
    yield "scopes", "connect to an abstract socket", "unix", f"@{probes['socket']}"
    yield "kernel", "change the kernel's settings", "open_to_write", _KERNEL
