"""``fleet plan``: find the projects, read the costs of nights, and choose. It changes nothing."""

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.fleet.choice import choose_tonight, list_unpayable
from gitlab_nightshift.fleet.discovery import discover, list_missing
from gitlab_nightshift.fleet.fleet_dashboard import NOTHING_OFF, Switches
from gitlab_nightshift.fleet.fleet_settings import (
    FleetFile,
    NightWindow,
    find_month_start,
    find_window,
    parse_moment,
)
from gitlab_nightshift.fleet.night_costs import CostRequest, read_costs
from gitlab_nightshift.fleet.night_start import PLAN_VALID_FOR
from gitlab_nightshift.gitlab.fleet_api import ControlJob, FleetApi
from gitlab_nightshift.records.fleet_records import FleetPlan, NightCost, PlannedProject
from gitlab_nightshift.records.storage import build_record
from gitlab_nightshift.settings.load import build_mistakes_error

PLAN_FILE, PLAN_JOB = "fleet-plan.json", "fleet:plan"
GONE = "moved, deleted, or hidden from this token since the last plan"
PLAN_PENDING_FOR = PLAN_VALID_FOR + dt.timedelta(minutes=5)
"""The next plan takes a plan's nights for pending this long: a little longer than they may be
started, as runners' clocks differ."""


@dataclass(frozen=True)
class LastPlan:
    """The last plan, as far as the next one needs it. ``started`` are the ids of projects whose
    nights it had started, ``paths`` those of all its projects; ``note`` is why there is no last
    plan, "" if there is one or none is expected."""

    costs: tuple[NightCost, ...] = ()
    made_at: str = ""
    window_start: str = ""
    started: frozenset[int] = frozenset()
    paths: tuple[str, ...] = ()
    note: str = ""

    def knows(self, path: str) -> bool:
        """True if the plan had this project, or one of this group: then a typing mistake in the
        file is not why GitLab lacks it now."""
        return any(f"{each}/".startswith(f"{path}/") for each in self.paths)

    def list_pending(self, window: NightWindow, now: dt.datetime) -> frozenset[int]:
        """Projects that jobs of the last plan may still start tonight."""
        is_tonights = self.window_start == window.start.isoformat()
        lasts = now < parse_moment(self.made_at) + PLAN_PENDING_FOR
        return self.started if is_tonights and lasts else frozenset()


def plan_fleet(
    api: FleetApi,
    file: FleetFile,
    last: LastPlan,
    now: dt.datetime,
    switches: Switches = NOTHING_OFF,
) -> FleetPlan:
    """The plan for this moment. ``switches`` are the dashboard's.

    Raises ``E_CONFIG`` with all mistakes in the file, and ApiError.
    """
    found = discover(api, file.settings)
    gone = [each for each in (*found.missing_groups, *found.missing_projects) if last.knows(each)]
    if mistakes := [*list_missing(file, found, gone), *list_unpayable(file, found)]:
        raise build_mistakes_error(mistakes)
    window = find_window(file.settings, now)
    # A window may begin on the last day of the month before.
    since = min(window.start, find_month_start(file.settings, window))
    wanted = CostRequest(since, {each.night: each for each in last.costs}, file.settings)
    costs = read_costs(api, found.projects, wanted)
    pending = last.list_pending(window, now)
    plan = choose_tonight(file.settings, found, costs, now, pending, switches)
    rows = (PlannedProject(0, path, "no", GONE, plan.window_end, 0.0) for path in gone)
    return replace(plan, projects=(*plan.projects, *rows))


def read_last_plan(api: FleetApi, folder: Path, control: ControlJob | None) -> LastPlan:
    """The last plan, from ``fleet-plan.json`` here, else from the control project's pipelines."""
    try:
        data: bytes | None = (folder / PLAN_FILE).read_bytes()
    except OSError:
        if control is None:
            return LastPlan()
        data = api.find_last_artifact(control, PLAN_JOB, PLAN_FILE)
    anew = "the costs of this month's nights are read from their results"
    if data is None:
        text = "no earlier plan that this token sees in the control project"
        return LastPlan(note=f"{text}: {anew}")
    try:
        plan = build_record(FleetPlan, json.loads(data), PLAN_FILE)
    except (NightshiftError, ValueError, RecursionError):
        return LastPlan(note=f"the earlier {PLAN_FILE} cannot be read: {anew}")
    started = frozenset(each.id for each in plan.projects if each.decision == "start")
    paths = tuple(each.path for each in plan.projects)
    return LastPlan(plan.costs, plan.made_at, plan.window_start, started, paths)


def format_plan(plan: FleetPlan) -> Iterator[str]:
    """The plan as a table with totals."""
    width = max((len(each.path) for each in plan.projects), default=0)
    for each in plan.projects:
        at = f"{dt.datetime.fromisoformat(each.at):%H:%M}Z" if each.decision == "later" else ""
        yield f"{each.decision:7} {each.path:{width}}  {each.reason} {at}".rstrip()
    counts = dict.fromkeys(("start", "later", "wait", "started", "no"), 0)
    for each in plan.projects:
        counts[each.decision] += 1
    yield f"night of {plan.night}, {plan.window_start} to {plan.window_end}"
    yield ", ".join(f"{count} {name}" for name, count in counts.items())
    yield (
        f"spent tonight ${plan.spent_night_usd:.2f}, this month ${plan.spent_month_usd:.2f};"
        f" reserved for tonight ${plan.reserved_usd:.2f}; {plan.running} running"
    )
    yield from (f"not known: {text}" for text in plan.unknown)
