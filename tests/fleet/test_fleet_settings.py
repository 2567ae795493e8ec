"""``fleet.yaml``: its values, all mistakes at once with their places; when nights are."""

import re
import textwrap
from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.fleet.fleet_settings import (
    FleetBudget,
    FleetSettings,
    Window,
    find_month_start,
    find_window,
    read_fleet_file,
)
from gitlab_nightshift.settings.schema import build_schema
from tests.support import fleet_table

BUDGET = "budget: {night_usd: 50}\n"


def read(tmp_path: Path, text: str) -> FleetSettings:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    return read_fleet_file(path).settings


def list_mistakes(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(NightshiftError) as caught:
        read(tmp_path, text)
    assert caught.value.code is Code.CONFIG
    return caught.value.lines


def test_defaults(tmp_path: Path) -> None:
    settings = read(tmp_path, f"groups: [acme]\n{BUDGET}")
    assert (settings.cadence, settings.max_running, settings.label) == ("weekly", 20, "night-shift")
    assert (settings.window.start, settings.window.end) == (time(22), time(6))


@pytest.mark.parametrize("start", ["22:30", "'22:30'"])
def test_a_time_of_day_needs_no_quotes(tmp_path: Path, start: str) -> None:
    """YAML 1.1 reads it as a number in base 60."""
    settings = read(tmp_path, f"groups: [acme]\n{BUDGET}window: {{start: {start}, end: 06:00}}\n")
    assert (settings.window.start, settings.window.end) == (time(22, 30), time(6))


def test_the_last_rule_that_matches_decides_the_cadence(tmp_path: Path) -> None:
    rules = (
        "cadences:\n- {match: [acme/core], cadence: nightly}\n"
        "- {match: ['acme/*/old'], cadence: when active}\n"
    )
    settings = read(tmp_path, f"groups: [acme]\n{BUDGET}{rules}")
    paths = ("acme/core/api", "acme/core/old", "acme/web")
    assert [*map(settings.find_cadence, paths)] == ["nightly", "when active", "weekly"]


def test_mistakes_of_values_come_all_at_once_with_their_places(tmp_path: Path) -> None:
    text = (
        "gruops: [acme]\ngroups: [acme/]\nwindow: {start: 25:00}\ncadence: daily\n"
        "budget:\n  night_usd: 0\n"
    )
    assert list_mistakes(tmp_path, text) == [
        "fleet.yaml:2: groups.0: expected a path such as acme/tools, without the server and a last"
        " slash",
        "fleet.yaml:4: cadence: should be 'nightly', 'weekly' or 'when active'",
        "fleet.yaml:3: window.start: expected a time of day such as 22:00",
        "fleet.yaml:6: budget.night_usd: should be greater than 0",
        "fleet.yaml:1: gruops: unknown key; did you mean groups?",
    ]


def test_contradictions_come_all_at_once_with_their_places(tmp_path: Path) -> None:
    text = (
        "groups:\n- acme\n- acme/tools\n- Acme\nprojects:\n- acme/web\n- b/c\n- b/c\n"
        "budget:\n  night_usd: 5\n  month_usd: 4\nnight_limit_usd: 10\n"
        "window: {start: '06:00', end: '22:00'}\n"
    )
    assert list_mistakes(tmp_path, text) == [
        "fleet.yaml:3: groups: acme/tools is in the group acme, which is listed too",
        "fleet.yaml:4: groups: Acme is listed twice",
        "fleet.yaml:6: projects: acme/web is in the group acme, which is listed too",
        "fleet.yaml:8: projects: b/c is listed twice",
        "fleet.yaml:10: budget.night_usd: $5 cannot pay for one night of $10",
        "fleet.yaml:11: budget.month_usd: $4 cannot pay for one night of $10",
        "fleet.yaml:11: budget.month_usd: less than a single night's 5",
        "fleet.yaml:13: window: it must last from a minute to 12 hours",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BUDGET, "fleet.yaml: no projects: set groups or projects"),
        ("groups: [acme]\n", "fleet.yaml: budget: is missing"),
        ("- a\n", "fleet.yaml: expected keys and values at the top"),
        ("a: [\n", "fleet.yaml:2: not YAML"),
        (f"groups: [acme]\n{BUDGET}account: glpat-0123456789abcdef0123\n", "a secret"),
    ],
)
def test_an_invalid_fleet_file_is_explained_in_one_line(
    tmp_path: Path, text: str, why: str
) -> None:
    mistakes = list_mistakes(tmp_path, text)
    assert any(why in each for each in mistakes), mistakes


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NightshiftError, match=r"fleet.yaml: no such file"):
        read_fleet_file(tmp_path / "fleet.yaml")


def test_the_page_has_a_row_for_each_key_as_it_is() -> None:
    text = fleet_table.PAGE.read_text(encoding="utf-8")
    assert fleet_table.complete_page(text) == text, "make docs"
    assert text.count("| `budget.night_usd` (required) |") == 1


def test_the_pages_example_is_a_fleet(tmp_path: Path) -> None:
    text = fleet_table.PAGE.read_text(encoding="utf-8")
    [example] = re.findall(r"```yaml\n( *# fleet.yaml\n.*?)```", text, re.DOTALL)
    settings = read(tmp_path, textwrap.dedent(example))
    assert (settings.groups, settings.budget.month_usd) == (["acme"], 1500)


def test_fleet_keys_are_not_in_the_schema_of_a_night() -> None:
    assert "FleetSettings" not in build_schema()["$defs"]


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
