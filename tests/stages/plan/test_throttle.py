"""Categories that people refuse or ignore, and nights that pause."""

from datetime import date, timedelta

import pytest

from gitlab_nightshift.gitlab.memory import Memory
from gitlab_nightshift.records.products import KnownMergeRequest
from gitlab_nightshift.settings.load import build_settings
from gitlab_nightshift.stages.plan.schedule import find_left_out, find_pausing, find_skip_reason
from gitlab_nightshift.stages.plan.throttle import find_throttle_reason, list_pausing

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


def test_it_comes_back_after_eight_weeks_at_most() -> None:
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
    assert [each.iid for each in list_pausing(Memory(tuple(opened)), DAY)] == pausing


def test_somebody_who_asks_is_answered() -> None:
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
        assert find_pausing(settings, memory, DAY) == ()
        assert find_skip_reason(settings, DAY, ("docs",), (), memory) == ""
    for more in asked[:2]:
        settings = build_settings({**limits, **more})
        assert find_left_out(("docs",), settings, public=False, memory=memory, day=DAY) == ()
