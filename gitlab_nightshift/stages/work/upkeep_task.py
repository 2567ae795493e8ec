"""The workflows for an open merge request: answering its review, and repairing its failed
pipeline."""

import dataclasses

from gitlab_nightshift.errors import Code
from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.stages.work.baseline import Baseline, run_baseline
from gitlab_nightshift.stages.work.given_task import do_task
from gitlab_nightshift.stages.work.night_bead import Night
from gitlab_nightshift.stages.work.night_ending import Ending
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.work_stage import NIGHT, Workflow

_NO_ALARM = {Code.TEST_FAILED, Code.APPLY_FAILED, Code.POLICY_DENY, Code.BUDGET}
"""Codes that fail a requested task, but need no alarm here: a person reads the reply in the merge
request."""


def _run_upkeep(night: Night) -> Ending:
    ending = do_task(night)
    if ending.error_code not in _NO_ALARM:
        return ending
    return dataclasses.replace(ending, outcome=Outcome.NO_IMPROVEMENT, error_code="")


def _run_red_baseline(work_context: WorkContext, checkout: Checkout, runner: Runner) -> Baseline:
    """Failing commands are to be repaired, so they must pass on the change."""
    baseline = run_baseline(work_context.verify, "report", checkout, runner, work_context.emit)
    return dataclasses.replace(baseline, red=False)


REVIEW = dataclasses.replace(NIGHT, run=_run_upkeep)
REPAIR = Workflow(_run_red_baseline, _run_upkeep)
ASKED_REPAIR = Workflow(_run_red_baseline, do_task)
"""A requested task on a merge request whose pipeline has failed."""
