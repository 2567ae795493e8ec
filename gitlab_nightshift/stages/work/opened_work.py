"""What a process that runs agents or commands opens of its input, before anything else."""

import dataclasses
import functools
import os
import socket
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.repository.prepared_checkout import read_prepared
from gitlab_nightshift.repository.prepared_folders import PreparedFolders
from gitlab_nightshift.sandbox import self_confinement
from gitlab_nightshift.sandbox.supervised_process import forward_signals
from gitlab_nightshift.sandbox.visible_system import SystemWalk
from gitlab_nightshift.stages.work.boundary import SandboxUnavailable
from gitlab_nightshift.stages.work.work_context import WorkContext, open_work_input
from gitlab_nightshift.system.raw_logs import Logs
from gitlab_nightshift.wire.channel import OutputChannel


@dataclass(frozen=True)
class OpenedWork:
    """The way to the redactor, the context in this confined process, and the gateway, if any."""

    outlet: OutputChannel
    work_context: WorkContext
    gateway: RemoteGateway | None


def open_work(
    inputs: Mapping[str, Any],
    open_logs: Callable[[Path, OutputChannel, str], Logs],
    prefix: str = "",
    walked: SystemWalk | None = None,
) -> OpenedWork:
    """Open the input and confine this process. ``prefix`` begins the names of its logs, ``walked``
    is a finished search of this machine."""
    outlet, checkout = OutputChannel(inputs["outlet"]), None
    if data := inputs.get("prepared_checkout"):
        checkout = read_prepared(data, moved=inputs["moved"])
    prepared = make_record(PreparedFolders, inputs["prepared"], checkout=checkout)
    tempfile.tempdir = str(prepared.temporary)
    logs = open_logs(prepared.private / "logs", outlet, prefix)
    work_context = open_work_input(inputs["place"], logs, outlet, prepared)
    work_context = confine_work(dataclasses.replace(work_context, walked=walked), inputs)
    control = socket.socket(fileno=inputs["control"])
    return OpenedWork(
        outlet, work_context, RemoteGateway(control, outlet) if inputs["gateway"] else None
    )


def confine_work(work_context: WorkContext, inputs: Mapping[str, Any]) -> WorkContext:
    """Confine this process as the supervisor chose; from then on it handles signals."""
    if not inputs.get("confined"):
        forward_signals()
        return work_context
    close_latch = functools.partial(os.write, inputs["latch"], b".")
    own = self_confinement.confine(inputs["confined"], forward_signals, close_latch)
    return dataclasses.replace(work_context, own=own)


def run_confined_step(step: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The step's answer, or ``unfit``: why it cannot run in this process's namespaces."""
    try:
        return step()
    except SandboxUnavailable as unfit:
        return {"unfit": str(unfit)}
