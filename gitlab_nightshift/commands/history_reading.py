"""The history of a project or a group as ``nightshift report`` shows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.fleet.fleet_history import read_fleet_history
from gitlab_nightshift.fleet.fleet_settings import FleetBudget, FleetSettings
from gitlab_nightshift.gitlab.fleet_api import open_fleet
from gitlab_nightshift.gitlab.history import HistoryRequest
from gitlab_nightshift.gitlab.project import Project, open_project
from gitlab_nightshift.gitlab.resources import NIGHT_LABEL
from gitlab_nightshift.job.job_facts import JobFacts, read_job
from gitlab_nightshift.records.history_records import DashboardNight, NightHistory, PastNight
from gitlab_nightshift.run.dashboard_runs import read_kept_nights
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.report.history_report import HistoryFigures, compute_figures

MOST_NIGHTS, MOST_DAYS = 100, 3650
"""Nights whose results are read, one request each; days that ``--days`` may name."""


def read_figures(
    settings: Settings, env: Mapping[str, str], name: str | None, group: str | None, days: int
) -> HistoryFigures:
    """The figures of a project (``name``, else the job's) or of a group over the last ``days``.

    Raises ``E_CONFIG``, and ``E_PUBLISH`` if GitLab does not answer.
    """
    since = find_first_day(days)
    job, token = read_job(env, settings.repo_url), env.get("GITLAB_TOKEN", "").strip()
    if not token:
        raise build_config_error("GITLAB_TOKEN is not set: the scope read_api is enough for this")
    today = str(datetime.now(UTC).date())
    if group:
        history, silent = _read_group(settings, job, token, group, since)
        return compute_figures(group, str(since), today, history, silent)
    project = open_project(job.server_url, name or job.project_id, token)
    request = HistoryRequest(
        since=since,
        most_nights=MOST_NIGHTS,
        prefix=settings.branch_prefix,
        label=_find_label(settings),
        result_path=f"{settings.output_dir}/result.json",
    )
    dashboard = _DashboardRequest(token, settings.log_issue)
    history = _complete_nights(project.read_history(request), project, dashboard)
    shown = name or job.project_path or project.facts.path
    return compute_figures(shown, str(since), today, history)


def find_first_day(days: int) -> date:
    """The first of these last days (UTC). Raises ``E_CONFIG``."""
    if not 1 <= days <= MOST_DAYS:
        raise build_config_error(f"--days {days}: expected a number from 1 to {MOST_DAYS}")
    return datetime.now(UTC).date() - timedelta(days=days)


def _find_label(settings: Settings) -> str:
    """The label that nights' merge requests surely have; "" if the settings choose the labels."""
    return NIGHT_LABEL if settings.labels is None else ""


def _read_group(
    settings: Settings, job: JobFacts, token: str, group: str, since: date
) -> tuple[NightHistory, tuple[str, ...]]:
    """The history of all projects of a group, as of a fleet, and those without a night."""
    budget = FleetBudget(night_usd=1.0)  # required, without effect: nothing is started
    label = _find_label(settings) or (settings.labels or (NIGHT_LABEL,))[0]
    fleet = FleetSettings(groups=[group], budget=budget, label=label)
    found = read_fleet_history(open_fleet(job.server_url, token), fleet, since, {})
    if found.discovery.missing_groups:
        text = f"--group {group}: GitLab has none, or this token does not see it"
        raise build_config_error(text)
    return found.history, found.silent


@dataclass(frozen=True)
class _DashboardRequest:
    """The dashboard to read: its ``issue``, as the setting ``log_issue`` names it, and the
    token."""

    token: str = field(repr=False)
    issue: int | str


def _complete_nights(
    history: NightHistory, project: Project, dashboard: _DashboardRequest
) -> NightHistory:
    """Take from the dashboard what is missing of nights whose artifacts have expired."""
    if all(each.outcome for each in history.nights):
        return history
    try:
        kept = read_kept_nights(project, dashboard.token, dashboard.issue)
    except NightshiftError as error:
        text = f"the dashboard of {project.name}: {error.message}"
        return replace(history, unknown=(*history.unknown, text))
    by_run = {each.run_id: each for each in kept}
    nights = tuple(_complete(each, by_run.get(each.run_id)) for each in history.nights)
    return replace(history, nights=nights)


def _complete(night: PastNight, kept: DashboardNight | None) -> PastNight:
    if night.outcome or kept is None:
        return night
    outcome, cost = kept.outcome.value, kept.cost_usd
    return replace(night, outcome=outcome, category=kept.category, cost_usd=cost)
