"""What a process that runs agents or commands opens of its input, before anything else."""

import dataclasses
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
from gitlab_nightshift.sandbox.visible_system import SystemWalk
from gitlab_nightshift.stages.work.own_confinement import confine_work
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.work_input import open_work_input
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
