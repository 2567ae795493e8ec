"""Which schedules are nights, in each way that the documentation offers."""

import pytest

from gitlab_nightshift.gitlab.ci_settings import Schedule
from gitlab_nightshift.onboarding.ci_file import TEMPLATE
from gitlab_nightshift.onboarding.pipeline_rules import find_marks, is_night

INCLUDE = f"include: {{project: g/gitlab-nightshift, file: {TEMPLATE}"
DESCRIBED = f"{INCLUDE}, inputs: {{schedule_description: Nightly}}}}\n"
BY_INPUT = (
    "spec: {inputs: {nightshift: {type: boolean, default: false}}}\n---\n"
    f'{INCLUDE}}}\nvariables: {{NIGHTSHIFT: "$[[ inputs.nightshift ]]"}}\n'
)
BY_RULES = (
    f"{INCLUDE}}}\n.nightshift:rules:\n  rules:\n"
    '    - {if: $CI_PIPELINE_SCHEDULE_DESCRIPTION == "Weekly", when: never}\n'
    '    - if: $CI_PIPELINE_SOURCE == "schedule" && $CI_PIPELINE_SCHEDULE_DESCRIPTION =~ /ly$/\n'
)


def schedule(description: str = "Builds", **more: object) -> Schedule:
    values = {"switched": False, **more}
    return Schedule(1, description, "main", True, "rita", True, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "given", "night"),
    [
        ("", schedule(switched=True), True),
        ("", schedule("Nightly"), False),
        ("", schedule(switched=None), None),
        (DESCRIBED, schedule("Nightly"), True),
        (DESCRIBED, schedule("Nightly", switched=None), True),
        (DESCRIBED, schedule("nightly"), False),
        (BY_INPUT, schedule(inputs={"nightshift": True}), True),
        (BY_INPUT, schedule(inputs={"nightshift": "true"}), True),
        (BY_INPUT, schedule(inputs={"nightshift": False}), False),
        (BY_INPUT, schedule(inputs={"other": True}), False),
        (BY_RULES, schedule("Nightly"), True),
        (BY_RULES, schedule("Builds"), False),
    ],
)
def test_a_schedule_is_a_night_by_variable_description_or_input(
    text: str, given: Schedule, night: bool | None
) -> None:
    assert is_night(given, find_marks(text, ".gitlab-ci.yml")) is night
