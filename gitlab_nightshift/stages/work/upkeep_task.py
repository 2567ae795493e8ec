"""The workflows for an open merge request: of an earlier night, as a task that nobody waits for;
and of one whose pipeline has failed."""

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

_QUIET = {Code.TEST_FAILED, Code.APPLY_FAILED, Code.POLICY_DENY, Code.BUDGET}
"""What a task that somebody gave fails with, and what is no alarm here: a person has the merge
request in front of them, with an answer in it."""


def _run_upkeep(night: Night) -> Ending:
    ending = do_task(night)
    if ending.error_code not in _QUIET:
        return ending
    return dataclasses.replace(ending, outcome=Outcome.NO_IMPROVEMENT, error_code="")


def _run_red_baseline(place: WorkContext, checkout: Checkout, runner: Runner) -> Baseline:
    """Commands that fail now are what is to be repaired: they have to pass on the change."""
    found = run_baseline(place.verify, "report", checkout, runner, place.emit)
    return dataclasses.replace(found, red=False)


REVIEW = dataclasses.replace(NIGHT, then=_run_upkeep)
REPAIR = Workflow(_run_red_baseline, _run_upkeep)
ASKED_REPAIR = Workflow(_run_red_baseline, do_task)
"""Somebody asked for a task on a merge request whose pipeline has failed."""
