"""What GitLab can tell before a night, by the stand-in and the real python-gitlab."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.accounts import Access
from gitlab_nightshift.gitlab.project import open_project
from gitlab_nightshift.gitlab.project_settings import PushRule
from gitlab_nightshift.repository.git import CommitIdentity
from gitlab_nightshift.settings.load import build_settings
from gitlab_nightshift.stages.plan.preflight import check_with_gitlab, list_refusals
from gitlab_nightshift.stages.publish.branches import EXTREME_SLUGS
from tests.support.standin import FullStandin
from tests.support.tables import each

UNTIL = datetime(2026, 11, 16, 4, tzinfo=UTC)
TOKEN = "glpat-TheTokenOfThisTest"


@pytest.fixture
def gitlab(tmp_path: Path) -> Iterator[FullStandin]:
    with FullStandin(tmp_path / "gitlab") as standin:
        standin.add_user("rita", "Rita")
        standin.add_project("acme/shop")
        yield standin
        assert standin.errors == []


def notes_of(
    gitlab: FullStandin, expires: str | None = None, until: datetime = UNTIL, **settings: Any
) -> tuple[str, ...]:
    gitlab.tokens.clear()
    gitlab.add_token(TOKEN, gitlab.users[0], expires_at=expires)
    project = open_project(gitlab.url, "acme/shop", TOKEN)
    return check_with_gitlab(build_settings(settings), project, until)


def refused(gitlab: FullStandin, expires: str | None = None, **settings: Any) -> str:
    with pytest.raises(NightshiftError) as raised:
        notes_of(gitlab, expires, **settings)
    assert raised.value.code is Code.CONFIG
    assert "\n" not in raised.value.message
    return raised.value.message


def test_a_project_without_problems_has_no_notes(gitlab: FullStandin) -> None:
    assert notes_of(gitlab, reviewer="rita", reviewers=["@Rita"]) == ()


def test_a_project_in_which_nobody_can_open_a_merge_request(gitlab: FullStandin) -> None:
    gitlab.projects[0].merge_requests_enabled = False
    assert "merge requests are switched off in acme/shop" in refused(gitlab)
    gitlab.projects[0].archived = True
    assert "acme/shop is archived" in refused(gitlab)


@each("pattern", ["*", "night*", "night-shift/*", "*/*"])
def test_a_branch_that_would_be_protected(gitlab: FullStandin, pattern: str) -> None:
    gitlab.projects[0].protected_branches[:] = ["main", pattern]
    assert f"would be protected by {pattern} (Settings > Rep" in refused(gitlab)


def test_another_branch_prefix_is_not_protected(gitlab: FullStandin) -> None:
    gitlab.projects[0].protected_branches.append("night*")
    assert notes_of(gitlab, branch_prefix="bot-") == ()


@each("pattern", ["night-shift", "night-shift/release-*", "nights/*"])
def test_protected_branches_with_other_names(gitlab: FullStandin, pattern: str) -> None:
    gitlab.projects[0].protected_branches[:] = ["main", pattern]
    assert notes_of(gitlab) == ()


def test_protected_branches_that_the_token_may_not_read(gitlab: FullStandin) -> None:
    gitlab.fail_next("GET", "/protected_branches$", 403, {"message": "403 Forbidden"})
    [note] = notes_of(gitlab)
    assert note.startswith("not known: whether a protected branch matches branch_prefix")


def test_reviewers(gitlab: FullStandin) -> None:
    assert "no user rito, ritu: correct" in refused(gitlab, reviewer="rito", reviewers=["ritu"])
    gitlab.fail_next("GET", "/users$", 403, {"message": "403 Forbidden"})
    assert notes_of(gitlab, reviewer="rito") == ()


@each(
    ("expires", "said"),
    [
        ("2026-11-16", "E"),
        ("2026-11-17", "GITLAB_TOKEN expires on 2026-11-17: rotate it"),
        ("2026-11-24", ""),
        ("not a date", ""),
    ],
)
def test_a_token_that_expires(gitlab: FullStandin, expires: str, said: str) -> None:
    if said == "E":
        assert "expires on 2026-11-16 at 00:00 UTC, before the night" in refused(gitlab, expires)
        assert notes_of(gitlab, expires, UNTIL - timedelta(days=1)) != ()
    else:
        assert notes_of(gitlab, expires) == ((said,) if said else ())


BOT = Access(1, "night-bot", "Night Shift", "bot@example.org", 30, ("api",))
AUTHOR = CommitIdentity("Night Shift", "bot@example.org")
MESSAGE = "Improve the tests\n"


def refusals(
    rule: dict[str, object], author: CommitIdentity = AUTHOR, message: str = MESSAGE
) -> list[str]:
    made = PushRule.from_data(rule)
    settings = build_settings({})
    return list(list_refusals(made, settings, author, BOT, message, extreme_slugs=EXTREME_SLUGS))


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
def test_each_refusal_of_a_push_rule_names_a_remedy(name: str, value: object, mend: str) -> None:
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
def test_a_push_rule_that_accepts_a_night(name: str, value: object) -> None:
    assert refusals({name: value}) == []


@each(
    ("pattern", "name", "length"),
    [
        ("^.{1,60}$", "night-shift/" + EXTREME_SLUGS[1], 75),
        (r"^night-shift/[a-z0-9-]{3,}$", "night-shift/a", 13),
    ],
)
def test_a_push_rule_that_refuses_some_branch_names(pattern: str, name: str, length: int) -> None:
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
