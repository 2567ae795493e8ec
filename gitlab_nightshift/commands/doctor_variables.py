"""What ``nightshift doctor`` sees of CI/CD variables: the token, and secrets that get out."""

from collections.abc import Iterator, Sequence

from gitlab_nightshift.commands.doctor_row import DoctorRow, refuse
from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.gitlab.branch_protection import find_protecting_pattern
from gitlab_nightshift.gitlab.ci_settings import CiVariable
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.job.job_secrets import TOKEN
from gitlab_nightshift.session import Session
from gitlab_nightshift.text.secret_texts import is_secret_name

ENVIRONMENT = "nightshift"
"""Of the template's jobs that have the token."""
MOST_NAMES = 5


def describe_variables(session: Session, project: Project) -> Iterator[DoctorRow]:
    """The project's variables and its groups'; an instance's are shown to administrators alone."""
    own = project.ci_settings.list_variables()
    if own is None:
        text = "this token may not read them (Maintainers may), so cannot see what branches get"
        yield DoctorRow("variables", "not known", text)
        return
    inherited = project.ci_settings.list_inherited_variables(project.facts.path)
    if inherited is None:
        yield DoctorRow(
            "variables", "not known", "this GitLab does not show the variables of its groups"
        )
    found = (*own, *(inherited or ()))
    tokens = [each for each in found if each.key == TOKEN]
    if not tokens:
        yield _describe_missing_token(inherited is None)
    for each in tokens[:1]:  # a project's own goes before a group's
        yield _describe_token(each, session, project)
    yield _describe_exposed([each for each in found if each.key != TOKEN and _is_exposed(each)])


def _describe_missing_token(unsure: bool) -> DoctorRow:
    where = "the project" if unsure else "the project or its groups"
    text = (
        f"no {TOKEN} in {where}, and without it a night opens no merge request: add it"
        " (Settings > CI/CD > Variables), masked, hidden and protected"
    )
    return DoctorRow("variables", "warn", text)


def _is_exposed(variable: CiVariable) -> bool:
    return is_secret_name(variable.key) and not variable.protected and variable.scope == "*"


def _describe_exposed(exposed: Sequence[CiVariable]) -> DoctorRow:
    if not exposed:
        return DoctorRow("variables", "ok", "no secret reaches unprotected branches")
    names = [f"{v.key} of {v.group}" if v.group else v.key for v in exposed[:MOST_NAMES]]
    more = f" and {len(exposed) - MOST_NAMES} more" if len(exposed) > MOST_NAMES else ""
    text = (
        f"{', '.join(names)}{more}: pipelines of every branch get these, even of a night's branch,"
        " whose code an agent wrote: protect them, or scope them to an environment"
    )
    return DoctorRow("variables", "warn", text)


def _describe_token(token: CiVariable, session: Session, project: Project) -> DoctorRow:
    name = f"{TOKEN} of {token.group}" if token.group else TOKEN
    branch = session.job.ref_name or project.facts.default_branch
    patterns = project.list_protected_patterns()
    if not find_protecting_pattern(ENVIRONMENT, [token.scope]):
        text = f"{name} is scoped to the environment {token.scope}, which no night's job runs in"
        return refuse(
            "variables", build_config_error(f"{text}: change the scope to {ENVIRONMENT}*")
        )
    if token.protected and patterns is not None and not find_protecting_pattern(branch, patterns):
        text = f"{name} is protected but the branch {branch} is not, so nights do not get it"
        return refuse("variables", build_config_error(f"{text}: protect the branch"))
    if not token.masked:
        return DoctorRow("variables", "warn", f"{name} is not masked: mask it")
    if not token.protected and token.scope == "*":
        text = (
            f"{name} reaches every branch, even a night's, whose code an agent wrote: protect"
            f" it, or scope it to the environment {ENVIRONMENT}"
        )
        return DoctorRow("variables", "warn", text)
    return DoctorRow("variables", "ok", f"{name} is masked and does not reach the nights' branches")
