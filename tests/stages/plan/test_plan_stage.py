"""The plan, as far as the checkout's facts decide it."""

import pytest

from gitlab_nightshift.records.products import Plan
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.stages.plan.plan_stage import (
    MOST_UNENFORCED,
    CheckoutFacts,
    add_recent_files,
)

NAMES = tuple(f"file{number:06}" for number in range(2 * MOST_UNENFORCED + 2))


@pytest.mark.parametrize(
    ("recent", "enforced", "kept"),
    [
        (len(NAMES) // 2, True, len(NAMES) // 2),
        (len(NAMES) // 2 + 1, False, MOST_UNENFORCED),
        (len(NAMES), False, MOST_UNENFORCED),
    ],
)
def test_recent_files_are_all_refused_or_some_are_told(
    recent: int, enforced: bool, kept: int
) -> None:
    settings = load_settings({})
    plan = Plan("1", "2026-11-26", "a" * 40, "main", "", ("tests",), 60, 5.0)
    facts = CheckoutFacts("a" * 40, "main", NAMES, NAMES[:recent])
    made = add_recent_files(plan, settings, facts, ())
    assert made.recent_files_enforced is enforced
    assert made.recent_files == NAMES[:kept]
