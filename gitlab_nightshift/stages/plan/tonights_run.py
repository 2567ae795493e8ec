"""Whether a fleet has started tonight's night of this project already, in another pipeline.

A fleet looks for a night's pipeline before it starts one, but GitLab makes it a while after it was
asked to: a fleet that was killed just then may have asked twice.
"""

from datetime import UTC, datetime, timedelta

from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.project_settings import FLEET_SCHEDULE
from gitlab_nightshift.job.job_facts import JobFacts

TONIGHT = timedelta(hours=11)
"""A fleet's window lasts 12 hours at most, and a project keeps its hour: last night was earlier."""
MOST = 3
"""Pipelines that are asked for who started them."""


def find_tonights_run(project: Project, job: JobFacts) -> int:
    """The earlier pipeline that the fleet's schedule has started tonight, for the same user; 0
    for none, and where GitLab does not say. What a person plays by hand is another night."""
    by_fleet = job.pipeline_source == "schedule" and job.schedule_description == FLEET_SCHEDULE
    if not (by_fleet and job.run_id.isdecimal()):
        return 0
    try:
        created = datetime.fromisoformat(job.pipeline_created_at)
    except ValueError:
        created = datetime.now(UTC)
    try:
        found = project.pipelines.list_fleet_pipelines((created - TONIGHT).isoformat())
        earlier = [each.id for each in found if each.id < int(job.run_id)]
        users = ((each, project.pipelines.find_user(each)) for each in earlier[:MOST])
        return next((each for each, user in users if user == job.user_login), 0)
    except ApiError:
        return 0
