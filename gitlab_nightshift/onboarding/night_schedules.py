"""Which schedules of a project are nights: by a variable, their description, or an input."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gitlab_nightshift.gitlab.ci_settings import SWITCH, Schedule
from gitlab_nightshift.onboarding.ci_file import RULES_JOB, find_schedule_description, parse_config
from gitlab_nightshift.onboarding.rule_conditions import evaluate_condition

_INPUT = re.compile(r"\$\[\[\s*inputs\.([\w-]+)\s*\]\]")


@dataclass(frozen=True)
class NightMarks:
    """How a project's pipeline file tells a night's schedule, beside the variable: by the
    ``description``, by the ``switch_input`` that sets the variable ("" for neither), by conditions
    of the file's own ``rules``."""

    description: str = ""
    switch_input: str = ""
    conditions: tuple[str, ...] = ()


def find_marks(text: str, name: str) -> NightMarks:
    """What the file with this text and name says. Raises ``E_CONFIG`` for no YAML."""
    config = parse_config(text, name)
    variables, own = (config.get(each) for each in ("variables", RULES_JOB))
    switch = variables.get(SWITCH) if isinstance(variables, Mapping) else None
    value = switch.get("value") if isinstance(switch, Mapping) else switch
    found = _INPUT.fullmatch(str(value))
    rules = own.get("rules") if isinstance(own, Mapping) else None
    starting = (rule for rule in rules or () if isinstance(rule, Mapping) and "if" in rule)
    conditions = tuple(str(rule["if"]) for rule in starting if rule.get("when") != "never")
    return NightMarks(
        find_schedule_description(text, name),
        found[1] if found else "",
        conditions,
    )


def is_night(schedule: Schedule, marks: NightMarks) -> bool | None:
    """Whether the schedule's pipelines are nights; None where the token does not see its variables,
    and nothing else says so."""
    if schedule.switched or (marks.description and schedule.description == marks.description):
        return True
    if str(schedule.inputs.get(marks.switch_input)).lower() == "true":
        return True
    known = {
        "CI_PIPELINE_SOURCE": "schedule",
        "CI_PIPELINE_SCHEDULE_DESCRIPTION": schedule.description,
        **({} if schedule.switched is None else {SWITCH: "false"}),
    }
    if any(evaluate_condition(each, known) for each in marks.conditions):
        return True
    return schedule.switched
