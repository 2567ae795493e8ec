"""What earlier nights' merge requests tell, on the stand-in by REST and GraphQL; what is believed
of a night's result, which its job may have written itself."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.demo.standin_state import MergeRequestState, StandinMergeRequest
from gitlab_nightshift.gitlab.history import LONGEST_REASON, Memory, find_cost, read_result
from gitlab_nightshift.gitlab.marker import Marker, write_marker
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.records.history_records import PastNight
from gitlab_nightshift.records.products import KnownMergeRequest
from tests.support.graphql_api import GRAPHQL
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject
from tests.support.standin_threads import add_comment
from tests.support.tables import each

from .conftest import git, new

MARKED = write_marker(Marker("1", "tests", "0", ("parse",)))


@pytest.fixture
def asked(gitlab: FullStandin) -> FullStandin:
    gitlab.more_endpoints.append(GRAPHQL)
    return gitlab


def opened(app: Project, remote: FullProject, branch: str, **more: object) -> StandinMergeRequest:
    given = {"labels": ("night-shift",), **more}
    app.merge_requests.create(new(f"night-shift/{branch}", **given), "")
    return remote.merge_requests[-1]


def read(app: Project, label: str = "night-shift") -> Memory:
    return app.read_memory("night-shift/", label)


def iids(known: tuple[KnownMergeRequest, ...]) -> list[int]:
    return sorted(each.iid for each in known)


@pytest.fixture
def files(remote: FullProject, tmp_path: Path) -> None:
    """Branch a changes two files."""
    work = tmp_path / "work"
    git(work, "checkout", "-q", "night-shift/a")
    for name in ("parser.py", "test_parser.py"):
        (work / name).write_text("x\n")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "Test more")
    git(work, "push", "-q", str(remote.bare_repository), "night-shift/a")


def test_merge_requests_are_sorted_by_state(
    asked: FullStandin, app: Project, remote: FullProject
) -> None:
    states: dict[str, MergeRequestState] = {"a": "closed", "b": "merged", "c": "opened"}
    for branch, state in states.items():
        opened(app, remote, branch, body=MARKED).change_state(state)
    app.merge_requests.create(new("start", title="By hand"), "")
    memory = read(app)
    found = (memory.rejected, memory.merged, memory.open, memory.others)
    assert [iids(each) for each in found] == [[1], [2], [3], [4]]
    assert memory.unknown == ()
    assert (memory.rejected[0].category, memory.rejected[0].symbols) == ("tests", ("parse",))
    assert memory.rejected[0].day == str(remote.merge_requests[0].closed_at)[:10]


def test_only_merge_requests_of_nights_count(
    asked: FullStandin, app: Project, remote: FullProject
) -> None:
    """A marker is text that anybody may copy: it counts on a night's branch of this project."""
    fork = opened(app, remote, "a", body=MARKED)
    opened(app, remote, "b", title="[night-shift/tests] by hand", labels=())
    app.merge_requests.create(new("start", title="z", body=MARKED, labels=("night-shift",)), "")
    opened(app, remote, "c", title="[night-shift/docs] y")
    fork.source_project_id = remote.id + 1
    memory = read(app)
    assert [(each.iid, each.category) for each in memory.open] == [(4, "docs")]
    assert iids(memory.others) == [1, 2, 3]
    for request in remote.merge_requests:
        request.change_state("closed")
    assert iids(read(app).rejected) == [4]


def test_reasons_are_the_words_of_developers(
    asked: FullStandin, app: Project, remote: FullProject, files: None
) -> None:
    [ada, guest, bot, owner] = [
        asked.add_user(name, name) for name in ("ada", "eve", "project_7_bot_ab12", "zoe")
    ]
    remote.members |= {ada.id: 30, guest.id: 20, bot.id: 40, owner.id: 50}
    rejected = opened(app, remote, "a", body=MARKED, labels=("night-shift", "triage::Won't do"))
    comments = [
        (ada, "too long ago"),
        (owner, "We test this\n\nelsewhere. " + "x" * 4000),
        (ada, "As Zoe says"),
        (ada, "/nightshift try again"),
        (guest, "I am nobody"),
        (bot, "coverage 90%"),
        (ada, "Please no"),
    ]
    for author, body in comments:
        add_comment(asked, rejected, author, body)
    add_comment(asked, rejected, ada, "closed", system=True)
    rejected.thumbs_down += [ada, guest]
    rejected.change_state("closed")
    [known] = read(app).rejected
    assert known.files == ("parser.py", "test_parser.py")
    first, *others = known.reasons
    assert first.startswith("We test this elsewhere. xxx")
    assert len(first) == 300
    assert others == ["As Zoe says", "Please no", "thumbs down by 1", "label triage::Won't do"]


@pytest.mark.parametrize(
    ("login", "bot"),
    [
        ("project_7_bot_ab12", False),
        ("group_4_bot1", False),
        ("service_account_group_345_c46", False),
        ("GitLabDuo", False),
        ("GitLab-Security-Bot", False),
        ("coderabbitai", True),
    ],
)
def test_no_bot_gives_a_reason_or_has_looked(
    asked: FullStandin, app: Project, remote: FullProject, login: str, bot: bool
) -> None:
    """By GitLab's names, and whatever its name by what GraphQL says of the account."""
    reviewer = asked.add_user(login, login, bot=bot)
    remote.members[reviewer.id] = 30
    rejected, waiting = (opened(app, remote, each, body=MARKED) for each in "ab")
    for request in (rejected, waiting):
        add_comment(asked, request, reviewer, "Do not do this.")
        add_comment(asked, request, reviewer, "added a label", system=True)
        request.thumbs_down.append(reviewer)
    rejected.change_state("closed")
    memory = read(app)
    assert [each.reasons for each in memory.rejected] == [()]
    assert [each.unread for each in memory.open] == [True]


def test_a_person_whose_name_looks_a_little_like_a_bots_is_heard(
    asked: FullStandin, app: Project, remote: FullProject
) -> None:
    person = asked.add_user("abbot", "Abbot")
    remote.members[person.id] = 30
    rejected = opened(app, remote, "a", body=MARKED)
    add_comment(asked, rejected, person, "Do not do this.")
    rejected.change_state("closed")
    assert [each.reasons for each in read(app).rejected] == [("Do not do this.",)]


def test_who_has_done_something_has_looked(
    asked: FullStandin, app: Project, remote: FullProject
) -> None:
    people = [asked.add_user(name, name) for name in ("ada", "project_7_bot_ab12")]
    for branch, who in zip("ab", people, strict=True):
        one = opened(app, remote, branch, body=MARKED)
        add_comment(asked, one, who, "added 1 commit", system=True)
        add_comment(asked, one, one.author, "changed the description", system=True)
    assert {each.iid: each.unread for each in read(app).open} == {1: False, 2: True}


def test_without_graphql_some_is_unknown(
    gitlab: FullStandin, app: Project, remote: FullProject, files: None
) -> None:
    ada = gitlab.add_user("ada", "Ada")
    remote.members[ada.id] = 30
    for branch in "bca":
        one = opened(app, remote, branch, body=MARKED)
        add_comment(gitlab, one, ada, f"No {branch}")
        one.change_state("closed")
    memory = read(app)
    assert [(each.reasons, each.files) for each in memory.rejected] == [
        (("No a",), ("parser.py", "test_parser.py")),
        (("No c",), ()),
        ((), ()),
    ]
    [text] = memory.unknown
    assert text.startswith("files and comments of 1 merge requests: GitLab at 127.0.0.1")
    assert "404" in text


@pytest.mark.parametrize(
    "answer", [{"errors": [{"message": "complex"}]}, {"data": {"project": None}}, []]
)
def test_a_graphql_error_leaves_details_unknown(
    asked: FullStandin, app: Project, remote: FullProject, answer: object
) -> None:
    opened(app, remote, "a", body=MARKED).change_state("merged")
    opened(app, remote, "b", body=MARKED)
    asked.fail_next("POST", "/api/graphql", 200, answer)
    memory = read(app)
    assert (iids(memory.open), iids(memory.merged)) == ([2], [1])
    assert len(memory.unknown) == 1


def test_a_large_project_costs_few_requests(
    asked: FullStandin, app: Project, remote: FullProject
) -> None:
    """All are closed by people who give a reason, and hundreds are open."""
    ada = asked.add_user("ada", "Ada")
    remote.members[ada.id] = 30
    first = opened(app, remote, "a", body=MARKED, labels=("night-shift",))
    add_comment(asked, first, ada, "No")
    for number in range(2, 2001):
        one = dataclasses.replace(first, iid=number, state="opened" if number % 2 else "closed")
        remote.merge_requests.append(one)
    del asked.requests[:]
    memory = read(app)
    assert len(asked.requests) <= 8
    assert len(memory.rejected) > 40
    assert memory.rejected[0].reasons == ("No",)


def test_without_labels_the_marker_is_searched(
    asked: FullStandin, app: Project, remote: FullProject
) -> None:
    opened(app, remote, "a", body=MARKED, labels=()).change_state("closed")
    opened(app, remote, "b").change_state("closed")
    assert iids(read(app, label="").rejected) == [1]


LOST = PastNight("acme/shop", "4711", "https://gitlab.example.org/1", "2026-02-03T01:00:00Z")


@each(
    ("cost", "read"),
    [
        ("0", 0.0),
        ("0.004", 0.004),
        ("12", 12.0),
        ("999999.5", 999999.5),
        ("1000000", None),
        ("-0.01", None),
        ("NaN", None),
        ("Infinity", None),
        ("true", None),
        ('"0.5"', None),
        ("null", None),
    ],
)
def test_only_a_plausible_cost_is_one(cost: str, read: float | None) -> None:
    assert find_cost(json.loads(f'{{"total_cost_usd": {cost}}}')) == read


@each("result", [None, [], "x", 1])
def test_a_result_that_is_none_tells_nothing(result: object) -> None:
    assert (find_cost(result), read_result(result, LOST)) == (None, LOST)


@each(
    ("result", "said"),
    [
        ({}, {}),
        (
            {"outcome": "MR_CREATED", "category_used": "tests", "reason": "none", "error_code": ""},
            {"outcome": "MR_CREATED", "category": "tests"},
        ),
        (
            {"outcome": "FAILED", "error_code": "E_BUDGET", "reason": "too dear"},
            {"outcome": "FAILED", "failure": "E_BUDGET: too dear"},
        ),
        ({"outcome": "FAILED"}, {"outcome": "FAILED", "failure": "no reason given"}),
        ({"error_code": "E_BUDGET"}, {"failure": "E_BUDGET: no reason given"}),
        ({"outcome": "SKIPPED", "reason": "a quiet date"}, {"outcome": "SKIPPED"}),
        ({"outcome": "x" * 41, "category_used": 7}, {"outcome": "x" * 40, "category": "7"}),
        ({"error_code": "E", "reason": "x" * 9999}, {"failure": f"E: {'x' * LONGEST_REASON}"}),
        ({"started_at": "2020-01-01"}, {}),  # GitLab knows better
    ],
)
def test_what_a_result_says_of_its_night(result: object, said: dict[str, Any]) -> None:
    assert read_result(result, LOST) == replace(LOST, **said)


def test_where_gitlab_does_not_know_it_the_result_says_when_it_began() -> None:
    read = read_result({"started_at": "2026-02-03"}, replace(LOST, started=""))
    assert read == replace(LOST, started="2026-02-03")
