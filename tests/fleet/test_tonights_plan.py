"""What the next plan takes over from the last one."""

from datetime import UTC, date, datetime, timedelta

import pytest

from gitlab_nightshift.fleet.fleet_settings import NightWindow
from gitlab_nightshift.fleet.tonights_plan import LastPlan

START = datetime(2026, 11, 18, 22, tzinfo=UTC)
WINDOW = NightWindow(date(2026, 11, 18), START, START + timedelta(hours=8))
LAST = LastPlan(
    made_at=(START + timedelta(hours=1)).isoformat(),
    window_start=START.isoformat(),
    started=frozenset({7}),
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
