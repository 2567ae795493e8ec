"""When nights start: the window of ``fleet.yaml``, and each project's hour in it."""

import datetime as dt
import math
import zlib
from dataclasses import dataclass

from gitlab_nightshift.fleet.fleet_settings import FleetSettings

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
        """When a project's night is due: at the same hour each night, by its id."""
        hours = math.ceil((self.end - self.start) / HOUR)
        return self.start + HOUR * (compute_project_hash("hour", project) % hours)


def find_window(settings: FleetSettings, now: dt.datetime) -> NightWindow:
    """The open window, else the next one."""
    import zoneinfo

    zone = zoneinfo.ZoneInfo(settings.timezone)
    today = now.astimezone(zone).date()
    # Yesterday's window may last past midnight.
    days = (today + dt.timedelta(days=n) for n in (-1, 0, 1, 2))
    return next(made for day in days if now < (made := _build_window(settings, day, zone)).end)


def _build_window(settings: FleetSettings, day: dt.date, zone: dt.tzinfo) -> NightWindow:
    window = settings.window
    last_day = day + dt.timedelta(days=1) if window.end <= window.start else day
    start = dt.datetime.combine(day, window.start, zone)
    end = dt.datetime.combine(last_day, window.end, zone)
    return NightWindow(day, start.astimezone(dt.UTC), end.astimezone(dt.UTC))


def find_month_start(settings: FleetSettings, window: NightWindow) -> dt.datetime:
    """The start of a night's calendar month, in the fleet's time zone."""
    import zoneinfo

    first = dt.datetime.combine(
        window.night.replace(day=1), dt.time(), zoneinfo.ZoneInfo(settings.timezone)
    )
    return first.astimezone(dt.UTC)


def compute_project_hash(purpose: str, project_id: int) -> int:
    """A number of a project, the same every night, which spreads projects evenly."""
    # Not hash(), which differs from process to process.
    return zlib.crc32(f"{purpose} {project_id}".encode())


def parse_moment(text: str) -> dt.datetime:
    """A time from GitLab (ISO 8601); the year 1 for none."""
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return dt.datetime(1, 1, 1, tzinfo=dt.UTC)
