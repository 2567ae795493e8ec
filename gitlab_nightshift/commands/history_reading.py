"""The history of a project or a group as ``nightshift report`` shows it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.gitlab.history import HistoryRequest
from gitlab_nightshift.gitlab.project import Project, open_project
from gitlab_nightshift.gitlab.resources import NIGHT_LABEL
from gitlab_nightshift.job.job_facts import read_job
from gitlab_nightshift.records.dashboard_records import DashboardNight
from gitlab_nightshift.records.history_records import NightHistory, PastNight
from gitlab_nightshift.run.dashboard_runs import read_kept_nights
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.report.history_figures import HistoryFigures, compute_figures

MOST_PROJECTS, MOST_NIGHTS, MOST_DAYS = 20, 100, 3650


def read_figures(
    settings: Settings, env: Mapping[str, str], name: str | None, group: str | None, days: int
) -> HistoryFigures:
    """The figures of a project (``name``, else the job's) or of a group over the last ``days``.

    Raises ``E_CONFIG``, and ``E_PUBLISH`` if GitLab does not answer.
    """
    if not 1 <= days <= MOST_DAYS:
        raise build_config_error(f"--days {days}: expected a number from 1 to {MOST_DAYS}")
    job, token = read_job(env, settings.repo_url), env.get("GITLAB_TOKEN", "").strip()
    if not token:
        raise build_config_error("GITLAB_TOKEN is not set: the scope read_api is enough for this")
    asked = open_project(job.server_url, group or name or job.project_id, token)
    projects = [asked]
    if group:
        ids = asked.list_projects_below(MOST_PROJECTS)
        projects = [open_project(job.server_url, each, token) for each in ids]
    today = datetime.now(UTC).date()
    wanted = HistoryRequest(
        since=today - timedelta(days=days),
        most_nights=max(1, MOST_NIGHTS // max(1, len(projects))),
        prefix=settings.branch_prefix,
        label=NIGHT_LABEL if settings.labels is None else "",
        place=f"{settings.output_dir}/result.json",
    )
    issue = settings.log_issue if not group or settings.log_issue == "off" else "auto"
    dashboard = _DashboardRequest(token, issue)
    history = _join(_read(each, wanted, dashboard, alone=not group) for each in projects)
    shown = group or name or job.project_path or asked.facts.path
    return compute_figures(shown, str(wanted.since), str(today), history)


@dataclass(frozen=True)
class _DashboardRequest:
    """Which issue is the dashboard (``log_issue``), and the token that reads it."""

    token: str = field(repr=False)
    issue: int | str


def _read(
    project: Project, wanted: HistoryRequest, dashboard: _DashboardRequest, *, alone: bool
) -> NightHistory:
    """A project's history; one of several may be unknown if it cannot be read."""
    try:
        return _complete_nights(project.read_history(wanted), project, dashboard)
    except NightshiftError as error:
        if alone:
            raise
        return NightHistory(unknown=(f"project {project.name}: {error.message}",))


def _complete_nights(
    history: NightHistory, project: Project, dashboard: _DashboardRequest
) -> NightHistory:
    """Complete nights whose artifacts have expired from the dashboard."""
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


def _join(histories: Iterable[NightHistory]) -> NightHistory:
    parts = list(histories)
    return NightHistory(
        tuple(each for part in parts for each in part.merge_requests),
        tuple(each for part in parts for each in part.nights),
        tuple(each for part in parts for each in part.unknown),
    )
