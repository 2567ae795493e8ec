"""A fleet's plan for tonight, and the start of its nights."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from gitlab_nightshift.demo.standin_api import StandinCall
from gitlab_nightshift.demo.standin_state import StandinAnswer
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.fleet.discovery import discover
from gitlab_nightshift.fleet.fleet_settings import NightWindow
from gitlab_nightshift.fleet.tonights_plan import LastPlan, Shard, StartResult, start_nights
from gitlab_nightshift.gitlab.fleet_api import FleetApi, open_fleet
from gitlab_nightshift.records.fleet_records import FleetPlan, PlannedProject
from gitlab_nightshift.system.retry import Clock
from tests.fleet.conftest import get_project
from tests.fleet.test_night_costs import SETTINGS
from tests.support import standin_pipelines
from tests.support.fleet_standin import RUN_TOKEN, FleetStandin
from tests.support.standin_records import as_full

START = datetime(2026, 11, 18, 22, tzinfo=UTC)
WINDOW = NightWindow(date(2026, 11, 18), START, START + timedelta(hours=8))
LAST = LastPlan(
    made_at=(START + timedelta(hours=1)).isoformat(),
    window_start=START.isoformat(),
    to_start=frozenset({7}),
    paths=("acme/core/api", "gone/one"),
)


@pytest.mark.parametrize(("minutes", "counts"), [(1, True), (44, True), (46, False)])
def test_what_the_last_plan_may_still_start_counts_a_little_longer_than_it_may(
    minutes: int, counts: bool
) -> None:
    now = START + timedelta(hours=1, minutes=minutes)
    assert LAST.list_pending(WINDOW, now) == (frozenset({7}) if counts else frozenset())


def test_the_plan_of_another_night_starts_nothing_any_more() -> None:
    day = timedelta(days=1)
    next_night = NightWindow(WINDOW.night + day, WINDOW.start + day, WINDOW.end + day)
    assert LAST.list_pending(next_night, START + timedelta(hours=1)) == frozenset()


@pytest.mark.parametrize(
    ("path", "known"),
    [("gone/one", True), ("acme", True), ("acme/core", True), ("acm", False), ("gone/o", False)],
)
def test_a_plan_knows_the_projects_and_groups_that_it_had(path: str, known: bool) -> None:
    assert LAST.knows(path) is known


NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def _fleet(gitlab: FleetStandin) -> None:
    gitlab.add_fleet("acme", 6)


def build_plan(gitlab: FleetStandin, made_at: datetime = NOW) -> FleetPlan:
    """All projects are to start."""
    rows = tuple(
        PlannedProject(each.id, each.path, "start", "due", "", 2.0) for each in gitlab.projects
    )
    start, end = (NOW + timedelta(hours=n) for n in (-1, 5))
    moments = (made_at.isoformat(), start.isoformat(), end.isoformat())
    return FleetPlan("2026-01-01", *moments, "fleet-bot", 0.0, 0.0, 12.0, 0, rows, ())


def start(
    gitlab: FleetStandin, plan: FleetPlan | None = None, now: datetime = NOW
) -> dict[str, StartResult]:
    """What became of each, by the end of the path; it never really waits."""
    waited: list[float] = []
    api = open_fleet(gitlab.url, RUN_TOKEN, clock=Clock(sleep=waited.append), tell=lambda _: None)
    found = start_nights(api, plan or build_plan(gitlab), Shard(), now)
    return {each.path.rpartition("-")[2]: each for each in found}


def count_nights(gitlab: FleetStandin) -> list[int]:
    return [len(as_full(each).pipelines) for each in gitlab.projects]


def test_a_second_start_finds_everything_started(gitlab: FleetStandin) -> None:
    assert {each.outcome for each in start(gitlab).values()} == {"started"}
    assert {each.outcome for each in start(gitlab).values()} == {"already"}
    assert count_nights(gitlab) == [1] * 6
    pipeline = get_project(gitlab, 0).pipelines[0]
    assert (pipeline.source, pipeline.user.username) == ("schedule", "fleet-bot")


def test_last_nights_pipelines_are_not_tonights(gitlab: FleetStandin) -> None:
    start(gitlab)
    gitlab.end_nights()
    gitlab.pass_days(1)
    assert {each.outcome for each in start(gitlab).values()} == {"started"}


def test_a_gitlab_without_the_filter_is_asked_for_all_pipelines(
    gitlab: FleetStandin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ignores what it does not know, and shows the oldest first."""
    gitlab.add_past_nights(101)
    path = f"{standin_pipelines.SCHEDULE}/pipelines"
    endpoint = next(each for each in gitlab.more_endpoints if each.path == path)

    def ignore(call: StandinCall) -> StandinAnswer:
        query = {
            name: call.request.query[name]
            for name in ("page", "per_page")
            if name in call.request.query
        }
        return endpoint.answer(replace(call, request=replace(call.request, query=query)))

    gitlab.more_endpoints[gitlab.more_endpoints.index(endpoint)] = replace(endpoint, answer=ignore)
    assert {each.outcome for each in start(gitlab).values()} == {"started"}
    assert {each.outcome for each in start(gitlab).values()} == {"already"}


def test_each_project_is_in_one_shard_alone(gitlab: FleetStandin) -> None:
    gitlab.add_fleet("more", 60)
    shards = [Shard(index, 3) for index in (1, 2, 3)]
    parts = [{each.id for each in gitlab.projects if shard.contains(each.id)} for shard in shards]
    assert all(parts)
    assert sum(map(len, parts)) == len(set().union(*parts)) == 66


def test_a_play_waits_as_long_as_gitlab_asks(gitlab: FleetStandin) -> None:
    waited: list[float] = []
    gitlab.fail_next("POST", "/play", 429, {"message": "later"}, {"Retry-After": "37"})
    api = open_fleet(gitlab.url, RUN_TOKEN, clock=Clock(sleep=waited.append), tell=lambda _: None)
    assert len(list(start_nights(api, build_plan(gitlab), Shard(), NOW))) == 6
    assert 37.0 in waited


@pytest.mark.parametrize("failing", ["lost", "429", "502"])
def test_a_play_without_an_answer_is_looked_for_before_the_next(
    gitlab: FleetStandin, failing: str
) -> None:
    if failing == "lost":
        gitlab.drop_next("POST", "/play", times=6)
    else:
        gitlab.fail_next("POST", "/play", int(failing), {"message": "later"}, times=6)
    assert {each.outcome for each in start(gitlab).values()} == {"started"}
    assert count_nights(gitlab) == [1] * 6


def test_without_the_look_a_lost_answer_would_start_a_second_night(
    gitlab: FleetStandin, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in gitlab.projects:
        gitlab.drop_next("POST", f"/projects/{each.id}/.*/play")
    real, calls = FleetApi.list_pipelines_since, list[int]()

    def look_away(self: FleetApi, project: int, schedule: int, since: str) -> tuple[int, ...]:
        calls.append(project)
        return () if calls.count(project) == 2 else real(self, project, schedule, since)

    monkeypatch.setattr(FleetApi, "list_pipelines_since", look_away)
    start(gitlab)
    assert count_nights(gitlab) == [2] * 6


def test_an_active_schedule_belongs_to_the_project_and_is_not_played(
    gitlab: FleetStandin,
) -> None:
    get_project(gitlab, 1).schedules.append(gitlab.build_schedule(active=True, description="mine"))
    get_project(gitlab, 2).schedules[0].active = True
    other = gitlab.build_schedule(active=True, description="release", variables={})
    get_project(gitlab, 3).schedules.append(other)
    found = start(gitlab)
    assert [found[f"{n}"].outcome for n in range(4)] == ["started", "own", "own", "started"]
    assert found["1"].text == "its schedule 'mine' is active, @fleet-bot's: not played"


def test_what_changed_since_the_plan_is_named_and_the_rest_goes_on(gitlab: FleetStandin) -> None:
    plan = build_plan(gitlab)
    get_project(gitlab, 0).schedules.clear()
    get_project(gitlab, 1).pipeline_jobs.clear()
    get_project(gitlab, 2).archived = True
    gitlab.fail_next(
        "POST", f"/projects/{get_project(gitlab, 3).id}/.*/play", 403, {"message": "403"}
    )
    del gitlab.projects[4]
    found = start(gitlab, plan)
    why = {name: each.text for name, each in found.items() if each.outcome == "failed"}
    assert why["0"].startswith("it has no schedule 'Night shift (fleet)': nightshift fleet init")
    assert why["1"].startswith("GitLab accepted the play, but has created no pipeline")
    assert "403" in why["2"]
    assert why["3"].endswith("the account needs a role that may push or merge to the branch")
    assert why["4"] == "moved, deleted, or hidden from this token since the plan"
    assert found["5"].outcome == "started"


def test_a_plan_whose_window_is_over_starts_nothing(gitlab: FleetStandin) -> None:
    with pytest.raises(NightshiftError, match="the window of 2026-01-01 is over since"):
        start(gitlab, now=NOW + timedelta(hours=6))
    assert count_nights(gitlab) == [0] * 6


def test_an_old_plan_starts_nothing_as_the_next_may_have_given_its_places_away(
    gitlab: FleetStandin,
) -> None:
    found = start(gitlab, build_plan(gitlab, NOW - timedelta(minutes=41)))
    assert {each.text for each in found.values()} == {
        "this plan is too old: the next one decides anew"
    }


def test_a_project_that_the_plan_did_not_start_is_not_started(gitlab: FleetStandin) -> None:
    plan = build_plan(gitlab)
    rows = tuple(replace(each, decision="later") for each in plan.projects)
    assert start(gitlab, replace(plan, projects=rows)) == {}


def test_the_nights_of_a_start_are_found_by_the_next_discovery(gitlab: FleetStandin) -> None:
    start(gitlab)
    api = open_fleet(gitlab.url, RUN_TOKEN)
    assert all(each.nights[0].running for each in discover(api, SETTINGS).projects)
