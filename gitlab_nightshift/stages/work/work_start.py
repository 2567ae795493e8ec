"""The start of a process that runs agents or commands: it reads its input and confines itself."""

import dataclasses
import functools
import os
import socket
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.repository.prepared_checkout import PreparedFolders, read_prepared
from gitlab_nightshift.sandbox import self_confinement
from gitlab_nightshift.sandbox.supervised_process import forward_signals, serve_stage
from gitlab_nightshift.sandbox.visible_system import SystemWalk, walk_system
from gitlab_nightshift.stages.work.boundary import SandboxUnavailable
from gitlab_nightshift.stages.work.work_context import WorkContext, read_work_context
from gitlab_nightshift.system.raw_logs import Logs
from gitlab_nightshift.wire.channel import OutputChannel
from gitlab_nightshift.wire.exit_status import run_guarded
from gitlab_nightshift.wire.sent_logs import open_logs


@dataclass(frozen=True)
class WorkResources:
    """What a step works with: the channel to the redactor, the context, and the gateway (None if
    the step needs none)."""

    outlet: OutputChannel
    work_context: WorkContext
    gateway: RemoteGateway | None


Inputs = Mapping[str, Any]
"""The JSON that the supervisor sends."""
Step = Callable[[WorkResources, Inputs], dict[str, Any]]
"""The work of a process; returns the JSON to answer."""
OpenLogs = Callable[[Path, OutputChannel, str], Logs]
"""Opens logs in a folder, for a channel, with names that begin with a prefix."""


def serve_work(
    step: Step,
    *,
    walk_early: bool = False,
    open_logs: OpenLogs = open_logs,
    log_prefix: Callable[[Inputs], str] = lambda _: "",
    failure_answer: Mapping[str, Any] = MappingProxyType({}),
) -> int:
    """Wait for the input, and answer what ``step`` returns for it, or ``failure_answer`` if it
    fails. With ``walk_early`` the system is searched before the input arrives. ``log_prefix``
    returns the beginning of log names. Returns the exit status."""
    system_walk = walk_system() if walk_early else None

    def answer(inputs: Inputs) -> dict[str, Any]:
        """The step's answer, or ``unfit``: why it cannot run in this process's namespaces."""
        result = dict(failure_answer)

        def run_step() -> int:
            nonlocal result
            resources = _open_resources(inputs, open_logs, log_prefix(inputs), system_walk)
            result = step(resources, inputs)
            return 0

        try:
            run_guarded(run_step, {})
        except SandboxUnavailable as error:
            return {"unfit": str(error)}
        return result

    return serve_stage(answer, forwarding=False)


def _open_resources(
    inputs: Inputs, open_logs: OpenLogs, log_prefix: str, system_walk: SystemWalk | None
) -> WorkResources:
    outlet = OutputChannel(inputs["outlet"])
    checkout = None
    if data := inputs.get("prepared_checkout"):
        checkout = read_prepared(data, moved=inputs["moved"])
    prepared = make_record(PreparedFolders, inputs["prepared"], checkout=checkout)
    tempfile.tempdir = str(prepared.temporary)
    logs = open_logs(prepared.private / "logs", outlet, log_prefix)
    work_context = read_work_context(inputs["context"], logs, outlet, prepared)
    work_context = _confine_work(dataclasses.replace(work_context, system_walk=system_walk), inputs)
    control = socket.socket(fileno=inputs["control"])
    gateway = RemoteGateway(control, outlet) if inputs["gateway"] else None
    return WorkResources(outlet, work_context, gateway)


def _confine_work(work_context: WorkContext, inputs: Inputs) -> WorkContext:
    """Confine this process as the supervisor chose; from then on it handles signals."""
    # Forwarding signals takes a second thread, which Landlock would not confine (landlock(7)).
    if not inputs.get("confined"):
        forward_signals()
        return work_context
    # Once this byte is written, the supervisor will not start this process again.
    announce_agents = functools.partial(os.write, inputs["latch"], b".")
    own_confinement = self_confinement.confine(inputs["confined"], forward_signals, announce_agents)
    return dataclasses.replace(work_context, own_confinement=own_confinement)
