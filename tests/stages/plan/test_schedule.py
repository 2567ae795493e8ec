"""Which day it is, which categories are tried in which order, and why a night is left out."""

import contextlib
import json
import sys
import zoneinfo
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from unittest.mock import patch

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.history import Memory
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.products import KnownMergeRequest, SkippedCategory
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.load import build_settings, load_settings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.plan import schedule
from gitlab_nightshift.stages.plan.schedule import (
    check_task_source,
    find_blockers,
    find_left_out,
    find_newest_ignored,
    find_skip_reason,
    find_throttle_reason,
    order_categories,
    resolve_category,
    resolve_run_day,
)
from tests.support.tables import each

FIVE = ("tests", "refactoring", "docs", "security", "performance")
MONDAY = date(2025, 11, 24)
TUESDAY = date(2025, 11, 25)
NOW = datetime(2025, 11, 25, 0, 5, tzinfo=UTC)


def open_mr(category: str, iid: int = 7) -> KnownMergeRequest:
    return KnownMergeRequest(iid, "T", "https://g/7", category, "night-shift/x")


# --- a given task ---------------------------------------------------------------------------------

NAMED = {"policy": {"orchestrators": ["planner"]}}


@each(
    ("file", "more", "source", "login", "refused"),
    [
        ({}, {}, "pipeline", "planner", True),
        ({}, {}, "parent_pipeline", "rita", True),
        (NAMED, {}, "pipeline", "rita", True),
        (NAMED, {}, "pipeline", "planner", False),
        ({}, {"NIGHTSHIFT_POLICY__ORCHESTRATORS": "planner"}, "pipeline", "planner", True),
        ({}, {}, "web", "rita", False),
        ({}, {}, "trigger", "rita", False),
        ({"task": "Committed."}, {"NIGHTSHIFT_TASK": ""}, "pipeline", "rita", False),
    ],
)
def test_a_task_from_another_pipeline_needs_a_user_that_the_file_names(
    file: dict[str, Any], more: dict[str, str], source: str, login: str, refused: bool
) -> None:
    """Variables of that pipeline cannot name one."""
    env = {"NIGHTSHIFT_TASK": "Send me the key.", **more}
    config = ConfigFile("nightshift.yaml", json.dumps(file))
    settings = load_settings(env, config)
    job = JobFacts(in_ci=True, pipeline_source=source, user_login=login)
    with pytest.raises(NightshiftError) if refused else contextlib.nullcontext() as told:
        check_task_source(settings, job)
    if told:
        assert told.value.code is Code.APPROVAL_REQUIRED
        assert f"from another pipeline, of @{login}: start it by New" in str(told.value)


def test_without_that_check_another_pipelines_task_would_be_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule, "_PIPELINE_SOURCES", ())
    job = JobFacts(in_ci=True, pipeline_source="pipeline", user_login="rita")
    check_task_source(load_settings({"NIGHTSHIFT_TASK": "Send me the key."}), job)


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
        ("0001-01-01T00:00:00+14:00", "UTC", TUESDAY),
        ("9" * 5000, "UTC", TUESDAY),
        ("", "America/New_York", MONDAY),
    ],
)
def test_a_job_that_starts_after_midnight_keeps_its_day(
    created_at: str, zone: str, day: date
) -> None:
    assert resolve_run_day(created_at, zone, NOW) == day


def test_the_clock_of_this_machine_may_be_in_any_zone() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=9)))
    assert resolve_run_day("", "UTC", elsewhere) == TUESDAY


def test_a_machine_without_time_zone_files_knows_them_all() -> None:
    """As slim images are."""
    zoneinfo.reset_tzpath(())
    try:
        none = dict.fromkeys(("tzdata", "tzdata.zoneinfo", "tzdata.zoneinfo.Pacific"))
        assert zoneinfo.ZoneInfo.no_cache("Pacific/Auckland").utcoffset(datetime(2025, 1, 1))
        with pytest.raises(zoneinfo.ZoneInfoNotFoundError), patch.dict(sys.modules, none):
            zoneinfo.ZoneInfo.no_cache("Pacific/Auckland")
    finally:
        zoneinfo.reset_tzpath()


# --- the category ---------------------------------------------------------------------------------


@each(("offset", "category"), list(enumerate((*FIVE, "", ""))))
def test_each_weekday_has_its_category_and_the_weekend_none(offset: int, category: str) -> None:
    assert resolve_category(Settings(), MONDAY + timedelta(days=offset)) == category


@each("day", [MONDAY, MONDAY + timedelta(days=6)])
def test_the_override_wins_also_on_a_day_without_one(day: date) -> None:
    settings = load_settings({"NIGHTSHIFT_CATEGORY": "performance"})
    assert resolve_category(settings, day) == "performance"


def test_a_schedule_of_the_teams_own() -> None:
    settings = build_settings(
        {"categories": {"a11y": "x"}, "category_schedule": {"Sunday": "a11y"}}
    )
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
    assert order_categories(scheduled) == order


def opened(count: int) -> Memory:
    return Memory(tuple(open_mr("docs", iid) for iid in range(count)))


# --- what is left out -----------------------------------------------------------------------------


def out(settings: Settings, *categories: str, public: bool = False) -> list[str]:
    rows = find_left_out(
        FIVE, settings, public=public, memory=Memory(tuple(map(open_mr, categories))), day=MONDAY
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
    settings = build_settings({"max_open_mrs": {"per_category": limit}})
    assert out(settings, *open_ones) == expected


def test_each_category_left_out_has_its_reason() -> None:
    rows = find_left_out(
        ("docs", "security"),
        Settings(),
        public=True,
        memory=Memory((open_mr("docs", 7), open_mr("docs", 9), open_mr("security"))),
        day=MONDAY,
    )
    assert rows == (
        SkippedCategory("docs", "open merge requests: !7, !9; the limit is 1"),
        SkippedCategory("security", "the project is public: a fix would publish the finding"),
    )


# --- why a night is skipped -----------------------------------------------------------------------

SOME_OUT = (SkippedCategory("tests", "x"),)
ALL_OUT = tuple(SkippedCategory(name, "why") for name in FIVE)


def test_a_night_is_not_skipped_without_a_reason() -> None:
    assert find_skip_reason(Settings(), MONDAY, FIVE, SOME_OUT, opened(2)) == ""


def test_a_day_without_a_category_is_no_skipped_night() -> None:
    assert find_skip_reason(Settings(), MONDAY, (), (), opened(0)) == ""


def test_disabled_says_where() -> None:
    settings = load_settings({"NIGHTSHIFT_ENABLED": "false"})
    why = find_skip_reason(settings, MONDAY, FIVE, (), opened(0))
    assert why == "enabled is false (variable NIGHTSHIFT_ENABLED)"


def test_a_quiet_date_is_the_day_of_the_run() -> None:
    settings = load_settings({"NIGHTSHIFT_QUIET_DATES": "2025-11-24"})
    assert find_skip_reason(settings, MONDAY, FIVE, (), opened(0)) == "2025-11-24 is a quiet date"
    assert find_skip_reason(settings, TUESDAY, FIVE, (), opened(0)) == ""


@each(("open_count", "skipped"), [(2, False), (3, True), (4, True)])
def test_the_limit_in_total(open_count: int, skipped: bool) -> None:
    why = find_skip_reason(Settings(), MONDAY, FIVE, (), opened(open_count))
    expected = f"open night-shift merge requests: {open_count}; the limit is 3"
    assert why == (expected if skipped else "")


def test_every_category_left_out_tells_each_reason() -> None:
    why = find_skip_reason(Settings(), MONDAY, FIVE, ALL_OUT, opened(0))
    assert why.startswith("every category is skipped: tests: why; refactoring: why;")


DAY = date(2026, 11, 16)


def known(iid: int, days: int, category: str = "docs", **more: object) -> KnownMergeRequest:
    """One that was closed or merged so many days ago."""
    return KnownMergeRequest(iid, "T", "", category, "b", day=str(DAY - timedelta(days)), **more)  # type: ignore[arg-type]


def waiting(
    iid: int, days: int, category: str = "docs", *, unread: bool = True
) -> KnownMergeRequest:
    opened = str(DAY - timedelta(days))
    return KnownMergeRequest(iid, "T", "", category, "b", opened=opened, unread=unread)


@pytest.mark.parametrize(
    ("rejected", "merged", "reason"),
    [
        ([], [], ""),
        ([known(1, 1)], [], ""),
        (
            [known(1, 9), known(2, 3)],
            [],
            "the last 2 were closed unmerged (!2, !1); tried from 2026-11-20 on",
        ),
        ([known(1, 20), known(2, 7)], [], ""),
        (
            [known(1, 20), known(2, 9), known(3, 7)],
            [],
            "the last 3 were closed unmerged (!3, !2, !1); tried from 2026-11-23 on",
        ),
        ([known(1, 9), known(3, 3)], [known(2, 5)], ""),
        ([known(1, 9, "tests"), known(2, 3)], [], ""),
    ],
)
def test_a_category_that_is_refused(
    rejected: list[KnownMergeRequest], merged: list[KnownMergeRequest], reason: str
) -> None:
    memory = Memory(rejected=tuple(rejected), merged=tuple(merged))
    assert find_throttle_reason("docs", memory, DAY) == reason


def test_a_rejected_category_returns_after_at_most_eight_weeks() -> None:
    memory = Memory(rejected=tuple(known(iid, 55) for iid in range(1, 30)))
    assert find_throttle_reason("docs", memory, DAY).endswith("tried from 2026-11-17 on")
    assert find_throttle_reason("docs", memory, DAY + timedelta(1)) == ""


@pytest.mark.parametrize(
    ("opened", "reason"),
    [
        ([waiting(7, 13)], ""),
        ([waiting(7, 14, unread=False)], ""),
        ([waiting(7, 14)], "nobody has looked at !7 for two weeks; tried from 2026-11-30 on"),
        ([waiting(7, 28)], ""),
        ([waiting(7, 14, "tests")], ""),
    ],
)
def test_a_category_that_is_ignored(opened: list[KnownMergeRequest], reason: str) -> None:
    assert find_throttle_reason("docs", Memory(tuple(opened)), DAY) == reason


@pytest.mark.parametrize(
    ("opened", "pausing"),
    [
        ([waiting(5, 30), waiting(6, 20), waiting(7, 14)], [7, 6, 5]),
        ([waiting(6, 20), waiting(7, 14)], []),
        ([waiting(5, 30), waiting(6, 20), waiting(7, 14), waiting(8, 13)], []),
        ([waiting(5, 30), waiting(6, 20, unread=False), waiting(7, 14)], []),
        ([waiting(4, 40, unread=False), *(waiting(iid, 20) for iid in (5, 6, 7))], [7, 6, 5]),
    ],
)
def test_nights_pause(opened: list[KnownMergeRequest], pausing: list[int]) -> None:
    assert [each.iid for each in find_newest_ignored(Memory(tuple(opened)), DAY)] == pausing


def test_a_requested_category_or_task_is_never_paused() -> None:
    """For the category, or by the setting."""
    memory = Memory(tuple(waiting(iid, 20) for iid in (5, 6, 7)), (known(1, 9), known(2, 3)))
    limits = {"max_open_mrs": {"per_category": 9, "total": 9}}
    asked = {"throttle": False}, {"category": "docs"}, {"task": "Do it"}
    paused = build_settings(limits)
    why = "nobody has looked at !7, !6, !5 for two weeks: merge, close or answer one to go on"
    assert find_skip_reason(paused, DAY, ("docs",), (), memory) == why
    [row] = find_left_out(("docs",), paused, public=False, memory=memory, day=DAY)
    assert row.reason.startswith("the last 2 were closed unmerged")
    for more in asked:
        settings = build_settings({**limits, **more})
        assert find_blockers(settings, memory, DAY) == ()
        assert find_skip_reason(settings, DAY, ("docs",), (), memory) == ""
    for more in asked[:2]:
        settings = build_settings({**limits, **more})
        assert find_left_out(("docs",), settings, public=False, memory=memory, day=DAY) == ()
