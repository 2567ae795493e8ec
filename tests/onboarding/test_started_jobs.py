"""Which jobs a night's pipeline would run, too, and a merge request's."""

import yaml

from gitlab_nightshift.onboarding.ci_file import parse_config
from gitlab_nightshift.onboarding.pipeline_rules import find_request_jobs, find_scheduled_jobs

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
kept-out: {script: [x], rules: [{if: '$NIGHTSHIFT == "true"', when: never}, {when: always}]}
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


def test_the_jobs_of_a_night() -> None:
    found = find_scheduled_jobs(parse_config(FILE, "ci"), "main")
    assert found.sure == ("always", "on-main", "old-main")
    unsure = "if-asked not-if-asked with-file shared old-pattern old-changes".split()
    assert found.perhaps == tuple(unsure)
    assert found.excluded is False


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


def test_the_jobs_of_a_merge_request() -> None:
    config = parse_config(FILE, "ci")
    found = find_request_jobs(config, "topic", "main")
    assert found.sure == ("on-merge-requests", "kept-out")
    assert {"always", "on-main", "by-hand", "old-main"} <= set(found.never)
    assert found.excluded is False
    # GitLab gives a merge request the jobs without rules, where the workflow has some.
    ruled = {**config, "workflow": {"rules": [{"if": "$CI_MERGE_REQUEST_IID"}]}}
    assert "always" in find_request_jobs(ruled, "topic", "main").sure


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
        found = find_request_jobs(parse_config(text, "ci"), "topic", "main")
        assert found.excluded is excluded, text
