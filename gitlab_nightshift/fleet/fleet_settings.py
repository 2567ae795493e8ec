"""``fleet.yaml``: which projects are in the fleet, when their nights are, and what they may cost.

The text under a key is shown in docs/fleet.md.
"""

import datetime as dt
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.gitlab.resources import NIGHT_LABEL
from gitlab_nightshift.policy.path_patterns import matches
from gitlab_nightshift.settings.config_file import (
    Assignment,
    ConfigFile,
    find_secrets,
    flatten_assignment,
    read_yaml,
)
from gitlab_nightshift.settings.load import build_mistakes_error, describe_problem
from gitlab_nightshift.settings.notations import check_notification_url, check_time_zone, parse_date
from gitlab_nightshift.settings.setting_groups import (
    LARGEST_NUMBER,
    Label,
    SettingsGroup,
    check_after,
    check_before,
    check_bounds,
)

FLEET_FILE = "fleet.yaml"
LONGEST_WINDOW = dt.timedelta(hours=12)
"""A night belongs to the window in which it began: a longer window could contain two nights."""


def parse_time(value: Any) -> Any:
    """A time of day from ``22:00``, which YAML 1.1 reads as 1320 (base 60) without quotes."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 24 * 60:
        return dt.time(value // 60, value % 60)
    match = re.fullmatch(r"([01]?[0-9]|2[0-3]):([0-5][0-9])", str(value))
    if not match:
        raise ValueError("expected a time of day such as 22:00")
    return dt.time(int(match[1]), int(match[2]))


def check_path(value: str) -> str:
    """The path of a group or project, as in its address."""
    if not re.fullmatch(r"[A-Za-z0-9_.][\w.-]*(/[A-Za-z0-9_.][\w.-]*)*", value):
        raise ValueError("expected a path such as acme/tools, without the server and a last slash")
    return value


FullPath = Annotated[str, check_after(check_path)]
Pattern = Annotated[str, check_bounds(min_length=1, max_length=500)]
TimeOfDay = Annotated[dt.time, check_before(parse_time)]
Cadence = Literal["nightly", "weekly", "when active"]
Usd = Annotated[float, check_bounds(gt=0, le=LARGEST_NUMBER)]
Count = Annotated[int, check_bounds(ge=1, le=LARGEST_NUMBER)]


@dataclass(frozen=True, kw_only=True)
class Window(SettingsGroup):
    """When nights may start. It may pass midnight, and lasts 12 hours at most."""

    start: TimeOfDay = dt.time(22)
    """The first start."""
    end: TimeOfDay = dt.time(6)
    """Nothing starts from then on."""


@dataclass(frozen=True, kw_only=True)
class FleetBudget(SettingsGroup):
    """What all nights together may cost."""

    night_usd: Usd
    """USD a night for the whole fleet."""
    month_usd: Usd | None = None
    """USD a calendar month. Default: no limit."""


@dataclass(frozen=True, kw_only=True)
class CadenceRule(SettingsGroup):
    """Another cadence for some projects; the last rule that matches counts."""

    match: list[Pattern]
    """Patterns of projects' paths, as in `.gitignore`: `acme/core`, `acme/*/api`."""
    cadence: Cadence
    """`nightly`, `weekly` or `when active`."""


@dataclass(frozen=True, kw_only=True)
class FleetSettings(SettingsGroup):
    """All keys of ``fleet.yaml``."""

    groups: list[FullPath] = field(default_factory=list)
    """Groups, with everything below them."""
    projects: list[FullPath] = field(default_factory=list)
    """Further projects."""
    topics: list[str] = field(default_factory=list)
    """Only the groups' projects with one of these topics. Default: all."""
    include: list[Pattern] = field(default_factory=list)
    """Only the groups' projects that a pattern matches. Default: all."""
    exclude: list[Pattern] = field(default_factory=list)
    """Patterns of projects to leave out."""
    opt_out_topic: str = "no-night-shift"
    """Leaves a project out, as does `enabled: false` in its file."""

    cadence: Cadence = "weekly"
    """`nightly`, `weekly`, or `when active`: after people have worked on the project."""
    cadences: list[CadenceRule] = field(default_factory=list)
    """Other cadences, by pattern."""
    window: Window = field(default_factory=Window)
    """When nights may start."""
    timezone: Annotated[str, check_after(check_time_zone)] = "UTC"
    """Time zone of the window, dates and months."""
    quiet_dates: list[Annotated[dt.date, check_before(parse_date)]] = field(default_factory=list)
    """Dates (YYYY-MM-DD) on which no window begins."""

    budget: FleetBudget
    """What all nights together may cost."""
    night_limit_usd: Usd | None = None
    """What one night may spend, if a group variable NIGHTSHIFT_MAX_BUDGET_USD says so. Default:
    the project's `max_budget_usd`."""
    group_limits: dict[FullPath, Count] = field(default_factory=dict)
    """Group → nights that it may have a night."""
    max_running: Count = 20
    """Nights that may run at a time."""
    max_open_per_reviewer: Count = 3
    """Open night-shift merge requests per reviewer, over all projects."""

    max_open_onboarding: Count = 10
    """Open onboarding merge requests of `fleet init`."""

    dashboard: Count | None = None
    """Number of the issue that `fleet report` keeps as the fleet's dashboard."""
    notify: list[Annotated[str, check_before(check_notification_url)]] = field(default_factory=list)
    """Whom `fleet report` tells, as `notify` in nightshift.yaml."""

    account: str = ""
    """User name of the account that plays the schedules. Default: the token's."""
    label: Label = NIGHT_LABEL
    """Label of the nights' merge requests."""

    def find_cadence(self, path: str) -> Cadence:
        """How often a project's nights are."""
        cadences = [rule.cadence for rule in self.cadences if matches(path, rule.match)]
        return cadences[-1] if cadences else self.cadence


@dataclass(frozen=True)
class FleetFile:
    """The settings of ``fleet.yaml``, and where in the file each value is."""

    settings: FleetSettings
    assignments: tuple[Assignment, ...]

    def find_place(self, *path: str) -> str:
        """The file and line of a value, by its keys and list indexes."""
        for assignment in self.assignments:
            length = min(len(assignment.path), len(path))
            if assignment.path[:length] == path[:length]:
                return assignment.find_place(path)
        return FLEET_FILE


def read_fleet_file(path: Path) -> FleetFile:
    """Read and check ``fleet.yaml``. Raises ``E_CONFIG`` with all mistakes, one per line."""
    from pydantic import TypeAdapter, ValidationError

    file = ConfigFile(path.name, _read_text(path))
    mistakes: list[str] = []
    data, root = read_yaml(file, mistakes)
    mistakes += find_secrets(file)
    if not isinstance(data, dict):
        raise build_config_error(f"{file.name}: expected keys and values at the top")
    top = Assignment((), data, "", f"{file.name}:1", root)
    assignments = tuple(flatten_assignment(top, FleetSettings))
    try:
        settings: FleetSettings = TypeAdapter(FleetSettings).validate_python(data)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            text = describe_problem(problem, assignments, FleetSettings)
            mistakes.append(f"{file.name}: {text}" if problem["type"] == "missing" else text)
        raise build_mistakes_error(mistakes) from None
    # Contradictions can be found only between valid values.
    fleet_file = FleetFile(settings, assignments)
    if mistakes := [*mistakes, *_find_contradictions(fleet_file)]:
        raise build_mistakes_error(mistakes)
    return fleet_file


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        text = "no such file: docs/fleet.md shows how to begin one"
        raise build_config_error(f"{path}: {text}") from None
    except OSError as error:
        raise build_config_error(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise build_config_error(f"{path}: not UTF-8 text") from None


def _find_contradictions(file: FleetFile) -> Iterator[str]:
    """Mistakes in the values of several keys together."""
    settings = file.settings
    if not (settings.groups or settings.projects):
        yield f"{FLEET_FILE}: no projects: set groups or projects"
    yield from _find_overlaps(file, "groups", settings.groups)
    yield from _find_overlaps(file, "projects", settings.projects)
    budget, limit = settings.budget, settings.night_limit_usd
    for name in ("night_usd", "month_usd"):
        most = getattr(budget, name)
        if limit and most is not None and most < limit:
            place = file.find_place("budget", name)
            yield f"{place}: budget.{name}: ${most:g} cannot pay for one night of ${limit:g}"
    if budget.month_usd is not None and budget.month_usd < budget.night_usd:
        place = file.find_place("budget", "month_usd")
        yield f"{place}: budget.month_usd: less than a single night's {budget.night_usd:g}"
    if not dt.timedelta(0) < measure_window(settings.window) <= LONGEST_WINDOW:
        yield f"{file.find_place('window')}: window: it must last from a minute to 12 hours"


def _find_overlaps(file: FleetFile, key: str, paths: list[str]) -> Iterator[str]:
    """Entries that are listed twice, or are in another listed group."""
    for index, path in enumerate(paths):
        entry = f"{file.find_place(key, str(index))}: {key}: {path}"
        parents = [
            group for group in file.settings.groups if path.lower().startswith(f"{group}/".lower())
        ]
        if parents:
            yield f"{entry} is in the group {parents[0]}, which is listed too"
        elif path.lower() in map(str.lower, paths[:index]):
            yield f"{entry} is listed twice"


def measure_window(window: Window) -> dt.timedelta:
    """The length of the window by the clock; zero for equal times."""
    day = dt.date(2000, 1, 1)
    start, end = dt.datetime.combine(day, window.start), dt.datetime.combine(day, window.end)
    return (end - start) % dt.timedelta(days=1)


# --- the window -----------------------------------------------------------------------------------

HOUR = dt.timedelta(hours=1)


@dataclass(frozen=True)
class NightWindow:
    """One night's window: the date on which it begins, its start and its end in UTC."""

    night: dt.date
    start: dt.datetime
    end: dt.datetime

    def is_open(self, now: dt.datetime) -> bool:
        """True if nights may start at this moment."""
        return self.start <= now < self.end

    def find_hour(self, project: int) -> dt.datetime:
        """When a project's night is due: at the same hour each night, by the project's id."""
        hours = math.ceil((self.end - self.start) / HOUR)
        return self.start + HOUR * (compute_project_hash("hour", project) % hours)


def find_window(settings: FleetSettings, now: dt.datetime) -> NightWindow:
    """The open window, else the next one."""
    import zoneinfo

    zone = zoneinfo.ZoneInfo(settings.timezone)
    today = now.astimezone(zone).date()
    # Yesterday's window may end after midnight.
    days = (today + dt.timedelta(days=offset) for offset in (-1, 0, 1, 2))
    windows = (_build_window(settings, day, zone) for day in days)
    return next(window for window in windows if now < window.end)


def _build_window(settings: FleetSettings, day: dt.date, zone: dt.tzinfo) -> NightWindow:
    window = settings.window
    last_day = day + dt.timedelta(days=1) if window.end <= window.start else day
    start = dt.datetime.combine(day, window.start, zone)
    end = dt.datetime.combine(last_day, window.end, zone)
    # In UTC: the difference of two local datetimes ignores daylight saving time (docs.python.org,
    # datetime).
    return NightWindow(day, start.astimezone(dt.UTC), end.astimezone(dt.UTC))


def find_month_start(settings: FleetSettings, window: NightWindow) -> dt.datetime:
    """The start of a night's calendar month, in the fleet's time zone."""
    import zoneinfo

    first = dt.datetime.combine(
        window.night.replace(day=1), dt.time(), zoneinfo.ZoneInfo(settings.timezone)
    )
    return first.astimezone(dt.UTC)


def compute_project_hash(purpose: str, project_id: int) -> int:
    """A number that spreads projects evenly, and is the same for a project every night."""
    # Not hash(), which differs between processes.
    return zlib.crc32(f"{purpose} {project_id}".encode())


def parse_moment(text: str) -> dt.datetime:
    """A time from GitLab (ISO 8601); year 1 for an invalid or missing one."""
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return dt.datetime(1, 1, 1, tzinfo=dt.UTC)
