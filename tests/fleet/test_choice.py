"""Which projects get a night, within which limits, in which order, and why others do not."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest

from gitlab_nightshift.fleet.choice import choose_tonight
from gitlab_nightshift.fleet.discovery import FleetCosts
from gitlab_nightshift.fleet.fleet_settings import CadenceRule, FleetBudget, FleetSettings, Window
from gitlab_nightshift.records.fleet_records import (
    Discovery,
    FleetMergeRequest,
    FleetNight,
    FleetPlan,
    FleetProject,
    NightCost,
    NightSettings,
)

NOW = datetime(2026, 11, 18, 23, 30, tzinfo=UTC)
"""A Wednesday; the window is open."""
SETTINGS = FleetSettings(
    groups=["acme"],
    window=Window(start=time(23), end=time(0)),  # one hour: all are due
    budget=FleetBudget(night_usd=100.0),
    cadence="nightly",
    max_running=100,
)
SET_UP = NightSettings(found=True, limit_usd=2.0, reviewers=("rita",))


def build(number: int, **facts: Any) -> FleetProject:
    values: dict[str, Any] = {
        "archived": False,
        "empty": False,
        "forked": False,
        "deleted": None,
        "topics": (),
        "last_activity": "2026-11-18T12:00:00Z",
        "included": True,
        "settings": replace(SET_UP, reviewers=(f"dev{number}",)),
        "merge_requests": (),
        "nights": (),
        **facts,
    }
    return FleetProject(number, f"acme/p{number}", "main", **values)


def night(
    pipeline: int, ago: timedelta, status: str = "success", user: str = "fleet"
) -> FleetNight:
    moment = (NOW - ago).isoformat()
    return FleetNight(pipeline, status, moment, moment, user, pipeline * 10)


def days(count: float) -> timedelta:
    return timedelta(days=count)


def request(iid: int, state: str = "opened", ago: float = 1, reviewer: str = "") -> Any:
    moment = (NOW - days(ago)).isoformat()
    return FleetMergeRequest(iid, "t", state, moment, "", (reviewer,) if reviewer else ())


def choose(
    *projects: FleetProject,
    costs: Mapping[str, float | None] | None = None,
    now: datetime = NOW,
    pending: frozenset[int] = frozenset(),
    **settings: Any,
) -> FleetPlan:
    ended = {key: NightCost(key, f"{NOW:%Y-%m-%d}", usd, 2.0) for key, usd in (costs or {}).items()}
    found = Discovery("fleet", projects)
    wanted = SETTINGS.with_values(**settings)
    return choose_tonight(wanted, found, FleetCosts(ended), now, pending)


def decide(*projects: FleetProject, **given: Any) -> list[str]:
    return [each.decision for each in choose(*projects, **given).projects]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"archived": True}, "archived"),
        ({"deleted": True}, "marked for deletion"),
        ({"empty": True}, "its repository is empty, or the token may not read it"),
        ({"forked": True}, "a fork"),
        ({"topics": ("no-night-shift",)}, "opted out by its topic"),
        ({"included": False}, "not set up: its .gitlab-ci.yml lacks the template"),
        ({"settings": NightSettings()}, "not set up: no nightshift.yaml"),
        (
            {"settings": replace(SET_UP, enabled=False)},
            "opted out by enabled: false in its nightshift.yaml",
        ),
        (
            {"settings": NightSettings(found=True, error="its nightshift.yaml is not YAML")},
            "its nightshift.yaml is not YAML",
        ),
        (
            {"settings": replace(SET_UP, weekdays=("mon",))},
            "its category_schedule has no wed",
        ),
        (
            {"merge_requests": (request(1), request(2), request(3))},
            "open night-shift merge requests: 3; its limit is 3",
        ),
        (
            {"nights": (night(2, days(1), user="ada"), night(1, days(2), user="ada"))},
            "its own schedule runs nights, by @ada: the fleet only counts them",
        ),
    ],
)
def test_a_project_that_has_no_night_says_why(facts: Mapping[str, Any], why: str) -> None:
    (row,) = choose(build(1, **facts)).projects
    assert (row.decision, row.reason) == ("no", why)


def test_unknown_facts_stop_no_night() -> None:
    assert decide(build(1, forked=None, deleted=None, included=None)) == ["start"]


@pytest.mark.parametrize(
    ("cadence", "last", "activity", "decision"),
    [
        ("nightly", 1, 0.1, "start"),
        ("weekly", 6, 0.1, "no"),
        ("weekly", 7, 0.1, "start"),
        ("when active", 3, 1.0, "start"),
        ("when active", 3, 2.99, "no"),  # GitLab notes a night's own push as activity
        ("when active", 3, 4.0, "no"),
    ],
)
def test_a_night_is_due_by_the_projects_cadence(
    cadence: str, last: float, activity: float, decision: str
) -> None:
    moment = (NOW - days(activity)).isoformat()
    project = build(1, nights=(night(1, days(last)),), last_activity=moment)
    rules = [CadenceRule(match=["acme/p1"], cadence=cadence)]  # type: ignore[arg-type]
    assert decide(project, cadences=rules) == [decision]


def test_a_quiet_date_has_no_nights() -> None:
    assert decide(build(1), quiet_dates=[date(2026, 11, 18)]) == ["no"]


def test_fewest_nights_come_first_then_what_is_merged_then_the_longest_ago() -> None:
    merged = tuple(request(n, "merged") for n in range(3))
    ignored = tuple(request(n, "opened", ago=20) for n in range(2))
    often = build(1, nights=(night(1, days(2)), night(2, days(4))), merge_requests=merged)
    liked = build(2, nights=(night(1, days(2)),), merge_requests=merged)
    long_ago = build(3, nights=(night(1, days(5)),))
    lately = build(4, nights=(night(1, days(2)),))
    unread = build(5, nights=(night(1, days(9)),), merge_requests=ignored)
    projects = (often, liked, long_ago, lately, unread)
    order = []
    for count in range(1, 6):
        budget = FleetBudget(night_usd=2.0 * count)
        made = decide(*projects, budget=budget)
        order.append(
            next(n for n, each in enumerate(made, 1) if each == "start" and n not in order)
        )
    assert order == [2, 3, 4, 5, 1]


def test_the_nights_budget_counts_known_costs_and_else_limits() -> None:
    ended = build(1, nights=(night(1, timedelta(minutes=10)),))
    running = build(2, nights=(night(2, timedelta(minutes=5), "running"),))
    fresh = [build(number) for number in range(3, 9)]
    plan = choose(ended, running, *fresh, costs={"1/1": 0.5}, budget=FleetBudget(night_usd=8.6))
    assert [each.decision for each in plan.projects].count("start") == 3
    assert (plan.spent_night_usd, plan.reserved_usd, plan.running) == (2.5, 6.0, 1)
    (why,) = {each.reason for each in plan.projects if each.decision == "no"}
    assert why == "the night's budget: $8.50 of $8.6 are spent or reserved, this may cost $2"


def test_the_months_budget_counts_nights_that_only_the_last_plan_knew() -> None:
    """Its costs are kept for the month; an artifact that is gone counts at its limit."""
    costs = {"7/1": 10.0, "8/2": None}
    budget = FleetBudget(night_usd=10.0, month_usd=15.0)
    plan = choose(build(1), build(2), costs=costs, budget=budget)
    assert plan.spent_month_usd == 12.0
    assert sorted(each.decision for each in plan.projects) == ["no", "start"]


def test_last_months_nights_are_not_this_months() -> None:
    project = build(1, nights=(night(1, days(20)),))
    assert choose(project, costs={}).spent_month_usd == 0


def test_the_fleets_limit_of_a_night_replaces_the_projects_own() -> None:
    assert choose(build(1), night_limit_usd=7.0).reserved_usd == 7.0


def test_a_group_has_so_many_nights_at_most() -> None:
    limits = {"acme": 2}
    tonight = build(1, nights=(night(1, timedelta(minutes=5)),))
    made = decide(tonight, *(build(n) for n in range(2, 6)), group_limits=limits)
    assert sorted(made) == ["no", "no", "no", "start", "started"]


def test_a_reviewer_has_so_many_open_requests_over_all_projects() -> None:
    busy = build(1, merge_requests=(request(1, reviewer="rita"), request(2, reviewer="rita")))
    mine = [build(n, settings=SET_UP) for n in range(2, 5)]
    plan = choose(busy, *mine, max_open_per_reviewer=3)
    assert [each.decision for each in plan.projects].count("start") == 2, "busy, and one of rita's"
    refused = next(each for each in plan.projects if each.decision == "no")
    assert refused.reason == (
        "@rita has 3 night-shift merge requests, open or tonight; max_open_per_reviewer is 3"
    )


def test_the_last_reviewers_count_if_the_settings_name_a_group() -> None:
    settings = replace(SET_UP, reviewers=("group:acme/devs",))
    asked = (request(1, "opened", reviewer="rita"),)
    made = decide(build(1, settings=settings, merge_requests=asked), max_open_per_reviewer=1)
    assert made == ["no"]


def test_running_nights_count_and_others_wait_for_a_free_place() -> None:
    running = build(1, nights=(night(1, timedelta(minutes=5), "running"),))
    made = decide(running, build(2), build(3), max_running=2)
    assert sorted(made) == ["start", "started", "wait"]


def test_before_the_window_opens_nothing_starts() -> None:
    assert decide(build(1), now=NOW - timedelta(hours=5)) == ["later"]


def test_a_project_waits_for_its_hour() -> None:
    projects = [build(number) for number in range(1, 60)]
    window = Window(start=time(23), end=time(7))
    budget = FleetBudget(night_usd=1000.0)
    assert set(decide(*projects, window=window, budget=budget)) == {"start", "later"}


def test_pending_nights_of_the_last_plan_count_for_every_limit() -> None:
    plan = choose(build(1), build(2), pending=frozenset({1}), max_running=1)
    assert [each.decision for each in plan.projects] == ["wait", "wait"]
    assert plan.reserved_usd == 4.0
    assert decide(build(1), build(2), max_running=1) != ["wait", "wait"], "without it, one starts"


def test_a_night_that_no_runner_takes_is_named() -> None:
    window = Window(start=time(20), end=time(0))
    waits = build(1, nights=(night(1, timedelta(hours=2), "pending"),))
    (row,) = choose(waits, window=window).projects
    assert row.reason.endswith("for an hour already: does the project have a free runner?")


def test_merge_requests_with_other_labels_are_reported_as_unknown() -> None:
    project = build(1, settings=replace(SET_UP, labels=("robot",)))
    assert choose(project).unknown == (
        "open merge requests of 1 projects, which have other labels than night-shift: acme/p1",
    )
