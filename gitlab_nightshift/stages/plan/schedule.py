"""Decides which category or task is tried on a day, and in which order. Pure functions.

Categories that people reject or ignore are tried less often; the dashboard shows the next days.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.history import Memory
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.history_records import IGNORED_AFTER, CategoryOutlook
from gitlab_nightshift.records.products import KnownMergeRequest, SkippedCategory
from gitlab_nightshift.registry.categories import FALLBACK_ORDER, TASK
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.notations import WEEKDAYS

_PIPELINE_SOURCES = ("pipeline", "parent_pipeline")
"""``CI_PIPELINE_SOURCE`` of a pipeline that another project's pipeline, or a parent pipeline,
started (docs.gitlab.com/ci/jobs/job_rules)."""


def resolve_run_day(created_at: str, timezone: str, now: datetime) -> date:
    """The day of the pipeline's creation, even if the job starts after midnight."""
    zone = UTC if timezone == "UTC" else ZoneInfo(timezone)
    try:
        created = datetime.fromisoformat(created_at)
        # GitLab sends UTC, with a Z; a time without a zone is taken as UTC, too.
        return (created if created.tzinfo else created.replace(tzinfo=UTC)).astimezone(zone).date()
    except (ValueError, OverflowError):
        return now.astimezone(zone).date()


def resolve_category(settings: Settings, day: date) -> str:
    """``TASK`` if there is a task, else the requested category, else the weekday's, else ""."""
    if settings.task:
        return TASK
    if settings.category:
        return settings.category
    return settings.category_schedule.get(WEEKDAYS[day.weekday()], "")


def check_task_source(settings: Settings, job: JobFacts) -> None:
    """Raise ``E_APPROVAL_REQUIRED`` for a task set by another pipeline, unless the settings file
    names that pipeline's user in ``policy.orchestrators``: otherwise anyone who can push to another
    project could give tasks to this one."""
    by_pipeline = job.in_ci and job.pipeline_source in _PIPELINE_SOURCES
    if not settings.task or not by_pipeline or not _is_variable(settings, "task"):
        return
    # Whoever starts the pipeline sets its variables, and so could name themselves.
    is_from_file = not _is_variable(settings, "policy.orchestrators")
    if is_from_file and job.user_login in settings.policy.orchestrators:
        return
    raise NightshiftError(
        Code.APPROVAL_REQUIRED,
        f"the task comes from another pipeline, of @{job.user_login}: start it by New pipeline, or"
        " name that user in policy.orchestrators of nightshift.yaml",
    )


def _is_variable(settings: Settings, key: str) -> bool:
    return settings.find_source(key).startswith("variable")


def order_categories(scheduled: str) -> tuple[str, ...]:
    """The scheduled category, then the other ones of ``FALLBACK_ORDER``. A task has no fallback; if
    nothing is scheduled, nothing is tried."""
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
    reasons = {
        name: _find_left_out_reason(name, settings, public=public, memory=memory, day=day)
        for name in categories
        if name != TASK
    }
    return tuple(SkippedCategory(name, why) for name, why in reasons.items() if why)


def _find_left_out_reason(
    category: str, settings: Settings, *, public: bool, memory: Memory, day: date
) -> str:
    if category == "security" and public and not settings.security_on_public:
        return "the project is public: a fix would publish the finding"
    # A limit of 0 switches a category off, even if no merge request is open.
    limit = settings.max_open_mrs.per_category
    opened = [request for request in memory.open if request.category == category]
    if len(opened) >= limit:
        return f"open merge requests: {_format_references(opened) or 'none'}; the limit is {limit}"
    if settings.throttle and category != settings.category:  # a requested one is never throttled
        return find_throttle_reason(category, memory, day)
    return ""


def find_skip_reason(
    settings: Settings,
    day: date,
    categories: tuple[str, ...],
    left_out: tuple[SkippedCategory, ...],
    memory: Memory,
) -> str:
    """Why the night is skipped before anything is spent; "" if it is not."""
    if settings.off_reason or settings.task:
        # A task was requested: it is skipped only if the settings switch nights off.
        return settings.off_reason
    if day in settings.quiet_dates:
        return f"{day} is a quiet date"
    if pausing := find_blockers(settings, memory, day):
        return describe_pause(pausing)
    if len(memory.open) >= (limit := settings.max_open_mrs.total):
        return f"open night-shift merge requests: {len(memory.open)}; the limit is {limit}"
    if categories and len(left_out) == len(categories):
        reasons = "; ".join(f"{each.category}: {each.reason}" for each in left_out)
        return f"every category is skipped: {reasons}"
    return ""


def find_blockers(settings: Settings, memory: Memory, day: date) -> tuple[KnownMergeRequest, ...]:
    """The ignored merge requests for which nights pause. A requested category or task runs
    anyway."""
    is_requested = settings.category or settings.task
    return find_newest_ignored(memory, day) if settings.throttle and not is_requested else ()


# --- throttling ---------------------------------------------------------------------------------


FIRST_PAUSE, MOST_DOUBLINGS = timedelta(weeks=1), 3
"""A category's pause after ``REJECTIONS_TO_PAUSE``, and how often it doubles: once for each further
rejection. ``IGNORED_AFTER`` doubles for each ignored merge request, at most as often."""
REJECTIONS_TO_PAUSE, IGNORED_TO_PAUSE = 2, 3
"""Rejections in a row that pause a category, and ignored merge requests that pause all nights."""


def find_throttle_reason(category: str, memory: Memory, day: date) -> str:
    """Why a category is paused, and until when; "" if it may be tried."""
    rejected = _list_last_rejected(category, memory)
    if len(rejected) >= REJECTIONS_TO_PAUSE:
        pause = FIRST_PAUSE * 2 ** min(len(rejected) - REJECTIONS_TO_PAUSE, MOST_DOUBLINGS)
        end = date.fromisoformat(rejected[0].day) + pause
        if day < end:
            names = _format_references(rejected)
            return f"the last {len(rejected)} were closed unmerged ({names}); tried from {end} on"
    ignored = [request for request in list_ignored(memory, day) if request.category == category]
    if ignored:
        pause = IGNORED_AFTER * 2 ** min(len(ignored), MOST_DOUBLINGS)
        end = date.fromisoformat(ignored[0].opened) + pause
        if day < end:
            names = _format_references(ignored)
            return f"nobody has looked at {names} for two weeks; tried from {end} on"
    return ""


def find_newest_ignored(memory: Memory, day: date) -> tuple[KnownMergeRequest, ...]:
    """The three newest open merge requests if people ignore all of them, which pauses nights; empty
    otherwise."""
    newest = sorted(memory.open, key=lambda each: each.iid, reverse=True)[:IGNORED_TO_PAUSE]
    ignored = list_ignored(memory, day)
    all_ignored = len(newest) == IGNORED_TO_PAUSE and all(each in ignored for each in newest)
    return tuple(newest) if all_ignored else ()


def describe_pause(pausing: Iterable[KnownMergeRequest]) -> str:
    """Why nights pause, and what ends the pause."""
    names = _format_references(pausing)
    return f"nobody has looked at {names} for two weeks: merge, close or answer one to go on"


def list_ignored(memory: Memory, day: date) -> tuple[KnownMergeRequest, ...]:
    """Open merge requests that no person has touched for two weeks, newest first."""
    ignored = (
        each
        for each in memory.open
        if each.unread and each.opened and day - date.fromisoformat(each.opened) >= IGNORED_AFTER
    )
    return tuple(sorted(ignored, key=lambda each: each.iid, reverse=True))


def _list_last_rejected(category: str, memory: Memory) -> tuple[KnownMergeRequest, ...]:
    """The category's merge requests closed unmerged since the last merged one, newest first."""
    merged = max((each.day for each in memory.merged if each.category == category), default="")
    rejected = (each for each in memory.rejected if each.category == category and each.day > merged)
    return tuple(sorted(rejected, key=lambda each: (each.day, each.iid), reverse=True))


def _format_references(requests: Iterable[KnownMergeRequest]) -> str:
    return ", ".join(f"!{request.iid}" for request in requests)


# --- the dashboard's outlook --------------------------------------------------------------------


MOST_DAYS = 7 * 8
"""How many days ahead to search for a category's next day: there may be many quiet dates."""


def list_categories(settings: Settings) -> tuple[str, ...]:
    """The categories that may be tried: the scheduled ones by weekday, then the others."""
    scheduled = (settings.category_schedule.get(name, "") for name in WEEKDAYS)
    names = (*scheduled, *FALLBACK_ORDER, *settings.categories)
    return tuple(dict.fromkeys(filter(None, names)))


def list_outlook(
    settings: Settings, memory: Memory, day: date, *, public: bool
) -> tuple[CategoryOutlook, ...]:
    """Each category with its next day after ``day``, and why it is left out on ``day``."""
    names = list_categories(settings)
    left_out = find_left_out(names, settings, public=public, memory=memory, day=day)
    reasons = {each.category: each.reason for each in left_out}
    return tuple(
        CategoryOutlook(name, _find_next_day(name, settings, day), reasons.get(name, ""))
        for name in names
    )


def _find_next_day(category: str, settings: Settings, day: date) -> str | None:
    for days in range(1, MOST_DAYS + 1):
        next_day = day + timedelta(days)
        scheduled = settings.category_schedule.get(WEEKDAYS[next_day.weekday()])
        if scheduled == category and next_day not in settings.quiet_dates:
            return str(next_day)
    return None
