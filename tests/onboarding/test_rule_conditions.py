"""The conditions of rules, by examples of GitLab's own documentation."""

import pytest

from gitlab_nightshift.onboarding.pipeline_rules import evaluate_condition

KNOWN = {"CI_PIPELINE_SOURCE": "schedule", "CI_COMMIT_BRANCH": "main", "CI_COMMIT_TAG": None}


def test_conditions() -> None:
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
def test_what_cannot_be_read_is_not_known(condition: str | None) -> None:
    assert evaluate_condition(condition, KNOWN) is None
