"""The history of a project or a group as ``nightshift report`` shows it."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.gitlab import NIGHT_LABEL, open_project
from gitlab_nightshift.gitlab.history import HistoryRequest
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.job import read_job
from gitlab_nightshift.records.history_records import NightHistory
from gitlab_nightshift.report.history_figures import HistoryFigures, compute_figures
from gitlab_nightshift.settings import Settings

MOST_PROJECTS, MOST_NIGHTS, MOST_DAYS = 20, 100, 3650


def read_figures(
    settings: Settings, env: Mapping[str, str], name: str | None, group: str | None, days: int
) -> HistoryFigures:
    """The figures of a project (``name``, else the job's) or of a group over these last days.

    Raises ``E_CONFIG``, and ``E_PUBLISH`` where GitLab does not answer.
    """
    if not 1 <= days <= MOST_DAYS:
        raise build_config_error(f"--days {days}: a number from 1 to {MOST_DAYS} is expected")
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
    history = _join(_read(each, wanted, alone=not group) for each in projects)
    shown = group or name or job.project_path or asked.facts.path
    return compute_figures(shown, str(wanted.since), str(today), history)


def _read(project: Project, wanted: HistoryRequest, *, alone: bool) -> NightHistory:
    """A project's history; of several, one that cannot be read is not known."""
    try:
        return project.read_history(wanted)
    except NightshiftError as error:
        if alone:
            raise
        return NightHistory(unknown=(f"project {project.name}: {error.message}",))


def _join(histories: Iterable[NightHistory]) -> NightHistory:
    parts = list(histories)
    return NightHistory(
        tuple(each for part in parts for each in part.merge_requests),
        tuple(each for part in parts for each in part.nights),
        tuple(each for part in parts for each in part.unknown),
    )
