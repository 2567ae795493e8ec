"""When a night is: windows past midnight, months, and each project's hour."""

from collections import Counter
from datetime import UTC, date, datetime, time, timedelta

import pytest

from gitlab_nightshift.fleet.fleet_settings import FleetBudget, FleetSettings, Window
from gitlab_nightshift.fleet.night_window import find_month_start, find_window


def build(start: int = 22, end: int = 6, zone: str = "UTC") -> FleetSettings:
    window = Window(start=time(start), end=time(end))
    return FleetSettings(budget=FleetBudget(night_usd=5), window=window, timezone=zone)


@pytest.mark.parametrize(
    ("now", "night", "is_open"),
    [
        ("2026-03-10T21:59", 10, False),
        ("2026-03-10T22:00", 10, True),
        ("2026-03-11T05:59", 10, True),
        ("2026-03-11T06:00", 11, False),
    ],
)
def test_a_night_is_called_by_the_date_on_which_its_window_begins(
    now: str, night: int, is_open: bool
) -> None:
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    found = find_window(build(), moment)
    assert (found.night, found.is_open(moment)) == (date(2026, 3, night), is_open)


def test_the_window_is_in_the_fleets_time_zone() -> None:
    found = find_window(build(zone="America/New_York"), datetime(2026, 7, 1, 12, tzinfo=UTC))
    assert found.start == datetime(2026, 7, 2, 2, tzinfo=UTC)


def test_a_month_begins_in_the_fleets_time_zone() -> None:
    settings = build(zone="Asia/Tokyo")
    window = find_window(settings, datetime(2026, 7, 10, 12, tzinfo=UTC))
    assert find_month_start(settings, window) == datetime(2026, 6, 30, 15, tzinfo=UTC)


def test_projects_are_spread_over_the_windows_hours_and_keep_theirs() -> None:
    settings = build()
    one, other = (find_window(settings, datetime(2026, 7, day, tzinfo=UTC)) for day in (10, 20))
    hours = Counter(one.find_hour(number) - one.start for number in range(4000))
    assert {each / timedelta(hours=1) for each in hours} == {*range(8)}
    assert min(hours.values()) > 400
    assert all(
        one.find_hour(number) - one.start == other.find_hour(number) - other.start
        for number in range(100)
    )
