"""The process that runs agents and reads what they write. It holds no secret.

Its logs and products go to the redactor, one way.
"""

import functools
from collections.abc import Mapping
from typing import Any

from gitlab_nightshift.records.bead_results import BeadResult
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.records.products import Plan
from gitlab_nightshift.sandbox.supervised_process import serve_stage
from gitlab_nightshift.sandbox.visible_system import SystemWalk, walk_system
from gitlab_nightshift.stages.work.opened_work import open_work, run_confined_step
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.work_stage import work
from gitlab_nightshift.stages.work.workflows import NIGHT, Workflow
from gitlab_nightshift.wire.exit_status import run_guarded
from gitlab_nightshift.wire.sent_logs import open_logs


def main(data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``). With ``data["ahead"]`` it examines the
    machine before it gets its input, while the plan waits for GitLab."""
    walked = walk_system() if data["ahead"] else None
    return serve_stage(functools.partial(_work, walked), forwarding=False)


def _work(walked: SystemWalk | None, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return run_confined_step(
        lambda: {"status": run_guarded(lambda: _run_night(walked, inputs), {})}
    )


def _run_night(walked: SystemWalk | None, inputs: Mapping[str, Any]) -> int:
    opened = open_work(inputs, open_logs, walked=walked)
    plan = make_record(Plan, inputs["plan"])
    before = [make_record(BeadResult, each) for each in inputs["before"]]
    work(
        plan,
        opened.work_context,
        opened.gateway,
        opened.outlet.send_record,
        _choose_workflow(plan, opened.work_context),
        before,
    )
    return 0


def _choose_workflow(plan: Plan, work_context: WorkContext) -> Workflow:
    request = plan.request
    if request and (request.upkeep or request.failed_pipeline):
        from gitlab_nightshift.stages.work.workflows import ASKED_REPAIR, REPAIR, REVIEW

        return {"repair": REPAIR, "review": REVIEW, "": ASKED_REPAIR}[request.upkeep]
    if not work_context.settings.rehearse:
        return NIGHT
    from gitlab_nightshift.stages.work.rehearsal import build_rehearsal

    return build_rehearsal(plan)
