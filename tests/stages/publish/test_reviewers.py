"""Who is asked to review, against the GitLab stand-in."""

import dataclasses
from pathlib import Path

import pytest

from gitlab_nightshift.demo.standin_state import StandinMergeRequest, User
from gitlab_nightshift.gitlab import accounts
from gitlab_nightshift.stages.publish.reviewers import (
    MergeRequestFacts,
    choose_reviewers,
    find_owners,
)
from tests.stages.publish.conftest import Night
from tests.support.tables import each

OWNERS = "* @acme/web\n*.py @ann @ben\n"


@pytest.fixture
def team(night: Night) -> dict[str, User]:
    """Ann, Ben and Cleo, all members of acme/web."""
    people = {name: night.gitlab.add_user(name, name.title()) for name in ("ann", "ben", "cleo")}
    night.gitlab.groups["acme/web"] = {user.id: 30 for user in people.values()}
    return people


def reviewers(night: Night) -> list[str]:
    return [each.username for each in night.project.merge_requests[-1].reviewers]


def give_work(night: Night, *users: User) -> None:
    """An open merge request of somebody that waits for these."""
    number, own = night.gitlab.allocate_id("merge_request"), night.project
    made = StandinMergeRequest(
        number,
        number,
        f"{own.web_url}/-/merge_requests/{number}",
        users[0],
        "by-hand",
        "main",
        "By hand",
        reviewers=[*users],
        source_project_id=own.id,
    )
    own.merge_requests.append(made)


def add_owners(night: Night, text: str) -> None:
    def write(top: Path) -> None:
        (top / ".gitlab").mkdir(exist_ok=True)
        (top / ".gitlab" / "CODEOWNERS").write_text(text)

    night.on_main(write)


def test_of_a_group_the_one_with_the_fewest_reviews(night: Night, team: dict[str, User]) -> None:
    give_work(night, team["ann"], team["ben"])
    night.settings = {"reviewer": "group:acme/web"}
    assert night.publish().warnings == ()
    assert reviewers(night) == ["cleo"]


def test_busy_and_blocked_people_are_left_out(night: Night, team: dict[str, User]) -> None:
    night.gitlab.busy.add(team["ann"].id)
    night.gitlab.blocked.add(team["ben"].id)
    night.settings = {"reviewers": ["ann", "ben", "group:acme/web"]}
    busy, blocked = night.publish().warnings
    assert "ann is left out: busy" in busy
    assert "ben is left out: the account is blocked" in blocked
    assert reviewers(night) == ["cleo"]


def test_if_everybody_is_busy_there_is_a_warning(night: Night, team: dict[str, User]) -> None:
    night.gitlab.busy.update(user.id for user in team.values())
    night.settings = {"reviewer": "group:acme/web"}
    assert night.publish().warnings == (
        "group acme/web: nobody is left who can review and is not busy",
    )
    assert reviewers(night) == []


def test_owners_of_the_changed_files(night: Night, team: dict[str, User]) -> None:
    """The file is read on the target branch; the change touches a Python file only."""
    give_work(night, team["ann"])
    add_owners(night, OWNERS)
    night.settings = {"reviewer": "code_owners"}
    assert night.publish().warnings == ()
    assert reviewers(night) == ["ben"]


def test_owners_by_role_and_by_group(night: Night, team: dict[str, User]) -> None:
    night.project.members[team["cleo"].id] = 40
    night.project.members[team["ben"].id] = 30
    add_owners(night, "[A]\n*.py @@maintainers\n[B]\n*.py @acme/web\n")
    night.settings = {"reviewer": "code_owners"}
    assert night.publish().warnings == ()
    assert reviewers(night) == ["cleo"]  # a member of the group, too: one is enough


def fill_first_page(night: Night, team: dict[str, User]) -> None:
    """Owners by role and by group, after a page of people who cannot review."""
    crowd = [night.gitlab.add_user(f"zed{number}", "Zed") for number in range(100)]
    night.gitlab.blocked.update(user.id for user in crowd)
    night.gitlab.groups["acme/web"] = {user.id: 30 for user in (*crowd, team["cleo"])}
    night.project.members.update({user.id: 30 for user in crowd})
    night.project.members[team["ben"].id] = 40
    add_owners(night, "[A]\n*.py @@maintainers\n[B]\n*.py @acme/web\n")
    night.settings = {"reviewer": "code_owners"}


def test_members_beyond_the_first_page_are_found(night: Night, team: dict[str, User]) -> None:
    fill_first_page(night, team)
    assert night.publish().warnings == ()
    assert sorted(reviewers(night)) == ["ben", "cleo"]


def test_members_beyond_the_last_page_that_is_read_are_not(
    night: Night, team: dict[str, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "MOST_PAGES", 1)
    fill_first_page(night, team)
    assert all("nobody is left" in warning for warning in night.publish().warnings)
    assert reviewers(night) == []


def test_without_the_file_nobody_is_chosen(night: Night) -> None:
    night.settings = {"reviewer": "code_owners"}
    assert night.publish().warnings == ("there is no CODEOWNERS on main",)


def test_approval_rules_on_a_paid_tier(night: Night, team: dict[str, User]) -> None:
    assert team
    night.gitlab.paid_tier = True
    rules = night.project.approval_rules
    rules.append({"name": "two", "approvals_required": 2, "eligible_approvers": ["ann", "cleo"]})
    rules.append({"name": "none", "approvals_required": 0, "eligible_approvers": ["ben"]})
    other = {"name": "other", "approvals_required": 1, "eligible_approvers": ["ben"]}
    rules.append({**other, "protected_branches": [{"name": "release"}]})
    night.settings = {"reviewers": ["approval_rules"]}
    assert night.publish().warnings == ()
    assert sorted(reviewers(night)) == ["ann", "cleo"]


def test_a_missing_tier_is_a_warning(night: Night) -> None:
    night.gitlab.paid_tier = False
    night.settings = {"reviewers": ["approval_rules", "group:acme/none", "rita"]}
    rules, group = night.publish().warnings
    assert "they need GitLab Premium" in rules
    assert "no reviewer is from group acme/none" in group
    assert reviewers(night) == ["rita"]


def test_a_gitlab_that_does_not_answer_costs_no_merge_request(
    night: Night, team: dict[str, User]
) -> None:
    assert team
    night.gitlab.fail_next("GET", "/members/all$", 418, {"message": "teapot"})
    night.settings = {"reviewers": ["group:acme/web", "rita"]}
    [warning] = night.publish().warnings
    assert "reviewer group:acme/web could not be looked up" in warning
    assert reviewers(night) == ["rita"]


def test_those_who_review_already_stay(night: Night, team: dict[str, User]) -> None:
    night.publish()
    night.merge_request.reviewers = [team["ben"]]
    night.settings = {"reviewer": "group:acme/web"}
    night.publish()
    assert reviewers(night) == ["ben"]


def test_the_same_run_chooses_the_same_person(night: Night, team: dict[str, User]) -> None:
    assert team
    night.settings = {"reviewer": "group:acme/web"}
    context = night.context()
    people, settings = context.project.people, context.session.settings
    facts = MergeRequestFacts(("a.py",), "main", 0, "4711")
    chosen = {choose_reviewers(settings, people, facts)[0] for _ in range(3)}
    seeds = (dataclasses.replace(facts, seed=str(number)) for number in range(20))
    others = {choose_reviewers(settings, people, each)[0] for each in seeds}
    assert (len(chosen), len(others)) == (1, 3)


TEXT = r"""
# a comment
* @everyone
*.rb @ruby ruby@acme.example
/docs/ @docs @acme/writers
/config/* @config
README.md @readme
/a\ b/**/*.py @spaces
\#odd @odd
lib/{x @broken

[Backend][2] @acme/backend
*.go
/api/*.go @api
!/api/skipped.go

^[backend] @again
/late.txt

[Roles]
Makefile @@maintainers
"""


@each(
    ("file", "expected"),
    [
        ("x.txt", {("@everyone",)}),
        ("deep/er/x.rb", {("@ruby",)}),
        ("docs/a/b.txt", {("@docs", "@acme/writers")}),
        ("more/docs/a.txt", {("@everyone",)}),
        ("config/a.yml", {("@config",)}),
        ("config/sub/a.yml", {("@everyone",)}),
        ("sub/README.md", {("@readme",)}),
        ("a b/c/d/e.py", {("@spaces",)}),
        ("#odd", {("@odd",)}),
        ("m.go", {("@everyone",), ("@acme/backend",)}),
        ("api/m.go", {("@everyone",), ("@api",)}),
        ("api/skipped.go", {("@everyone",)}),
        ("late.txt", {("@everyone",), ("@again",)}),
        ("Makefile", {("@everyone",), ("@@maintainers",)}),
    ],
)
def test_the_last_match_of_each_section_counts(file: str, expected: set[tuple[str, ...]]) -> None:
    assert set(find_owners(TEXT, [file])) == expected


def test_each_set_of_owners_is_named_once() -> None:
    assert find_owners("* @a", ["x", "y"]) == (("@a",),)
    assert find_owners("", ["x"]) == ()
    assert find_owners("/x", ["x"]) == ()
