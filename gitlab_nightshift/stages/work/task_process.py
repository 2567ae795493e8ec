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
from gitlab_nightshift.sandbox.supervised_process import serve_stage
from gitlab_nightshift.stages.work.delegation.delegated_task import DelegationTask, do_work
from gitlab_nightshift.stages.work.delegation.delegation_context import build_fallback_note
from gitlab_nightshift.stages.work.opened_work import open_work, run_confined_step
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
    opened = open_work(inputs, open_logs, "fallback-" if inputs["instead_of"] else "")
    if inputs["instead_of"]:
        opened.outlet(build_fallback_note(str(inputs["instead_of"])))
    task = DelegationTask(
        payload=make_record(Payload, inputs["payload"]),
        source=open_source_record(inputs["source"], opened.work_context.private),
        plan=make_record(Plan, inputs["plan"]),
        work_context=opened.work_context,
        scratch=Path(inputs["scratch"]),
    )
    answer |= dataclasses.asdict(do_work(task, opened.gateway, opened.outlet.send_record))
    return 0
