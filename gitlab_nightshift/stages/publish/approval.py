"""Finds who approved a change: whoever started the manual job that publishes it, by hand or by a
tick on the dashboard."""

from collections.abc import Callable

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.gitlab.accounts import DEVELOPER
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.job.job_facts import JobFacts


def find_approver(project: Project, job: JobFacts, find_ticker: Callable[[], str]) -> str:
    """The login of the user who started this manual job. If that is the token's own user, who does
    so for a tick on the dashboard, it is the login that ``find_ticker`` returns ("" for nobody).

    The job's own variables say that it is manual; GitLab says who started it, and their role.
    Raises ``E_CONFIG`` outside a job, ``E_POLICY_DENY`` for a job or a user that cannot approve.
    """
    if not job.in_ci or not job.job_id:
        raise build_config_error(
            "--approved: works only in the job nightshift:approve of a pipeline"
        )
    if not job.manual:
        raise _build_denial("nobody started this job: it must be a job with `when: manual`")
    start = project.find_job_start(job.job_id)
    if start is None or (start.pipeline, start.status) != (job.run_id, "running"):
        raise _build_denial(f"GitLab has no running job {job.job_id} in pipeline {job.run_id}")
    if start.login != job.user_login:
        raise _build_denial(
            f"GitLab says that {start.login} started this job, not {job.user_login}"
        )
    if start.user_id == project.check_access().user_id:
        if login := find_ticker():
            return login
        raise _build_denial(
            f"{start.login} is the user of GITLAB_TOKEN, which cannot approve anything itself"
        )
    if start.level < DEVELOPER:
        raise _build_denial(f"{start.login} has a role below Developer on this project")
    return start.login


def _build_denial(why: str) -> NightshiftError:
    return NightshiftError(Code.POLICY_DENY, f"not approved: {why}")
