"""Starts one process inside a sandbox: its spec, its command line, its report.

with prepare_launch(sandbox, argv, env, confinement) as launch:
    process = launch.start()
    ...
    launch.read_report().failed   # why the program never ran, or ""
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.sandbox import bwrap, uid_tier
from gitlab_nightshift.sandbox.launched_process import Launch
from gitlab_nightshift.sandbox.system_paths import (
    DEVICES,
    INSIDE,
    KERNEL_FOLDERS,
    SHARED_MEMORY,
    build_inside_command,
    find_interpreter,
)
from gitlab_nightshift.sandbox.tiers import Confinement, Features, Guarantees, SandboxUser, Tier
from gitlab_nightshift.sandbox.visible_system import System

if TYPE_CHECKING:
    from gitlab_nightshift.sandbox.broker_client import Broker


@dataclass(frozen=True)
class Sandbox:
    """A boundary that works here, as a trial has shown. ``machine`` is what agents may read of the
    system; ``passed_over`` are the stronger tiers that do not work, with the reasons; ``broker``
    starts the sandbox's processes if this process may not."""

    tier: Tier
    guarantees: Guarantees
    features: Features
    machine: System
    identity: SandboxUser | None = None
    bwrap: str | None = None
    passed_over: tuple[tuple[Tier, str], ...] = ()
    broker: "Broker | None" = None


@dataclass(frozen=True)
class ProcessBoundary:
    """The sandbox of one process, and its rights there."""

    sandbox: Sandbox
    confinement: Confinement


@contextlib.contextmanager
def prepare_launch(
    sandbox: Sandbox,
    argv: Sequence[str],
    env: Mapping[str, str],
    confinement: Confinement,
    *,
    task: Mapping[str, object] | None = None,
) -> Iterator[Launch]:
    """Prepare one process. ``task`` runs a module of ``inside`` instead of a program, for the proof
    of the boundary.

    Raises NightshiftError E_CONFIG if a folder of the confinement does not exist.
    """
    if sandbox.tier is Tier.NONE:
        yield Launch(list(argv), dict(env), confinement.cwd, confined=False)
        return
    spec = json.dumps(_build_spec(sandbox, argv, env, confinement, task)).encode()
    launch = _build_launch(sandbox, confinement, spec)
    try:
        yield launch
    finally:
        launch.close()


def _build_launch(sandbox: Sandbox, confinement: Confinement, spec: bytes) -> Launch:
    # The spec is in an unnamed file: argv is visible to others and limited in size.
    spec_fd = os.memfd_create("spec", os.MFD_CLOEXEC)
    os.write(spec_fd, spec)
    status_reader, status_writer = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(status_reader, False)
    command = [*build_inside_command("confine"), str(spec_fd), str(status_writer)]
    hidden = tuple[str, ...]()
    if sandbox.tier is Tier.NAMESPACES and sandbox.bwrap:
        hidden = tuple(filter(os.path.lexists, sandbox.machine.private))
        command = [*bwrap.build_command(sandbox.bwrap, confinement, sandbox.machine), *command]
    return Launch(
        command,
        {},
        confinement.cwd,
        status_reader,
        hidden_paths=hidden,
        broker=sandbox.broker,
        _launcher_fds=[spec_fd, status_writer],
    )


def _build_spec(
    sandbox: Sandbox,
    argv: Sequence[str],
    env: Mapping[str, str],
    confinement: Confinement,
    task: Mapping[str, object] | None,
) -> dict[str, object]:
    """The fields of ``inside/confine.py: LaunchSpec``."""
    namespaces = sandbox.tier is Tier.NAMESPACES
    identity = sandbox.identity
    read_only = (*confinement.read_only, *(mount.target for mount in confinement.mounts))
    temporary: tuple[str, ...] = ()
    if namespaces:
        temporary = bwrap.WRITABLE  # the sandbox's own
    elif identity:
        temporary = (SHARED_MEMORY,)  # end_leftovers removes the user's files there
    ports = [service.port for service in confinement.services]
    return {
        "argv": list(argv),
        "env": dict(env),
        "cwd": str(confinement.cwd),
        "task": task,
        "parent": os.getpid(),
        "uid": identity.uid if identity else None,
        "gid": identity.gid if identity else None,
        "landlock": sandbox.features.landlock,
        "notify": sandbox.features.notify,
        "own_network": namespaces,
        "readable": [*sandbox.machine.readable, *map(str, read_only)],
        "listable": list(sandbox.machine.listable),
        "writable": [
            *map(str, check_writable_folders(confinement)),
            *(folder for folder in temporary if Path(folder).is_dir()),
        ],
        "devices": list(DEVICES),
        "ports": ports,
        "gates": [(port, bwrap.build_socket_path(port)) for port in ports],
    }


def end_leftovers(sandbox: Sandbox) -> bool:
    """Kill the processes that the agents' user of the uid tier still has after a program's end;
    True if none is left."""
    # In the other tiers the kernel, the monitor or the subreaper has done so.
    if sandbox.tier is not Tier.UID or sandbox.identity is None:
        return True
    return not uid_tier.has_leftovers(sandbox.identity) or uid_tier.kill_leftovers(sandbox.identity)


def check_writable_folders(confinement: Confinement) -> tuple[Path, ...]:
    """The writable folders, links resolved. None may contain parts of the boundary itself.

    Raises NightshiftError E_CONFIG.
    """
    for folder in confinement.writable:
        if not folder.is_dir() or not folder.is_absolute():
            raise build_config_error(f"{folder} is not a folder that an agent could be given")
        for path in (INSIDE, find_interpreter(), *map(Path, KERNEL_FOLDERS)):
            if path.is_relative_to(folder.resolve()):
                raise build_config_error(
                    f"{path} lies in {folder}, where an agent may write: install"
                    " gitlab-nightshift outside the checkout"
                )
    return tuple(folder.resolve() for folder in confinement.writable)
