"""Which day it is, which categories are tried in which order, and why a night is left out."""

from datetime import UTC, date, datetime, timedelta, timezone

from gitlab_nightshift.plan.schedule import (
    day_of_run,
    in_order,
    left_out,
    reason_to_skip,
    resolve_category,
)
from gitlab_nightshift.records import LeftOut, OpenMergeRequest
from gitlab_nightshift.settings import Settings, load_settings
from tests.support.tables import each

FIVE = ("tests", "refactoring", "docs", "security", "performance")
MONDAY = date(2025, 11, 24)
TUESDAY = date(2025, 11, 25)
NOW = datetime(2025, 11, 25, 0, 5, tzinfo=UTC)


def open_mr(category: str, iid: int = 7) -> OpenMergeRequest:
    return OpenMergeRequest(iid, "T", "https://g/7", category, "night-shift/x")


# --- the day --------------------------------------------------------------------------------------


@each(
    ("created_at", "zone", "day"),
    [
        ("2025-11-24T23:58:00Z", "UTC", MONDAY),
        ("2025-11-24T23:58:00+00:00", "UTC", MONDAY),
        ("2025-11-24T23:58:00Z", "Europe/Berlin", TUESDAY),
        ("2025-11-25T00:58:00+01:00", "Europe/Berlin", TUESDAY),
        ("2025-11-25T03:00:00Z", "America/New_York", MONDAY),
        ("2025-07-14T22:30:00Z", "Europe/Berlin", date(2025, 7, 15)),  # summer time
        ("2025-11-24T23:58:00.123Z", "UTC", MONDAY),
        ("2025-11-24T23:58:00", "UTC", MONDAY),
        ("", "UTC", TUESDAY),
        ("yesterday", "UTC", TUESDAY),
        ("", "America/New_York", MONDAY),
    ],
)
def test_a_job_that_starts_after_midnight_keeps_its_day(
    created_at: str, zone: str, day: date
) -> None:
    assert day_of_run(created_at, zone, NOW) == day


def test_the_clock_of_this_machine_may_be_in_any_zone() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=9)))
    assert day_of_run("", "UTC", elsewhere) == TUESDAY


# --- the category ---------------------------------------------------------------------------------


@each(("offset", "category"), list(enumerate((*FIVE, "", ""))))
def test_each_weekday_has_its_category_and_the_weekend_none(offset: int, category: str) -> None:
    assert resolve_category(Settings(), MONDAY + timedelta(days=offset)) == category


@each("day", [MONDAY, MONDAY + timedelta(days=6)])
def test_the_override_wins_also_on_a_day_without_one(day: date) -> None:
    settings = load_settings({"NIGHTSHIFT_CATEGORY": "performance"})
    assert resolve_category(settings, day) == "performance"


def test_a_schedule_of_the_teams_own() -> None:
    settings = Settings(categories={"a11y": "x"}, category_schedule={"Sunday": "a11y"})
    assert resolve_category(settings, MONDAY) == ""
    assert resolve_category(settings, MONDAY + timedelta(days=6)) == "a11y"


@each(
    ("scheduled", "order"),
    [
        ("tests", FIVE),
        ("docs", ("docs", "tests", "refactoring", "security", "performance")),
        ("performance", ("performance", "tests", "refactoring", "docs", "security")),
        ("a11y", ("a11y", *FIVE)),
        ("", ()),
    ],
)
def test_the_fallback_order_is_fixed(scheduled: str, order: tuple[str, ...]) -> None:
    assert in_order(scheduled) == order


# --- what is left out -----------------------------------------------------------------------------


def out(settings: Settings, *categories: str, public: bool = False) -> list[str]:
    rows = left_out(
        FIVE, settings, public=public, open_merge_requests=[open_mr(name) for name in categories]
    )
    return [row.category for row in rows]


def test_nothing_is_left_out_without_a_reason() -> None:
    assert out(Settings()) == []


@each(
    ("public", "allowed", "expected"),
    [(True, False, ["security"]), (True, True, []), (False, False, [])],
)
def test_security_in_a_public_project(public: bool, allowed: bool, expected: list[str]) -> None:
    assert out(Settings(security_on_public=allowed), public=public) == expected


@each(
    ("limit", "open_ones", "expected"),
    [
        (1, ("docs",), ["docs"]),
        (2, ("docs",), []),
        (2, ("docs", "docs", "tests"), ["docs"]),
        (1, ("unknown", ""), []),
        (0, (), list(FIVE)),
    ],
)
def test_a_category_at_its_limit(
    limit: int, open_ones: tuple[str, ...], expected: list[str]
) -> None:
    settings = Settings.model_validate({"max_open_mrs": {"per_category": limit}})
    assert out(settings, *open_ones) == expected


def test_each_with_its_reason() -> None:
    rows = left_out(
        ("docs", "security"),
        Settings(),
        public=True,
        open_merge_requests=[open_mr("docs", 7), open_mr("docs", 9), open_mr("security")],
    )
    assert rows == (
        LeftOut("docs", "open merge requests: !7, !9; the limit is 1"),
        LeftOut("security", "the project is public: a fix would publish the finding"),
    )


# --- why a night is skipped -----------------------------------------------------------------------

SOME_OUT = (LeftOut("tests", "x"),)
ALL_OUT = tuple(LeftOut(name, "why") for name in FIVE)


def test_a_night_is_not_skipped_without_a_reason() -> None:
    assert reason_to_skip(Settings(), MONDAY, FIVE, SOME_OUT, 2) == ""


def test_a_day_without_a_category_is_no_skipped_night() -> None:
    assert reason_to_skip(Settings(), MONDAY, (), (), 0) == ""


def test_disabled_says_where() -> None:
    settings = load_settings({"NIGHTSHIFT_ENABLED": "false"})
    why = reason_to_skip(settings, MONDAY, FIVE, (), 0)
    assert why == "enabled is false (variable NIGHTSHIFT_ENABLED)"


def test_a_quiet_date_is_the_day_of_the_run() -> None:
    settings = load_settings({"NIGHTSHIFT_QUIET_DATES": "2025-11-24"})
    assert reason_to_skip(settings, MONDAY, FIVE, (), 0) == "2025-11-24 is a quiet date"
    assert reason_to_skip(settings, TUESDAY, FIVE, (), 0) == ""


@each(("open_count", "skipped"), [(2, False), (3, True), (4, True)])
def test_the_limit_in_total(open_count: int, skipped: bool) -> None:
    why = reason_to_skip(Settings(), MONDAY, FIVE, (), open_count)
    expected = f"{open_count} night-shift merge requests are open; the limit is 3"
    assert why == (expected if skipped else "")


def test_every_category_left_out_tells_each_reason() -> None:
    why = reason_to_skip(Settings(), MONDAY, FIVE, ALL_OUT, 0)
    assert why.startswith("every category is left out: tests: why; refactoring: why;")
