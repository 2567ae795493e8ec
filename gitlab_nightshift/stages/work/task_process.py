"""The process that does a delegation's task: it runs agents and reads what they write. It holds no
secret, and sends its logs and products to the redactor, one way.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.records.delegation_records import Payload
from gitlab_nightshift.records.products import Plan
from gitlab_nightshift.repository.delegated_repository import open_source_record
from gitlab_nightshift.stages.work.delegation.delegated_task import (
    DelegationTask,
    do_delegated_task,
)
from gitlab_nightshift.stages.work.delegation.delegation_context import build_fallback_note
from gitlab_nightshift.stages.work.work_start import WorkResources, serve_work


def main(_data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``)."""
    return serve_work(_run_task, prefix=lambda inputs: "fallback-" if inputs["instead_of"] else "")


def _run_task(resources: WorkResources, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Do the task; ``instead_of`` is why the first agent could not be used."""
    if inputs["instead_of"]:
        resources.outlet(build_fallback_note(str(inputs["instead_of"])))
    task = DelegationTask(
        payload=make_record(Payload, inputs["payload"]),
        source=open_source_record(inputs["source"], resources.work_context.private),
        plan=make_record(Plan, inputs["plan"]),
        work_context=resources.work_context,
        scratch=Path(inputs["scratch"]),
    )
    return dataclasses.asdict(
        do_delegated_task(task, resources.gateway, resources.outlet.send_record)
    )
