"""The process that does a delegation's task: it runs agents and reads what they write. It holds no
secret, and sends its logs and products to the redactor, one way.
"""

import dataclasses
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.records.delegation_records import Payload
from gitlab_nightshift.records.products import Plan
from gitlab_nightshift.repository.delegated_repository import open_source_record
from gitlab_nightshift.repository.prepared_folders import PreparedFolders
from gitlab_nightshift.sandbox.supervised_process import serve_stage
from gitlab_nightshift.stages.work.delegation.delegated_task import DelegationTask, do_work
from gitlab_nightshift.stages.work.delegation.delegation_context import build_fallback_note
from gitlab_nightshift.stages.work.own_confinement import confine_work, run_confined_step
from gitlab_nightshift.stages.work.work_input import open_work_input
from gitlab_nightshift.wire.channel import OutputChannel
from gitlab_nightshift.wire.exit_status import run_guarded
from gitlab_nightshift.wire.sent_logs import open_logs


def main(_data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``)."""
    return serve_stage(_work, forwarding=False)


def _work(inputs: dict[str, Any]) -> dict[str, Any]:
    def run_step() -> dict[str, Any]:
        answer: dict[str, Any] = {}
        run_guarded(lambda: _run_task(inputs, answer), {})
        return answer

    return run_confined_step(run_step)


def _run_task(inputs: Mapping[str, Any], answer: dict[str, Any]) -> int:
    """Do the task; ``instead_of`` is why the first agent could not be used."""
    outlet, prepared = (
        OutputChannel(inputs["outlet"]),
        make_record(PreparedFolders, inputs["prepared"]),
    )
    tempfile.tempdir = str(prepared.temporary)
    private, prefix = prepared.private, "fallback-" if inputs["instead_of"] else ""
    logs = open_logs(private / "logs", outlet, prefix)
    work_context = confine_work(open_work_input(inputs["place"], logs, outlet, prepared), inputs)
    if inputs["instead_of"]:
        outlet(build_fallback_note(str(inputs["instead_of"])))
    control = socket.socket(fileno=inputs["control"])
    gateway = RemoteGateway(control, outlet) if inputs["gateway"] else None
    task = DelegationTask(
        payload=make_record(Payload, inputs["payload"]),
        source=open_source_record(inputs["source"], private),
        plan=make_record(Plan, inputs["plan"]),
        work_context=work_context,
        scratch=Path(inputs["scratch"]),
    )
    answer |= dataclasses.asdict(do_work(task, gateway, outlet.send_record))
    return 0
