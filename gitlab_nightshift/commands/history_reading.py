"""Reads the history of a project's or a group's nights from GitLab, for ``nightshift report``."""

from collections.abc import Mapping
from dataclasses import replace
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
from gitlab_nightshift.run.dashboard_runs import read_dashboard_nights
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.report.history_report import HistoryFigures, compute_figures

MOST_NIGHTS, MOST_DAYS = 100, 3650
"""Nights whose results are read, one request each; days that ``--days`` may name."""


def read_figures(
    settings: Settings, env: Mapping[str, str], path: str | None, group: str | None, days: int
) -> HistoryFigures:
    """The figures over the last ``days`` of a group, else of the project at ``path``, else of the
    job's project.

    Raises ``E_CONFIG``, and ``E_PUBLISH`` if GitLab does not answer.
    """
    since = find_first_day(days)
    job, token = read_job(env, settings.repo_url), env.get("GITLAB_TOKEN", "").strip()
    if not token:
        raise build_config_error("GITLAB_TOKEN is not set: the scope read_api is enough for this")
    today = str(datetime.now(UTC).date())
    if group:
        history, without_night = _read_group(settings, job, token, group, since)
        return compute_figures(group, str(since), today, history, without_night)
    project = open_project(job.server_url, path or job.project_id, token)
    request = HistoryRequest(
        since=since,
        most_nights=MOST_NIGHTS,
        prefix=settings.branch_prefix,
        # Settings with labels of their own may leave this one out.
        label=NIGHT_LABEL if settings.labels is None else "",
        result_path=f"{settings.output_dir}/result.json",
    )
    history = _complete_nights(project.read_history(request), project, token, settings.log_issue)
    title = path or job.project_path or project.facts.path
    return compute_figures(title, str(since), today, history)


def find_first_day(days: int) -> date:
    """The first of the last ``days`` days (UTC). Raises ``E_CONFIG``."""
    if not 1 <= days <= MOST_DAYS:
        raise build_config_error(f"--days {days}: expected a number from 1 to {MOST_DAYS}")
    return datetime.now(UTC).date() - timedelta(days=days)


def _read_group(
    settings: Settings, job: JobFacts, token: str, group: str, since: date
) -> tuple[NightHistory, tuple[str, ...]]:
    """The history of the group's projects, read like a fleet's, and the projects without a
    night."""
    budget = FleetBudget(night_usd=1.0)  # required, without effect: nothing is started
    label = settings.labels[0] if settings.labels else NIGHT_LABEL
    fleet = FleetSettings(groups=[group], budget=budget, label=label)
    fleet_history = read_fleet_history(open_fleet(job.server_url, token), fleet, since, {})
    if fleet_history.discovery.missing_groups:
        text = f"--group {group}: GitLab has none, or this token does not see it"
        raise build_config_error(text)
    return fleet_history.history, fleet_history.silent


def _complete_nights(
    history: NightHistory, project: Project, token: str, issue: int | str
) -> NightHistory:
    """Complete nights whose artifacts have expired with what the dashboard ``issue`` says."""
    if all(night.outcome for night in history.nights):
        return history
    try:
        dashboard_nights = read_dashboard_nights(project, token, issue)
    except NightshiftError as error:
        text = f"the dashboard of {project.name}: {error.message}"
        return replace(history, unknown=(*history.unknown, text))
    by_run = {each.run_id: each for each in dashboard_nights}
    nights = tuple(_complete_night(each, by_run.get(each.run_id)) for each in history.nights)
    return replace(history, nights=nights)


def _complete_night(night: PastNight, shown: DashboardNight | None) -> PastNight:
    if night.outcome or shown is None:
        return night
    outcome, cost = shown.outcome.value, shown.cost_usd
    return replace(night, outcome=outcome, category=shown.category, cost_usd=cost)
