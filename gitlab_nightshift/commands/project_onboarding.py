"""``nightshift init --gitlab`` and ``--merge-request``: sets the project up in GitLab."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from gitlab_nightshift.commands.doctor_gitlab import MOST_ERRORS, list_gitlab_rows
from gitlab_nightshift.commands.init_records import ProjectExamination, format_line
from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.job.job_secrets import MODEL_KEYS
from gitlab_nightshift.onboarding.gitlab_steps import SetupRequest, SetupStep, list_steps
from gitlab_nightshift.onboarding.onboarding_request import (
    BRANCH,
    OnboardingFacts,
    describe_rehearsal,
    open_onboarding,
    render_description,
)
from gitlab_nightshift.onboarding.pipeline_rules import find_marks, find_merge_request_jobs
from gitlab_nightshift.onboarding.project_files import (
    THREE_JOBS,
    find_shape,
    has_rehearsal,
    parse_config,
)
from gitlab_nightshift.run.comment_runs import find_project
from gitlab_nightshift.run.publishing import read_checkout_facts
from gitlab_nightshift.session import Session
from gitlab_nightshift.settings.config_file import FILE_NAME
from gitlab_nightshift.stages.publish.merge_request import list_usual_labels
from gitlab_nightshift.text.gitlab_refusals import TOKEN_RIGHTS

HIDDEN_ROWS = ("GitLab", "token expiry", "pipeline")
"""Rows of ``doctor`` that the merge request does not show: they are about this command's token, not
the nights', and about the pipeline file before the change."""
REHEARSED_FILES = {FILE_NAME, ".gitlab-ci.yml"}
"""The template rehearses a merge request that changes one of these files."""
NIGHT_ENVIRONMENTS = "nightshift*"
"""The environments of the jobs that get the token, in the shape with three jobs."""


def open_for_setup(session: Session, model_key: str) -> Project:
    """Open the project, and check all that the setup needs before it changes something. Raises
    ``E_CONFIG`` for a token that is missing or not a Maintainer's, and for a wrong model key."""
    if model_key and model_key not in MODEL_KEYS:
        raise build_config_error(f"--model-key: {model_key} is not one of {', '.join(MODEL_KEYS)}")
    if model_key and not session.env.get(model_key):
        raise build_config_error(f"--model-key: this environment has no {model_key}")
    project = _find_project(session)
    if project is None:
        text = (
            "GITLAB_TOKEN is not set in this environment: set it to a Maintainer's token, scope api"
        )
        raise build_config_error(text)
    if project.ci_settings.list_variables() is None:
        text = (
            f"GITLAB_TOKEN is not a Maintainer's: setting up {project.facts.path} needs one with"
            " the scope api"
        )
        raise build_config_error(text)
    return project


def _find_project(session: Session) -> Project | None:
    """The project, with the token's rights checked; None without a token. The error for a rejected
    token names the role that the setup needs, which is higher than a night's."""
    try:
        return find_project(session)
    except NightshiftError as error:
        text = error.message.replace(TOKEN_RIGHTS, "role Maintainer, scope api")
        raise NightshiftError(error.code, text) from None


def set_up_gitlab(examination: ProjectExamination, project: Project) -> Iterator[str]:
    """Take the steps and yield their lines; open the merge request last. Raises NightshiftError."""
    yield from _check_pipeline(examination, project)
    to_do = [f"tests: {examination.to_do}"] if examination.to_do else []
    for step in list_steps(project, _build_setup_request(examination)):
        remaining = step.text if step.by_hand else ""
        yield format_line("by hand" if step.by_hand else step.name, step.text)
        if step.act and not examination.request.dry_run:
            remaining = _take_step(step)
            yield format_line("by hand" if remaining else "done", remaining or step.name)
        if remaining:
            to_do.append(f"{step.name}: {remaining}")
    if examination.request.merge_request:
        yield from _open_merge_request(examination, project, to_do)


def _take_step(step: SetupStep) -> str:
    """Take the step, and return what is left to do by hand. An error names GitLab's remedy."""
    assert step.act
    try:
        return step.act()
    except ApiError as error:
        remedy = f" ({error.remedy.text})" if error.remedy else ""
        raise NightshiftError(error.code, f"{step.name}: {error.message}{remedy}") from None


def _check_pipeline(examination: ProjectExamination, project: Project) -> Iterator[str]:
    """Raise ``E_CONFIG`` if GitLab would reject the file, before anything is set up."""
    project.check_version()
    file = examination.files[-1]
    validation = project.ci_settings.check_pipeline_text(file.text)
    if validation is None:
        yield format_line("not known", f"whether GitLab will accept {file.name}")
        return
    examination.merged_config = validation.merged
    if validation.errors:
        why = "; ".join(validation.errors[:MOST_ERRORS])
        raise build_config_error(f"GitLab would reject {file.name}: {why}")
    yield format_line("pipeline", f"GitLab accepts the new {file.name}")


def _build_setup_request(examination: ProjectExamination) -> SetupRequest:
    session, key = examination.session, examination.request.model_key
    file = examination.files[-1]
    return SetupRequest(
        scope=NIGHT_ENVIRONMENTS if find_shape(file.text, file.name) == THREE_JOBS else "*",
        source=examination.source,
        branch=examination.branch,
        days=tuple(session.settings.category_schedule),
        timezone=session.settings.timezone,
        today=datetime.now(UTC).date(),
        model_key=(key, session.env.get(key, "")),
        labels=list_usual_labels(session.settings),
        marks=find_marks(file.text, file.name),
        by_fleet=examination.request.by_fleet,
    )


def _open_merge_request(
    examination: ProjectExamination, project: Project, to_do: list[str]
) -> Iterator[str]:
    """Open the merge request with the changed files; with ``--dry-run`` show its description."""
    session = examination.session
    files = {
        each.name: (each.text, each.before is None) for each in examination.files if each.is_changed
    }
    if not files:
        text = "the default branch has both files already: no merge request"
        yield format_line("unchanged", text)
        return
    rows = [row for row in list_gitlab_rows(session) if row.name not in HIDDEN_ROWS]
    facts = OnboardingFacts(
        tried=examination.tried,
        rows=tuple((row.name, row.state, row.text) for row in rows),
        first_night=_describe_first_night(examination),
        to_do=tuple(to_do),
        versions=examination.versions,
        rehearsal=_describe_rehearsal(examination) if files.keys() & REHEARSED_FILES else "",
        can_set_variables=project.can_set_variables() is not False,
    )
    description = session.redact(render_description(facts))
    if examination.request.dry_run:
        yield format_line("would open", f"a merge request:\n\n{description}")
        return
    base = read_checkout_facts(session).base_sha
    merge_request = open_onboarding(project, base, files, (facts.title, description))
    yield format_line("next", f"read and merge {merge_request.web_url}")


def _describe_rehearsal(examination: ProjectExamination) -> str:
    """A sentence on how the template's rehearsal will show whether a night can start; "" if the
    file has no rehearsal."""
    file = examination.files[-1]
    if not has_rehearsal(file.text, file.name):
        return ""
    # With all includes, if GitLab has shown them: they may have workflow rules.
    config = parse_config(examination.merged_config or file.before or "", file.name)
    jobs = find_merge_request_jobs(config, BRANCH, examination.branch)
    return describe_rehearsal(jobs, file.name, "this and every later merge request")


def _describe_first_night(examination: ProjectExamination) -> str:
    """The first night's category, and how much of the project it may change."""
    facts, settings = read_checkout_facts(examination.session), examination.session.settings
    night = ""
    for number in range(1, 8):
        day = datetime.now(UTC) + timedelta(days=number)
        if category := settings.category_schedule.get(day.strftime("%a").lower()):
            night = f"{day:%A} looks for {category}: "
            break
    recent = len(set(facts.recent_files) & set(facts.files)) if facts.recent_files_enforced else 0
    share = f"{len(facts.files) - recent} of {len(facts.files)} files may change"
    why = f"; files of the last {settings.avoid_recent_commits} commits are left alone"
    return f"{night}{share}{why if recent else ''}."
