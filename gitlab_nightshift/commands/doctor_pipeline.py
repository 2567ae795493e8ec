"""``nightshift doctor`` on the night's pipeline: will it start, and can it fetch this program."""

from collections.abc import Iterator

from gitlab_nightshift.commands.doctor_checkout import find_missing_include
from gitlab_nightshift.commands.doctor_row import DoctorRow, refuse
from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.onboarding.ci_file import find_source, parse_config
from gitlab_nightshift.onboarding.pipeline_rules import find_scheduled_jobs
from gitlab_nightshift.repository import git as git_verbs
from gitlab_nightshift.session import Session

MOST_ERRORS = 3
NO_FILE = "Please provide content of"
"""GitLab's error if the file on the default branch is missing or empty."""


def describe_pipeline(session: Session, project: Project) -> Iterator[DoctorRow]:
    """Check that GitLab accepts the default branch's file and that a schedule can start it."""
    branch = project.facts.default_branch
    name = f"{session.job.ci_config_path} of {branch}"
    if project.facts.empty:
        text = f"{project.facts.path} has no commit in GitLab yet: push the first one"
        yield refuse("pipeline", build_config_error(text))
        return
    found = project.ci_settings.check_pipeline_file()
    if found is None:
        text = f"this token may not have GitLab validate {name}"
        yield DoctorRow("pipeline", "not known", text)
        return
    if any(NO_FILE in error for error in found.errors):
        lack = find_missing_include(session) or f"{name} is not in GitLab: push it"
        yield refuse("pipeline", build_config_error(f"no pipeline starts: {lack}"))
        return
    if found.errors:
        why = "; ".join(found.errors[:MOST_ERRORS])
        text = f"no pipeline starts, because GitLab finds {name} invalid: {why}: fix it"
        yield refuse("pipeline", build_config_error(text))
        return
    config = parse_config(found.merged, name)
    yield _judge_workflow(find_scheduled_jobs(config, branch).excluded, name)


def _judge_workflow(excluded: bool | None, name: str) -> DoctorRow:
    if excluded:
        text = (
            f"the workflow rules of {name} keep scheduled pipelines from starting: add the rule"
            ' - if: $CI_PIPELINE_SOURCE == "schedule"'
        )
        return refuse("pipeline", build_config_error(text))
    if excluded is None:
        text = (
            f"{name} is valid; cannot see whether its workflow rules let a scheduled pipeline start"
        )
        return DoctorRow("pipeline", "not known", f"{text}, as they depend on other variables")
    return DoctorRow("pipeline", "ok", f"GitLab finds {name} valid, and schedules can start it")


def describe_job_token(session: Session, project: Project) -> Iterator[DoctorRow]:
    """Check that jobs may fetch this program from the project that the template names."""
    name, here = session.job.ci_config_path, project.facts
    data = git_verbs.read_file(session.git, session.checkout, "HEAD", name) or b""
    source = find_source(data.decode(errors="replace"), name, here.path)
    if not source or "://" in source:
        yield DoctorRow("job token", "ok", f"not needed: the program comes from {source or name}")
        return
    source = source.replace("$CI_PROJECT_ROOT_NAMESPACE", here.path.split("/")[0])
    allowed = source == here.path or project.setup.is_job_token_allowed(source, here)
    where = "there (Settings > CI/CD > Job token permissions)"
    if allowed is None:
        text = f"only a Maintainer of {source} can see {where} whether jobs may fetch the program"
        yield DoctorRow("job token", "not known", text)
    elif not allowed:
        text = f"jobs may not fetch the program from {source}: allow {here.path} {where}"
        yield DoctorRow("job token", "warn", text)
    else:
        text = f"jobs may fetch the program from {source}, if the schedule's owner may read it"
        yield DoctorRow("job token", "ok", text)
