"""Which jobs a pipeline would run, and which schedules are nights, by the rules of its file."""

import pytest
import yaml

from gitlab_nightshift.gitlab.project_settings import Schedule
from gitlab_nightshift.onboarding.pipeline_rules import (
    evaluate_condition,
    find_marks,
    find_merge_request_jobs,
    find_scheduled_jobs,
    is_night,
)
from gitlab_nightshift.onboarding.project_files import TEMPLATE, parse_config

FILE = """
stages: [test, deploy]
default: {image: alpine}
.hidden: {script: [x], except: [schedules]}
always: {script: [make]}
hidden-away: {extends: .hidden}
on-merge-requests:
  script: [x]
  rules: [{if: '$CI_PIPELINE_SOURCE == "merge_request_event"'}]
on-main:
  script: [x]
  rules:
    - {if: $CI_COMMIT_TAG, when: never}
    - {if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH}
by-hand: {script: [x], when: manual}
by-hand-too: {script: [x], rules: [{when: manual}]}
not-at-night: {script: [x], rules: [{if: '$NIGHTSHIFT == "true"', when: never}, {when: always}]}
if-asked: {script: [x], rules: [{if: $DEPLOY}]}
not-if-asked: {script: [x], rules: [{if: $SKIP, when: never}, {when: on_success}]}
with-file: {script: [x], rules: [{exists: [Dockerfile]}]}
shared: {script: [x], rules: [!reference [.hidden, rules]]}
old-main: {script: [x], only: [main]}
old-tags: {script: [x], only: {refs: [tags]}}
old-pattern: {script: [x], only: [/^rel/]}
old-changes: {script: [x], only: {changes: [a]}}
mistyped: {script: [x], only: 5, except: 3}
nightshift: {before_script: [x]}
"""


def test_the_jobs_of_a_nights_pipeline() -> None:
    jobs = find_scheduled_jobs(parse_config(FILE, "ci"), "main")
    assert jobs.sure == ("always", "on-main", "old-main")
    perhaps = "if-asked not-if-asked with-file shared old-pattern old-changes"
    assert jobs.perhaps == tuple(perhaps.split())
    assert jobs.excluded is False


def test_a_workflow_may_exclude_schedules() -> None:
    for rules, excluded in {
        "[{if: '$CI_PIPELINE_SOURCE == \"merge_request_event\"'}]": True,
        "[{if: '$CI_PIPELINE_SOURCE == \"schedule\"', when: never}, {when: always}]": True,
        "[{if: $CI_COMMIT_BRANCH}]": False,
        "[{if: $OTHER}]": None,
        "!reference [.rules, all]": None,
    }.items():
        config = parse_config(f"workflow:\n  rules: {rules}\n", "ci")
        assert find_scheduled_jobs(config, "main").excluded is excluded, rules
    named = yaml.safe_load("workflow: {name: x}")
    assert find_scheduled_jobs(named, "main").excluded is False


def test_the_jobs_of_a_merge_request_pipeline() -> None:
    config = parse_config(FILE, "ci")
    jobs = find_merge_request_jobs(config, "topic", "main")
    assert jobs.sure == ("on-merge-requests", "not-at-night")
    assert {"always", "on-main", "by-hand", "old-main"} <= set(jobs.never)
    assert jobs.excluded is False
    # With workflow rules, GitLab also runs the jobs without rules in a merge request.
    with_workflow = {**config, "workflow": {"rules": [{"if": "$CI_MERGE_REQUEST_IID"}]}}
    assert "always" in find_merge_request_jobs(with_workflow, "topic", "main").sure


def test_a_workflow_may_exclude_merge_requests() -> None:
    for text, excluded in {
        "workflow: {rules: [{if: $CI_COMMIT_BRANCH}, {if: $CI_COMMIT_TAG}]}": True,
        "workflow: {rules: [{if: '$CI_PIPELINE_SOURCE == \"merge_request_event\"'}]}": False,
        "workflow: {rules: [{if: $CI_MERGE_REQUEST_IID}]}": False,
        "workflow: {rules: [{if: $CI_COMMIT_BRANCH && $CI_OPEN_MERGE_REQUESTS, when: never},"
        " {when: always}]}": False,
        "workflow: {rules: [{changes: [src/**]}]}": None,
        "include: {template: Workflows/Branch-Pipelines.gitlab-ci.yml}": None,
    }.items():
        jobs = find_merge_request_jobs(parse_config(text, "ci"), "topic", "main")
        assert jobs.excluded is excluded, text


# --- schedules of nights --------------------------------------------------------------------------


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


def build_schedule(description: str = "Builds", **fields: object) -> Schedule:
    values = {"has_night_variable": False, **fields}
    return Schedule(1, description, "main", True, "rita", True, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "schedule", "night"),
    [
        ("", build_schedule(has_night_variable=True), True),
        ("", build_schedule("Nightly"), False),
        ("", build_schedule(has_night_variable=None), None),
        (DESCRIBED, build_schedule("Nightly"), True),
        (DESCRIBED, build_schedule("Nightly", has_night_variable=None), True),
        (DESCRIBED, build_schedule("nightly"), False),
        (BY_INPUT, build_schedule(inputs={"nightshift": True}), True),
        (BY_INPUT, build_schedule(inputs={"nightshift": "true"}), True),
        (BY_INPUT, build_schedule(inputs={"nightshift": False}), False),
        (BY_INPUT, build_schedule(inputs={"other": True}), False),
        (BY_RULES, build_schedule("Nightly"), True),
        (BY_RULES, build_schedule("Builds"), False),
    ],
)
def test_a_schedule_is_a_night_by_variable_description_or_input(
    text: str, schedule: Schedule, night: bool | None
) -> None:
    assert is_night(schedule, find_marks(text, ".gitlab-ci.yml")) is night


# --- conditions, by examples of GitLab's documentation --------------------------------------------


KNOWN = {"CI_PIPELINE_SOURCE": "schedule", "CI_COMMIT_BRANCH": "main", "CI_COMMIT_TAG": None}


def test_conditions_are_evaluated_as_gitlab_does() -> None:
    for condition, expected in {
        '$CI_PIPELINE_SOURCE == "schedule"': True,
        "$CI_PIPELINE_SOURCE != 'schedule'": False,
        "$CI_COMMIT_TAG": False,
        "$CI_COMMIT_TAG == null": True,
        "${CI_COMMIT_BRANCH}": True,
        "$CI_COMMIT_BRANCH =~ /^MA/i": True,
        "$CI_COMMIT_BRANCH !~ /^release\\/.*$/": True,
        "$DEPLOY": None,
        '$DEPLOY == "yes" && $CI_COMMIT_TAG': False,
        '$DEPLOY == "yes" || $CI_COMMIT_BRANCH == "main"': True,
        '$DEPLOY == "yes" || $CI_COMMIT_TAG': None,
        '$CI_COMMIT_TAG && $DEPLOY || $CI_COMMIT_BRANCH == "main"': True,
        '$CI_COMMIT_TAG && ($DEPLOY || $CI_COMMIT_BRANCH == "main")': False,
        "$CI_COMMIT_BRANCH =~ $DEPLOY": None,
    }.items():
        assert evaluate_condition(condition, KNOWN) is expected, condition


@pytest.mark.parametrize(
    "condition",
    [
        "",
        "==",
        "$A ==",
        "($A",
        "$CI_COMMIT_TAG)",
        '"open',
        "$A @ $B",
        "$A =~ /(/",
        "(" * 9999,
        None,
    ],
)
def test_an_unreadable_condition_is_unknown(condition: str | None) -> None:
    assert evaluate_condition(condition, KNOWN) is None
