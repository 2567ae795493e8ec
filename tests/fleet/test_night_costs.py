"""What nights have cost is read once from each result, and kept by the plan."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gitlab_nightshift.fleet.discovery import CostRequest, FleetCosts, discover, read_costs
from gitlab_nightshift.fleet.fleet_settings import FleetBudget, FleetSettings
from gitlab_nightshift.records.fleet_records import NightCost
from tests.fleet.conftest import connect
from tests.support.fleet_standin import FleetStandin
from tests.support.standin_pipelines import add_scheduled
from tests.support.standin_records import as_full

SETTINGS = FleetSettings(groups=["acme"], budget=FleetBudget(night_usd=100.0))


def read(gitlab: FleetStandin, known: Iterable[NightCost] = (), days: int = 20) -> FleetCosts:
    api = connect(gitlab, patience_s=1.0)
    since = datetime.now(UTC) - timedelta(days=days)
    wanted = CostRequest(since, {each.night: each for each in known}, SETTINGS)
    return read_costs(api, discover(api, SETTINGS).projects, wanted)


def count_results(gitlab: FleetStandin) -> int:
    return sum("/artifacts/" in each.path for each in gitlab.requests)


def test_each_result_is_read_once(gitlab: FleetStandin) -> None:
    gitlab.add_fleet("acme", 4)
    gitlab.add_past_nights(3, cost_usd=1.25)
    first = read(gitlab)
    assert [each.usd for each in first.ended.values()] == [1.25] * 12
    assert count_results(gitlab) == 12
    gitlab.add_past_nights(1, cost_usd=0.5)
    second = read(gitlab, first.ended.values())
    assert len(second.ended) == 16
    assert count_results(gitlab) == 16, "only the new ones"


def test_nights_before_those_of_a_page_are_read_where_no_plan_knew_them(
    gitlab: FleetStandin,
) -> None:
    gitlab.add_fleet("acme", 1)
    gitlab.add_past_nights(12)
    found = read(gitlab, days=10)
    assert len(found.ended) == 9
    before = len([each for each in gitlab.requests if each.path == "/api/graphql"])
    assert read(gitlab, found.ended.values(), days=10).ended.keys() == found.ended.keys()
    after = len([each for each in gitlab.requests if each.path == "/api/graphql"])
    assert after - before == 1, "the oldest of the page is known, so all before are"


def test_a_running_night_is_not_known_yet(gitlab: FleetStandin) -> None:
    gitlab.add_fleet("acme", 1)
    gitlab.add_past_nights(1)
    project = gitlab.projects[0]
    add_scheduled(gitlab, as_full(project), 1, gitlab.account)
    assert len(read(gitlab).ended) == 1


def test_a_night_that_was_cancelled_while_it_waited_has_cost_nothing(
    gitlab: FleetStandin,
) -> None:
    """One that was cancelled while it ran has left no result, and counts at its limit."""
    gitlab.add_fleet("acme", 2)
    for project, status in zip(map(as_full, gitlab.projects), ("pending", "running"), strict=True):
        project.pipeline_jobs = {"nightshift": status}
        add_scheduled(gitlab, project, 1, gitlab.account)
        project.jobs[0] = replace(project.jobs[0], status="canceled")
    assert [each.counted_usd for each in read(gitlab).ended.values()] == [2.0, 0.0]


@pytest.mark.parametrize(
    "text",
    [None, "<html>", "[1]", '{"total_cost_usd": -1}', '{"total_cost_usd": true}', "[" * 9999],
)
def test_a_result_that_is_gone_or_nonsense_counts_at_the_nights_limit(
    gitlab: FleetStandin, text: str | None
) -> None:
    gitlab.add_fleet("acme", 1)
    gitlab.add_past_nights(1, cost_usd=1.0)
    place = gitlab.keep_result(1.0) / "nightshift/result.json"
    if text is None:
        place.unlink()
    else:
        place.write_text(text)
    (cost,) = read(gitlab).ended.values()
    assert (cost.usd, cost.counted_usd) == (None, 2.0)


def test_unreadable_results_are_reported_and_requested_again(
    gitlab: FleetStandin,
) -> None:
    """The template gives artifacts to Developers."""
    gitlab.add_fleet("acme", 2)
    gitlab.add_past_nights(1)
    gitlab.fail_next("GET", "/artifacts/", 403, {"message": "403 Forbidden"}, times=2)
    found = read(gitlab)
    assert found.ended == {}
    assert "what 2 nights have cost, so their limits count: " in found.unknown[0]
    assert len(read(gitlab, found.ended.values()).ended) == 2


def test_costs_of_months_before_are_dropped(gitlab: FleetStandin) -> None:
    gitlab.add_fleet("acme", 1)
    old = NightCost("1/1", "2020-01-01", 1.0, 2.0)
    assert read(gitlab, [old]).ended == {}
