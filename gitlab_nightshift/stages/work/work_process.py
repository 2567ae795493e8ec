"""The process that runs agents and reads what they write. It holds no secret.

It sends its logs and products to the redactor, which sends nothing back.
"""

from collections.abc import Mapping
from typing import Any

from gitlab_nightshift.records.bead_results import BeadResult
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.records.products import Plan
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.work_stage import work
from gitlab_nightshift.stages.work.work_start import WorkResources, serve_work
from gitlab_nightshift.stages.work.workflows import NIGHT, REPAIR, REPAIR_TASK, REVIEW, Workflow


def main(data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``). With ``data["ahead"]`` the system is
    searched while the plan, which is part of the input, is still being made."""
    return serve_work(_run_night, walk_early=data["ahead"], failure_answer={"failed": True})


def _run_night(resources: WorkResources, inputs: Mapping[str, Any]) -> dict[str, Any]:
    plan = make_record(Plan, inputs["plan"])
    work(
        plan,
        resources.work_context,
        resources.gateway,
        resources.outlet.send_record,
        _choose_workflow(plan, resources.work_context),
        [make_record(BeadResult, bead) for bead in inputs["earlier_beads"]],
    )
    return {"failed": False}


def _choose_workflow(plan: Plan, work_context: WorkContext) -> Workflow:
    request = plan.request
    if request and (request.upkeep or request.failed_pipeline):
        return {"repair": REPAIR, "review": REVIEW, "": REPAIR_TASK}[request.upkeep]
    if not work_context.settings.rehearse:
        return NIGHT
    # Imported here, since few runs are rehearsals.
    from gitlab_nightshift.stages.work.rehearsal import build_rehearsal

    return build_rehearsal(plan)
