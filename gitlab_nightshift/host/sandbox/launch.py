"""Start one process inside a sandbox: its spec, its command line, what it told.

with launching(sandbox, argv, env, confinement) as launch:
    process = launch.start()
    ...
    launch.told().failed   # "" or why the program was never run
"""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.errors import config_error
from gitlab_nightshift.host.paths import display
from gitlab_nightshift.host.sandbox import bwrap, uid
from gitlab_nightshift.host.sandbox.places import (
    DEVICES,
    INSIDE,
    KERNEL,
    SHARED_MEMORY,
    interpreter,
    own_python,
)
from gitlab_nightshift.host.sandbox.records import (
    Confinement,
    Features,
    Guarantees,
    Identity,
    Tier,
)
from gitlab_nightshift.host.sandbox.system import System

HELD_BACK = (signal.SIGINT, signal.SIGTERM)
TOLD_LIMIT = 64 * 1024


@dataclass(frozen=True)
class Sandbox:
    """A boundary that a trial has shown to work here. ``passed_over``: stronger tiers, and why."""

    tier: Tier
    guarantees: Guarantees
    features: Features
    machine: System
    identity: Identity | None = None
    bwrap: str | None = None
    passed_over: tuple[tuple[Tier, str], ...] = ()


@dataclass(frozen=True)
class Confined:
    """What :func:`launching` needs of a process's boundary."""

    sandbox: Sandbox
    confinement: Confinement


@dataclass(frozen=True)
class Told:
    """What the launcher and the keeper said: the sandbox was complete; why not; what was refused
    to the tree later (each thing once, the first forty)."""

    ready: bool
    failed: str
    refused: tuple[str, ...]


@dataclass
class Launch:
    """One process to be started, with the descriptors that go to its launcher."""

    argv: list[str]
    env: dict[str, str]
    cwd: Path
    status: int | None = None
    confined: bool = True
    _theirs: list[int] = field(default_factory=list, repr=False)
    _text: bytearray = field(default_factory=bytearray, repr=False)

    def start(self) -> "subprocess.Popen[bytes]":
        """Start it, with three pipes and a session of its own. Once. Raises OSError.

        The calling thread has to outlive it: when the thread ends, so does the process.
        """
        # bwrap inherits the mask and the launcher lifts it: signals are for the program
        held = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK if self.confined else ())
        try:
            return subprocess.Popen(
                self.argv,
                cwd=self.cwd,
                env=self.env,
                pass_fds=tuple(self._theirs),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            self._close_theirs()

    def told(self) -> Told:
        """What has been said so far; to be asked after the end. Names in it are an agent's."""
        if not self.confined:
            return Told(True, "", ())
        with contextlib.suppress(BlockingIOError):
            while self.status is not None and len(self._text) < TOLD_LIMIT:
                if not (part := os.read(self.status, 4096)):
                    break
                self._text += part
        lines = [display(line) for line in self._text.decode("utf-8", "replace").splitlines()]
        refused = [line.removeprefix("refused ") for line in lines if line.startswith("refused ")]
        failed = [line.removeprefix("failed ") for line in lines if line.startswith("failed ")]
        return Told("ready" in lines, next(iter(failed), ""), tuple(refused))

    def close(self) -> None:
        """Close all descriptors; what was told stays known."""
        self._close_theirs()
        self.told()
        if self.status is not None:
            os.close(self.status)
            self.status = None

    def _close_theirs(self) -> None:
        while self._theirs:
            os.close(self._theirs.pop())


@contextlib.contextmanager
def launching(
    sandbox: Sandbox,
    argv: Sequence[str],
    env: Mapping[str, str],
    confinement: Confinement,
    *,
    act: Mapping[str, object] | None = None,
) -> Iterator[Launch]:
    """Prepare one process. ``act`` runs a module of ``inside`` instead of a program (the proof).

    Raises NightshiftError E_CONFIG where a folder of the confinement is not there.
    """
    if sandbox.tier is Tier.NONE:
        yield Launch(list(argv), dict(env), confinement.cwd, confined=False)
        return
    spec = json.dumps(_spec(sandbox, argv, env, confinement, act)).encode()
    launch = _prepared(sandbox, confinement, spec)
    try:
        yield launch
    finally:
        launch.close()


def _prepared(sandbox: Sandbox, confinement: Confinement, spec: bytes) -> Launch:
    """The spec goes by an unnamed file: never in argv, and it fits whatever its size."""
    spec_fd = os.memfd_create("spec", os.MFD_CLOEXEC)
    os.write(spec_fd, spec)
    os.lseek(spec_fd, 0, os.SEEK_SET)
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(ours, False)
    launcher = own_python(str(INSIDE / "launcher.py"))
    command = [*launcher, str(spec_fd), str(theirs)]
    if sandbox.tier is Tier.NAMESPACES and sandbox.bwrap:
        command = [*bwrap.arguments(sandbox.bwrap, confinement, sandbox.machine), *command]
    return Launch(command, {}, confinement.cwd, ours, _theirs=[spec_fd, theirs])


def _spec(
    sandbox: Sandbox,
    argv: Sequence[str],
    env: Mapping[str, str],
    confinement: Confinement,
    act: Mapping[str, object] | None,
) -> dict[str, object]:
    """What ``inside/confine.py: Spec`` reads."""
    inside = sandbox.tier is Tier.NAMESPACES
    identity = sandbox.identity
    read_only = (*confinement.read_only, *(mount.target for mount in confinement.mounts))
    extra = bwrap.WRITABLE if inside else (SHARED_MEMORY,) if identity else ()
    return {
        "argv": list(argv),
        "env": dict(env),
        "cwd": str(confinement.cwd),
        "act": act,
        "parent": os.getpid(),
        "uid": identity.uid if identity else None,
        "gid": identity.gid if identity else None,
        "landlock": sandbox.features.landlock,
        "notify": sandbox.features.notify,
        "own_network": inside,
        "readable": [*sandbox.machine.readable, *map(str, read_only)],
        "listable": list(sandbox.machine.listable),
        "writable": [*map(str, checked(confinement)), *(x for x in extra if Path(x).is_dir())],
        "devices": list(DEVICES),
        "ports": [gate.port for gate in confinement.gates],
        "gates": [(gate.port, bwrap.gate_path(gate.port)) for gate in confinement.gates],
    }


def end_all(sandbox: Sandbox) -> bool:
    """See that nothing of a dedicated user is left, after a program has ended; True where so.

    The other tiers need nothing here: the kernel, the keeper and the subreaper have done it.
    """
    if sandbox.tier is not Tier.UID or sandbox.identity is None:
        return True
    return not uid.is_left(sandbox.identity) or uid.sweep(sandbox.identity)


def checked(confinement: Confinement) -> tuple[Path, ...]:
    """The writable folders, if nothing of the boundary's own lies in them.

    Raises NightshiftError E_CONFIG.
    """
    for folder in confinement.writable:
        if not folder.is_dir() or not folder.is_absolute():
            raise config_error(f"{folder} is no folder that an agent could be given")
        for own in (INSIDE, interpreter(), *map(Path, KERNEL)):
            if own.is_relative_to(folder.resolve()):
                raise config_error(
                    f"{own} lies in {folder}, where an agent may write: install"
                    " gitlab-nightshift outside the checkout"
                )
    return tuple(folder.resolve() for folder in confinement.writable)
