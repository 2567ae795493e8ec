"""Decides which category or task is tried today, and in which order. Pure functions."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.memory import Memory
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.products import KnownMergeRequest, SkippedCategory
from gitlab_nightshift.registry.categories import FALLBACK_ORDER, TASK
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.notations import WEEKDAYS
from gitlab_nightshift.stages.plan.throttle import (
    describe_pause,
    find_throttle_reason,
    list_pausing,
)

_FORWARDING = ("pipeline", "parent_pipeline")
"""GitLab's values of ``CI_PIPELINE_SOURCE`` for pipelines started by another pipeline."""


def resolve_run_day(created_at: str, timezone: str, now: datetime) -> date:
    """The day of the pipeline's creation, even if the job starts after midnight."""
    zone = UTC if timezone == "UTC" else ZoneInfo(timezone)
    try:
        moment = datetime.fromisoformat(created_at)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(zone).date()
    except (ValueError, OverflowError):
        return now.astimezone(zone).date()


def resolve_category(settings: Settings, day: date) -> str:
    """The given task, or the override, or the weekday's category, or ""."""
    if settings.task:
        return TASK
    if settings.category:
        return settings.category
    return settings.category_schedule.get(WEEKDAYS[day.weekday()], "")


def check_task_source(settings: Settings, job: JobFacts) -> None:
    """Raise ``E_APPROVAL_REQUIRED`` for a task set by another pipeline, unless the settings file
    names that pipeline's user in ``policy.orchestrators``: otherwise anyone who can push to another
    project could give tasks to this one."""
    forwarded = job.in_ci and job.pipeline_source in _FORWARDING
    if not settings.task or not forwarded or not _is_variable(settings, "task"):
        return
    named = not _is_variable(settings, "policy.orchestrators")
    if named and job.user_login in settings.policy.orchestrators:
        return
    raise NightshiftError(
        Code.APPROVAL_REQUIRED,
        f"the task comes from another pipeline, of @{job.user_login}: start it by New pipeline, or"
        " name that user in policy.orchestrators of nightshift.yaml",
    )


def _is_variable(settings: Settings, key: str) -> bool:
    return settings.find_source(key).startswith("variable")


def order_categories(scheduled: str) -> tuple[str, ...]:
    """The scheduled category, then the rest of the fixed five; only the task if there is one; none
    if none is scheduled."""
    if not scheduled or scheduled == TASK:
        return (scheduled,) if scheduled else ()
    return (scheduled, *(name for name in FALLBACK_ORDER if name != scheduled))


def find_left_out(
    categories: Iterable[str],
    settings: Settings,
    *,
    public: bool,
    memory: Memory,
    day: date,
) -> tuple[SkippedCategory, ...]:
    """Categories not to try, each with its reason. A task is always tried: it was requested."""
    rows: list[SkippedCategory] = []
    for category in categories:
        if category == TASK:
            continue
        waiting = [mr for mr in memory.opened if mr.category == category]
        if category == "security" and public and not settings.security_on_public:
            rows.append(
                SkippedCategory(category, "the project is public: a fix would publish the finding")
            )
        elif len(waiting) >= settings.max_open_mrs.per_category:
            names = ", ".join(f"!{mr.iid}" for mr in waiting) or "none"
            limit = settings.max_open_mrs.per_category
            rows.append(
                SkippedCategory(category, f"open merge requests: {names}; the limit is {limit}")
            )
        elif why := _find_throttle_reason(category, settings, memory, day):
            rows.append(SkippedCategory(category, why))
    return tuple(rows)


def _find_throttle_reason(category: str, settings: Settings, memory: Memory, day: date) -> str:
    """A requested category is never throttled."""
    throttled = settings.throttle and category != settings.category
    return find_throttle_reason(category, memory, day) if throttled else ""


def find_skip_reason(
    settings: Settings,
    day: date,
    categories: tuple[str, ...],
    out: tuple[SkippedCategory, ...],
    memory: Memory,
) -> str:
    """Why the night is skipped before anything is spent; "" if it is not."""
    if settings.off_reason:
        return settings.off_reason
    reasons = _list_skip_reasons(settings, day, categories, out, memory)
    return "" if settings.task else next(reasons, "")


def _list_skip_reasons(
    settings: Settings,
    day: date,
    categories: tuple[str, ...],
    out: tuple[SkippedCategory, ...],
    memory: Memory,
) -> Iterator[str]:
    if day in settings.quiet_dates:
        yield f"{day} is a quiet date"
    if pausing := find_pausing(settings, memory, day):
        yield describe_pause(pausing)
    if len(memory.opened) >= settings.max_open_mrs.total:
        limit = settings.max_open_mrs.total
        yield f"{len(memory.opened)} night-shift merge requests are open; the limit is {limit}"
    if categories and len(out) == len(categories):
        yield "every category is skipped: " + "; ".join(f"{r.category}: {r.reason}" for r in out)


def find_pausing(settings: Settings, memory: Memory, day: date) -> tuple[KnownMergeRequest, ...]:
    """The ignored merge requests for which nights pause. A requested category or task runs
    anyway."""
    is_requested = settings.category or settings.task
    return list_pausing(memory, day) if settings.throttle and not is_requested else ()
