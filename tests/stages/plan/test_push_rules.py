"""What a push rule says of a night's branch and commit."""

import re

import pytest

from gitlab_nightshift.gitlab.access import Access
from gitlab_nightshift.gitlab.project_settings import PushRule
from gitlab_nightshift.repository.git import CommitIdentity
from gitlab_nightshift.settings.load import build_settings
from gitlab_nightshift.stages.plan.push_rules import list_refusals
from gitlab_nightshift.stages.publish.branch_name import EXTREMES
from tests.support.tables import each

BOT = Access(1, "night-bot", "Night Shift", "bot@example.org", 30, ("api",))
AUTHOR = CommitIdentity("Night Shift", "bot@example.org")
MESSAGE = "Improve the tests\n"


def refusals(
    rule: dict[str, object], author: CommitIdentity = AUTHOR, message: str = MESSAGE
) -> list[str]:
    made = PushRule.from_data(rule)
    settings = build_settings({})
    return list(list_refusals(made, settings, author, BOT, message, extremes=EXTREMES))


@each(
    ("name", "value", "mend"),
    [
        ("branch_name_regex", "^(feature|fix)/", "set branch_prefix"),
        ("commit_message_regex", r"^[A-Z]+-\d+: ", "set commit_template"),
        ("commit_message_negative_regex", "(?i)improve", "set commit_template"),
        ("author_email_regex", "@corp.example$", "set commit_author"),
        ("reject_unsigned_commits", True, "must be signed"),
        ("reject_non_dco_commits", True, "Signed-off-by"),
    ],
)
def test_each_rule_that_refuses_says_what_to_do(name: str, value: object, mend: str) -> None:
    [text] = refusals({name: value})
    assert mend in text


@each(
    ("name", "value"),
    [
        ("branch_name_regex", "night-shift/"),
        ("commit_message_regex", "^Improve"),
        ("commit_message_negative_regex", "WIP"),
        ("author_email_regex", "@example.org$"),
        ("member_check", True),
        ("commit_committer_check", True),
        ("commit_committer_name_check", True),
    ],
)
def test_a_rule_that_lets_a_night_pass(name: str, value: object) -> None:
    assert refusals({name: value}) == []


@each(
    ("pattern", "name", "length"),
    [
        ("^.{1,60}$", "night-shift/" + EXTREMES[1], 75),
        (r"^night-shift/[a-z0-9-]{3,}$", "night-shift/a", 13),
    ],
)
def test_a_rule_that_some_names_of_a_night_break(pattern: str, name: str, length: int) -> None:
    assert refusals({"branch_name_regex": pattern}) == [
        f"branch names must match {pattern}, and a night's can be {name} ({length} characters):"
        " widen the rule"
    ]


def test_a_commit_of_somebody_else() -> None:
    other = CommitIdentity("Olga", "olga@example.org")
    names = ("member_check", "commit_committer_check", "commit_committer_name_check")
    assert len(refusals(dict.fromkeys(names, True), other)) == 3
    assert refusals({"reject_non_dco_commits": True}, message="x\n\nSigned-off-by: A <a@b>\n") == []


def test_a_pattern_that_cannot_be_read_here() -> None:
    with pytest.raises(re.error):
        refusals({"branch_name_regex": "("})
