"""When each category is tried next, for the dashboard. Pure functions."""

from datetime import date, timedelta

from gitlab_nightshift.gitlab.memory import Memory
from gitlab_nightshift.records.history_records import CategoryOutlook
from gitlab_nightshift.registry.categories import FALLBACK_ORDER
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.notations import WEEKDAYS
from gitlab_nightshift.stages.plan.schedule import find_left_out

MOST_DAYS = 7 * 8
"""How far ahead to search for a day: there may be many quiet dates."""


def list_categories(settings: Settings) -> tuple[str, ...]:
    """The categories that may be tried: the scheduled ones by weekday, then the others."""
    scheduled = (settings.category_schedule.get(name, "") for name in WEEKDAYS)
    names = (*scheduled, *FALLBACK_ORDER, *settings.categories)
    return tuple(dict.fromkeys(filter(None, names)))


def list_outlook(
    settings: Settings, memory: Memory, day: date, *, public: bool
) -> tuple[CategoryOutlook, ...]:
    """Each category with its next day after ``day``, and why it would be left out today."""
    names = list_categories(settings)
    out = find_left_out(names, settings, public=public, memory=memory, day=day)
    reasons = {row.category: row.reason for row in out}
    return tuple(
        CategoryOutlook(name, _find_next_day(name, settings, day), reasons.get(name, ""))
        for name in names
    )


def _find_next_day(category: str, settings: Settings, day: date) -> str | None:
    for ahead in range(1, MOST_DAYS + 1):
        next_day = day + timedelta(ahead)
        scheduled = settings.category_schedule.get(WEEKDAYS[next_day.weekday()])
        if scheduled == category and next_day not in settings.quiet_dates:
            return str(next_day)
    return None
