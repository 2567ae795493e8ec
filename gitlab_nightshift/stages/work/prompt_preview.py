"""Renders the prompts of a night in advance."""

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.policy.prompts import BEADS, load_bead_prompt, render_bead_prompt
from gitlab_nightshift.records.products import Plan
from gitlab_nightshift.stages.work.bead_prompt import format_hand_over, format_last_sections
from gitlab_nightshift.stages.work.handoff_schema import KINDS
from gitlab_nightshift.stages.work.prompt_values import build_bead_values, build_run_values
from gitlab_nightshift.stages.work.run_budget import open_ledger
from gitlab_nightshift.stages.work.work_context import WorkContext

_FOLDER = "<hand-off folder>"


def load_templates(work_context: WorkContext) -> dict[str, str]:
    """The four templates, checked."""
    return {
        bead: load_bead_prompt(bead, work_context.settings, work_context.config_folder)
        for bead in BEADS
    }


def preview_prompts(work_context: WorkContext, plan: Plan, brief: str) -> dict[str, str]:
    """The prompts of the first category as they would be sent; later values are left empty."""
    run = build_run_values(
        plan,
        work_context.settings,
        work_context.job,
        work_context.allowed_commands,
        work_context.build_commands,
    )
    category = next(iter(plan.categories), "tests")
    values = build_bead_values(run, work_context.settings, category, left_s=work_context.seconds)
    values |= {"handoff_file": f"{_FOLDER}/handoff.json"}
    values |= {"analysis_file": f"{_FOLDER}/analysis.json"}
    ledger = open_ledger(plan, work_context.seconds)
    hand_over = format_hand_over(
        build_provider(work_context.settings).about.report_by, values["handoff_file"]
    )
    return {
        bead: render_bead_prompt(
            template,
            values,
            brief,
            format_last_sections(ledger, {}, hand_over if bead in KINDS else ""),
        )
        for bead, template in load_templates(work_context).items()
    }
