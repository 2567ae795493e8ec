"""Which category is tried today, and which after it. Pure functions."""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from gitlab_nightshift.guidance import FALLBACK_ORDER, TASK
from gitlab_nightshift.records import LeftOut, OpenMergeRequest
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.settings.values import WEEKDAYS


def day_of_run(created_at: str, timezone: str, now: datetime) -> date:
    """The day of the pipeline's creation: a job that starts after midnight keeps its day."""
    try:
        moment = datetime.fromisoformat(created_at)
    except ValueError:
        moment = now
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    zone = UTC if timezone == "UTC" else ZoneInfo(timezone)
    return moment.astimezone(zone).date()


def resolve_category(settings: Settings, day: date) -> str:
    """The given task, else the override, else the weekday's category, else ""."""
    if settings.task:
        return TASK
    if settings.category:
        return settings.category
    return settings.category_schedule.get(WEEKDAYS[day.weekday()], "")


def in_order(scheduled: str) -> tuple[str, ...]:
    """The scheduled category, then the others of the fixed five; nothing without a schedule, and
    nothing but itself for a task."""
    if not scheduled or scheduled == TASK:
        return (scheduled,) if scheduled else ()
    return (scheduled, *(name for name in FALLBACK_ORDER if name != scheduled))


def left_out(
    categories: Iterable[str],
    settings: Settings,
    *,
    public: bool,
    open_merge_requests: Iterable[OpenMergeRequest],
) -> tuple[LeftOut, ...]:
    """Categories not to try, each with its reason. A task is always tried: somebody asked."""
    open_ones = tuple(open_merge_requests)
    rows: list[LeftOut] = []
    for category in categories:
        if category == TASK:
            continue
        waiting = [mr for mr in open_ones if mr.category == category]
        if category == "security" and public and not settings.security_on_public:
            rows.append(LeftOut(category, "the project is public: a fix would publish the finding"))
        elif len(waiting) >= settings.max_open_mrs.per_category:
            names = ", ".join(f"!{mr.iid}" for mr in waiting) or "none"
            limit = settings.max_open_mrs.per_category
            rows.append(LeftOut(category, f"open merge requests: {names}; the limit is {limit}"))
    return tuple(rows)


def reason_to_skip(
    settings: Settings,
    day: date,
    categories: tuple[str, ...],
    out: tuple[LeftOut, ...],
    open_count: int,
) -> str:
    """Why the night may be skipped before anything is spent; "" where it may not."""
    if not settings.enabled:
        return f"enabled is false ({settings.source('enabled')})"
    if settings.task:
        return ""
    if day in settings.quiet_dates:
        return f"{day} is a quiet date"
    if open_count >= settings.max_open_mrs.total:
        limit = settings.max_open_mrs.total
        return f"{open_count} night-shift merge requests are open; the limit is {limit}"
    if categories and len(out) == len(categories):
        return "every category is left out: " + "; ".join(f"{r.category}: {r.reason}" for r in out)
    return ""
