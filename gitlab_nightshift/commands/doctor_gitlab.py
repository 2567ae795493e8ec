"""``nightshift doctor`` in GitLab: the token, the project, the push rules, and whether the night's
pipeline starts and can fetch this program."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from gitlab_nightshift.commands.doctor_checkout import (
    DoctorRow,
    build_fail_row,
    find_missing_include,
    try_rows,
)
from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.gitlab.project import Project, find_matching_pattern
from gitlab_nightshift.gitlab.project_settings import CiVariable, Schedule
from gitlab_nightshift.job.job_secrets import TOKEN
from gitlab_nightshift.onboarding.pipeline_rules import (
    NightMarks,
    find_marks,
    find_scheduled_jobs,
    is_night,
)
from gitlab_nightshift.onboarding.project_files import find_source, parse_config
from gitlab_nightshift.repository.git import read_committed_file, read_identity
from gitlab_nightshift.run.comment_runs import find_project
from gitlab_nightshift.run.publishing import build_missing_token_error
from gitlab_nightshift.session import Session
from gitlab_nightshift.stages.plan.preflight import (
    ANY_TITLE,
    check_expiry,
    check_project_usable,
    check_protection,
    check_reviewers,
    list_refusals,
)
from gitlab_nightshift.stages.publish.branches import EXTREME_SLUGS
from gitlab_nightshift.stages.publish.merge_request import apply_commit_template
from gitlab_nightshift.stages.publish.publish_context import choose_author
from gitlab_nightshift.text.secret_texts import is_secret_name

ROLES = {40: "Maintainer", 50: "Owner"}
"""GitLab's access levels (lib/gitlab/access.rb)."""
_ENVIRONMENT = "nightshift"
"""The environment of the template's jobs that get the token."""
_MOST_NAMES = 5
"""Variables that one row names."""


def list_gitlab_rows(session: Session) -> Iterator[DoctorRow]:
    """The rows about GitLab; only the first if there is no token that GitLab accepts."""
    try:
        project = _open_project(session)
    except NightshiftError as error:
        yield build_fail_row("GitLab", error)
        return
    yield from try_rows("GitLab", lambda: _describe_access(session, project))
    yield from try_rows("token expiry", lambda: _describe_expiry(project))
    yield from try_rows("project", lambda: _describe_project(project))
    yield from try_rows("branches", lambda: _describe_branches(session, project))
    yield from try_rows("reviewer", lambda: _describe_reviewers(session, project))
    yield from try_rows("push rule", lambda: _describe_push_rule(session, project))
    yield from try_rows("pipeline", lambda: describe_pipeline(session, project))
    yield from try_rows("job token", lambda: describe_job_token(session, project))
    yield from try_rows("schedule", lambda: _describe_schedules(session, project))
    yield from try_rows("variables", lambda: _describe_variables(session, project))


def _open_project(session: Session) -> Project:
    """The project. Raises NightshiftError for a missing token: in a job a night would fail, on a
    person's machine less can be checked."""
    if project := find_project(session):
        return project
    if session.job.in_ci:
        raise build_missing_token_error()
    text = "is not set in this environment: with an api token more can be checked from here"
    raise build_config_error(f"{TOKEN} {text}")


def _describe_access(session: Session, project: Project) -> Iterator[DoctorRow]:
    access = project.check_access()
    role = "administrator" if access.level is None else ROLES.get(access.level, "Developer")
    text = f"{session.job.server_url} accepts {TOKEN}: {access.kind} of @{access.login}, {role}"
    if access.fine_grained:
        text += (
            "; it may read what nights read; a rehearsal shows whether it may write"
            " (NIGHTSHIFT_REHEARSE = true): it creates the night's label with this token"
        )
        yield DoctorRow("GitLab", "not known", text)
        return
    scopes = f", scopes {' '.join(access.scopes)}" if access.scopes else ""
    text += f"{scopes}; it may push branches and open merge requests"
    yield DoctorRow("GitLab", "ok", text)


def _describe_expiry(project: Project) -> Iterator[DoctorRow]:
    notes = check_expiry(project, datetime.now(UTC) + timedelta(days=1))  # at the next night
    day = project.check_access().expires_on
    text = f"{TOKEN} expires on {day}" if day else f"GitLab shows no expiry date for {TOKEN}"
    yield DoctorRow("token expiry", "warn" if notes else "ok", notes[0] if notes else text)


def _describe_project(project: Project) -> Iterator[DoctorRow]:
    project.check_version()
    check_project_usable(project)
    facts = project.facts
    text = f"{facts.path} ({facts.visibility}), default branch {facts.default_branch}"
    yield DoctorRow("project", "ok", text)


def _describe_branches(session: Session, project: Project) -> Iterator[DoctorRow]:
    # Raises for protected branches: they must not be. A note says that this is unknown.
    notes = check_protection(session.settings, project.list_protected_patterns())
    prefix = session.settings.branch_prefix
    ok_text = f"{prefix}… is not protected, so protected variables do not reach it"
    yield DoctorRow("branches", "not known" if notes else "ok", notes[0] if notes else ok_text)


def _describe_reviewers(session: Session, project: Project) -> Iterator[DoctorRow]:
    check_reviewers(session.settings, project)
    settings = session.settings
    if not settings.reviewer and not settings.reviewers:
        text = "nobody is asked to review: set reviewer, or merge requests may wait unread"
        yield DoctorRow("reviewer", "warn", text)
        return
    named = ", ".join(settings.named_reviewers) or "by the rules that reviewer names"
    yield DoctorRow("reviewer", "ok", named)


def _describe_push_rule(session: Session, project: Project) -> Iterator[DoctorRow]:
    # Push rules need Premium; on Free, GitLab answers as for a missing permission.
    rule = project.ci_settings.read_push_rule()
    if rule is None:
        text = "this token may not read it, or this GitLab tier has none"
        yield DoctorRow("push rule", "not known", text)
        return
    settings, access = session.settings, project.check_access()
    message = apply_commit_template(settings, "tests", ANY_TITLE, ANY_TITLE, session.job.run_id)
    identity = read_identity(session.machine_git, session.checkout)
    try:
        author = choose_author(session, project, identity)
        email = session.job.user_email
        refusals = list(
            list_refusals(rule, settings, author, access, message, email, EXTREME_SLUGS)
        )
    except re.error:
        yield DoctorRow("push rule", "not known", "only GitLab can evaluate its pattern")
        return
    except NightshiftError as error:
        if session.job.in_ci or session.settings.commit_author == "token":
            yield build_fail_row("commit author", error)
        else:  # git's identity counts, and a job's differs from this machine's
            text = "git has no name and e-mail here; a job uses those of the schedule's owner"
            yield DoctorRow("commit author", "not known", text)
        return
    for text in refusals:
        yield build_fail_row(
            "push rule", build_config_error(f"would refuse the night's push: {text}")
        )
    if not refusals:
        yield DoctorRow("push rule", "ok", "it allows what a night pushes")


def _describe_schedules(session: Session, project: Project) -> Iterator[DoctorRow]:
    schedules, name = project.ci_settings.list_schedules(), session.job.ci_config_path
    file = read_committed_file(session.git, session.checkout, "HEAD", name) or b""
    try:
        marks = find_marks(file.decode(errors="replace"), name)
    except NightshiftError:  # the row "pipeline" reports it
        marks = NightMarks()
    active = [(each, is_night(each, marks)) for each in schedules or () if each.active]
    nights = [schedule for schedule, starts_night in active if starts_night]
    if schedules is None:
        yield DoctorRow("schedule", "not known", "this token may not read the schedules")
    elif not nights and any(starts_night is None for _, starts_night in active):
        text = "cannot see whether one is for nights: only its owner and Maintainers see variables"
        yield DoctorRow("schedule", "not known", text)
    elif not nights:
        mark = "the variable NIGHTSHIFT = true"
        if project.can_set_variables() is False:
            mark = "the description that the include's input schedule_description names"
        text = (
            f"no active schedule is a night's: add one with {mark} (Build > Pipeline schedules), or"
            " start each night by hand"
        )
        yield DoctorRow("schedule", "warn", text)
    else:
        yield from (_describe_night(each) for each in nights)


def _describe_night(schedule: Schedule) -> DoctorRow:
    name = schedule.description or f"schedule {schedule.id}"
    if not schedule.owner_active:
        text = (
            f"{name}: its owner @{schedule.owner} is blocked or gone, so GitLab does not run it:"
            " have someone else take ownership"
        )
        return build_fail_row("schedule", build_config_error(text))
    return DoctorRow("schedule", "ok", f"{name}, on {schedule.ref}, of @{schedule.owner}")


def _describe_variables(session: Session, project: Project) -> Iterator[DoctorRow]:
    """The project's and its groups' variables; only administrators see those of the instance."""
    own = project.ci_settings.list_variables()
    if own is None:
        text = "this token may not read them (Maintainers may), so cannot see what branches get"
        yield DoctorRow("variables", "not known", text)
        return
    inherited = project.ci_settings.list_inherited_variables(project.facts.path)
    if inherited is None:
        text = "this GitLab does not show the variables of its groups"
        yield DoctorRow("variables", "not known", text)
    variables = (*own, *(inherited or ()))
    # A project's variable overrides a group's.
    if token := next((each for each in variables if each.key == TOKEN), None):
        yield _describe_token(token, session, project)
    else:
        where = "the project" if inherited is None else "the project or its groups"
        text = (
            f"no {TOKEN} in {where}, and without it a night opens no merge request: add it"
            " (Settings > CI/CD > Variables), masked, hidden and protected"
        )
        yield DoctorRow("variables", "warn", text)
    secrets = [each for each in variables if each.key != TOKEN and is_secret_name(each.key)]
    yield _describe_exposed([each for each in secrets if not each.protected and each.scope == "*"])


def _describe_exposed(exposed: Sequence[CiVariable]) -> DoctorRow:
    if not exposed:
        return DoctorRow("variables", "ok", "no secret reaches unprotected branches")
    names = [f"{v.key} of {v.group}" if v.group else v.key for v in exposed[:_MOST_NAMES]]
    more = f" and {len(exposed) - _MOST_NAMES} more" if len(exposed) > _MOST_NAMES else ""
    text = (
        f"{', '.join(names)}{more}: pipelines of every branch get these, even of a night's branch,"
        " whose code an agent wrote: protect them, or scope them to an environment"
    )
    return DoctorRow("variables", "warn", text)


def _describe_token(token: CiVariable, session: Session, project: Project) -> DoctorRow:
    name = f"{TOKEN} of {token.group}" if token.group else TOKEN
    branch = session.job.ref_name or project.facts.default_branch
    patterns = project.list_protected_patterns()
    # A scoped variable reaches the jobs of matching environments only, a protected one the
    # pipelines of protected branches and tags (docs.gitlab.com/ci/environments,
    # docs.gitlab.com/ci/variables).
    if not find_matching_pattern(_ENVIRONMENT, [token.scope]):
        text = f"{name} is scoped to the environment {token.scope}, which no night's job runs in"
        return build_fail_row(
            "variables", build_config_error(f"{text}: change the scope to {_ENVIRONMENT}*")
        )
    if token.protected and patterns is not None and not find_matching_pattern(branch, patterns):
        text = f"{name} is protected but the branch {branch} is not, so nights do not get it"
        return build_fail_row("variables", build_config_error(f"{text}: protect the branch"))
    if not token.masked:
        return DoctorRow("variables", "warn", f"{name} is not masked: mask it")
    if not token.protected and token.scope == "*":
        text = (
            f"{name} reaches every branch, even a night's, whose code an agent wrote: protect"
            f" it, or scope it to the environment {_ENVIRONMENT}"
        )
        return DoctorRow("variables", "warn", text)
    return DoctorRow("variables", "ok", f"{name} is masked and does not reach the nights' branches")


MOST_ERRORS = 3
NO_FILE = "Please provide content of"
"""GitLab's error if the file on the default branch is missing or empty."""


def describe_pipeline(session: Session, project: Project) -> Iterator[DoctorRow]:
    """Check that GitLab accepts the default branch's file and that a schedule can start it."""
    branch = project.facts.default_branch
    name = f"{session.job.ci_config_path} of {branch}"
    if project.facts.empty:
        text = f"{project.facts.path} has no commit in GitLab yet: push the first one"
        yield build_fail_row("pipeline", build_config_error(text))
        return
    validation = project.ci_settings.check_pipeline_file()
    if validation is None:
        text = f"this token may not have GitLab validate {name}"
        yield DoctorRow("pipeline", "not known", text)
        return
    if any(NO_FILE in error for error in validation.errors):
        missing = find_missing_include(session) or f"{name} is not in GitLab: push it"
        yield build_fail_row("pipeline", build_config_error(f"no pipeline starts: {missing}"))
        return
    if validation.errors:
        why = "; ".join(validation.errors[:MOST_ERRORS])
        text = f"no pipeline starts, because GitLab finds {name} invalid: {why}: fix it"
        yield build_fail_row("pipeline", build_config_error(text))
        return
    config = parse_config(validation.merged, name)
    yield _judge_workflow(find_scheduled_jobs(config, branch).excluded, name)


def _judge_workflow(excluded: bool | None, name: str) -> DoctorRow:
    if excluded:
        text = (
            f"the workflow rules of {name} keep scheduled pipelines from starting: add the rule"
            ' - if: $CI_PIPELINE_SOURCE == "schedule"'
        )
        return build_fail_row("pipeline", build_config_error(text))
    if excluded is None:
        text = (
            f"{name} is valid; cannot see whether its workflow rules let a scheduled pipeline"
            " start, as they depend on other variables"
        )
        return DoctorRow("pipeline", "not known", text)
    return DoctorRow("pipeline", "ok", f"GitLab finds {name} valid, and schedules can start it")


def describe_job_token(session: Session, project: Project) -> Iterator[DoctorRow]:
    """Check that jobs may fetch this program from the project that the template names."""
    # A job token reads another project if the job's project is on that project's allowlist
    # (docs.gitlab.com/ci/jobs/ci_job_token).
    name, facts = session.job.ci_config_path, project.facts
    file = read_committed_file(session.git, session.checkout, "HEAD", name) or b""
    source = find_source(file.decode(errors="replace"), name, facts.path)
    if not source or "://" in source:
        yield DoctorRow("job token", "ok", f"not needed: the program comes from {source or name}")
        return
    source = source.replace("$CI_PROJECT_ROOT_NAMESPACE", facts.path.split("/")[0])
    allowed = source == facts.path or project.setup.is_job_token_allowed(source, facts)
    where = "there (Settings > CI/CD > Job token permissions)"
    if allowed is None:
        text = f"only a Maintainer of {source} can see {where} whether jobs may fetch the program"
        yield DoctorRow("job token", "not known", text)
    elif not allowed:
        text = f"jobs may not fetch the program from {source}: allow {facts.path} {where}"
        yield DoctorRow("job token", "warn", text)
    else:
        text = f"jobs may fetch the program from {source}, if the schedule's owner may read it"
        yield DoctorRow("job token", "ok", text)
