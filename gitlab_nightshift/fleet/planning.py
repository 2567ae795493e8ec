"""``fleet plan``: find the projects, read what nights have cost, choose. Nothing is changed."""

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.fleet.choice import choose_tonight, list_unpayable
from gitlab_nightshift.fleet.discovery import discover, list_missing
from gitlab_nightshift.fleet.fleet_settings import FleetFile
from gitlab_nightshift.fleet.night_costs import CostRequest, read_costs
from gitlab_nightshift.fleet.night_window import find_month_start, find_window
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.fleet_api import FleetApi
from gitlab_nightshift.records.fleet_plan import FleetPlan, NightCost
from gitlab_nightshift.records.storage import build_record
from gitlab_nightshift.settings.load import build_mistakes_error

PLAN_FILE, PLAN_JOB = "fleet-plan.json", "fleet:plan"


def plan_fleet(
    api: FleetApi, file: FleetFile, known: Iterable[NightCost], now: dt.datetime
) -> FleetPlan:
    """The plan of this moment; ``known`` are the costs that the last one has read.

    Raises ``E_CONFIG`` with all that is wrong with the file, and ApiError.
    """
    found = discover(api, file.settings)
    if mistakes := [*list_missing(file, found), *list_unpayable(file, found)]:
        raise build_mistakes_error(mistakes)
    window = find_window(file.settings, now)
    since = min(window.start, find_month_start(file.settings, window))
    wanted = CostRequest(since, {each.night: each for each in known}, file.settings)
    return choose_tonight(file.settings, found, read_costs(api, found.projects, wanted), now)


def read_known_costs(
    api: FleetApi, folder: Path, env: Mapping[str, str]
) -> tuple[tuple[NightCost, ...], str]:
    """The costs that the last plan has read, and a note where there is none that can be used: from
    ``fleet-plan.json`` here, else from the control project's last plan in GitLab."""
    try:
        data = (folder / PLAN_FILE).read_bytes()
    except OSError:
        project, ref = env.get("CI_PROJECT_ID"), env.get("CI_COMMIT_REF_NAME")
        if not (project and ref):
            return (), ""
        try:
            data = api.download_latest(project, ref, PLAN_JOB, PLAN_FILE)
        except ApiError as error:
            text = "no earlier plan" if error.status == 404 else f"no earlier plan: {error}"
            return (), f"{text}; the costs of this month's nights are read from their results"
    try:
        return build_record(FleetPlan, json.loads(data), PLAN_FILE).costs, ""
    except (NightshiftError, ValueError, RecursionError):
        return (), f"the earlier {PLAN_FILE} cannot be read; costs are read from the results"


def format_plan(plan: FleetPlan) -> Iterator[str]:
    """The table, and what it comes to."""
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
