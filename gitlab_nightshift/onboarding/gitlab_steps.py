"""The setup steps in GitLab. Each is shown before it is done, and skipped if it has been done."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.project_settings import (
    FLEET_SCHEDULE,
    CiVariable,
    NewSchedule,
    NewSecret,
    Schedule,
)
from gitlab_nightshift.gitlab.resources import Label
from gitlab_nightshift.job.job_secrets import MODEL_KEYS, TOKEN
from gitlab_nightshift.onboarding.pipeline_rules import NightMarks, is_night

NAME = "Night shift"
TOKEN_LIFETIME = timedelta(days=364)
"""GitLab refuses more than 365 days ("Expires at must expire in 365 days"), by default."""
AT_TWO = "0 2 * * "
"""The beginning of a cron line: 2:00 on every day that the last field names."""
_FORBIDDEN = (
    "GitLab takes no variables of schedules here: allow them (Settings > CI/CD > Variables >"
    " Minimum role to use pipeline variables), or set the input"
    f' `schedule_description: "{NAME}"` of the include, then run this command again'
)
# In crontab(5) the week begins with Sunday, 0.
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True)
class SetupRequest:
    """The setup to reach. ``scope`` is the environment scope of GITLAB_TOKEN, ``source`` the
    project that has the program; ``days`` are the weekdays of nights. By its ``marks`` the pipeline
    file recognizes their schedule. ``model_key`` is the name and value to store, ("", "") for none;
    ``labels`` are created. ``by_fleet``: the schedule is inactive and a fleet plays it."""

    scope: str
    source: str
    branch: str
    days: tuple[str, ...]
    timezone: str
    today: date
    marks: NightMarks
    model_key: tuple[str, str] = ("", "")
    labels: tuple[Label, ...] = ()
    by_fleet: bool = False


@dataclass(frozen=True)
class SetupStep:
    """A step. ``act`` does it, and returns what is left to do by hand, "" for nothing. ``act`` is
    None for a step that is done already, or that people have to do ``by_hand``."""

    name: str
    text: str
    act: Callable[[], str] | None = None
    by_hand: bool = False


def list_steps(project: Project, request: SetupRequest) -> Iterator[SetupStep]:
    """The steps. Each looks first at what exists."""
    variables = project.ci_settings.list_variables() or ()
    yield _plan_token(project, request, variables)
    yield _plan_model_key(project, request, variables)
    yield _plan_job_token(project, request)
    yield _plan_schedule(project, request)
    yield _plan_labels(project, request)


def _plan_token(
    project: Project, request: SetupRequest, variables: tuple[CiVariable, ...]
) -> SetupStep:
    if any(each.key == TOKEN for each in variables):
        return SetupStep("token", f"{TOKEN} exists")
    ends = request.today + TOKEN_LIFETIME
    text = (
        f"create a project access token (Developer, api and write_repository, until {ends}) and"
        f" store it as {TOKEN}: masked, hidden, protected, environments {request.scope}"
    )

    def carry_out() -> str:
        try:
            created = project.setup.create_token(NAME, ends)
        except ApiError as error:
            # GitLab.com has project access tokens on paid tiers only.
            if error.status not in (400, 403, 404) or error.remedy:
                raise
            return (
                f"GitLab refuses to create one ({error.reason}): add a service account (on all"
                " tiers: Settings > Service accounts of the top-level group) as Developer, and"
                f" store its token (scopes api, write_repository) as {TOKEN}: masked, hidden,"
                f" protected, environments {request.scope}"
            )
        try:
            text = describe_token(created.id, ends)
            project.setup.create_secret(NewSecret(TOKEN, created.value, request.scope, text))
        except BaseException:  # a signal too: a token that is not stored is lost
            project.setup.revoke_token(created.id)
            raise
        return ""

    return SetupStep("token", text, carry_out)


def describe_token(number: int, ends: date) -> str:
    """The description of the variable with an access token: it names the token, as the variable's
    value is hidden."""
    return f"access token {number}, until {ends}"


def find_described_token(description: str) -> int | None:
    """The token's number in a text by :func:`describe_token`; None for other texts."""
    found = re.match(r"access token (\d{1,18}), until ", description)
    return int(found[1]) if found else None


def _plan_model_key(
    project: Project, request: SetupRequest, variables: tuple[CiVariable, ...]
) -> SetupStep:
    if existing := next((each.key for each in variables if each.key in MODEL_KEYS), ""):
        return SetupStep("model key", f"{existing} exists")
    inherited = project.ci_settings.list_inherited_variables(project.facts.path) or ()
    if held := next((each for each in inherited if each.key in MODEL_KEYS), None):
        return SetupStep("model key", f"the group {held.group} has {held.key}")
    key, value = request.model_key
    if not key:
        text = (
            f"store your model key ({MODEL_KEYS[0]}): masked, hidden, protected; --model-key NAME"
            " stores the environment variable NAME"
        )
        return SetupStep("model key", text, by_hand=True)

    def carry_out() -> str:
        project.setup.create_secret(NewSecret(key, value))
        return ""

    return SetupStep(
        "model key", f"store {key} from your environment: masked, hidden, protected", carry_out
    )


def _plan_job_token(project: Project, request: SetupRequest) -> SetupStep:
    here, source = project.facts, request.source
    allowed = source == here.path or project.setup.is_job_token_allowed(source, here)
    if allowed:
        return SetupStep("job token", f"jobs may fetch the program from {source}")
    where = f"{source}: Settings > CI/CD > Job token permissions"
    if allowed is None:
        return SetupStep("job token", f"allow {here.path} in {where}", by_hand=True)

    def carry_out() -> str:
        project.setup.allow_job_token(source, here.id)
        return ""

    return SetupStep("job token", f"allow {here.path} in {where}", carry_out)


def _plan_schedule(project: Project, request: SetupRequest) -> SetupStep:
    schedules = project.ci_settings.list_schedules() or ()
    if night := _find_night(schedules, request):
        text = f"{night.description} exists{_describe_existing(project, night, request)}"
        return SetupStep("schedule", text)
    switched = project.can_set_variables() is not False
    if not switched and not request.marks.description:
        return SetupStep("schedule", _FORBIDDEN, by_hand=True)
    cron = AT_TWO + build_cron_days(request.days)
    name = request.marks.description
    if switched:
        name = choose_schedule_name(by_fleet=request.by_fleet)
    active = not request.by_fleet
    new = NewSchedule(name, request.branch, cron, request.timezone, switched, active)
    own_login = project.check_access().login
    # Created in two requests, the schedule and its variable: it is inactive until both succeeded.
    unfinished = [
        each.id
        for each in schedules
        if (each.description, each.owner, each.active) == (name, own_login, False)
    ]

    def carry_out() -> str:
        for each in unfinished:  # a killed try left it without its variable
            project.setup.delete_schedule(each)
        try:
            project.setup.create_schedule(new)
        except ApiError as error:
            if error.status != 403 or error.remedy:
                raise
            return f"{_FORBIDDEN} ({error.reason})"
        return ""

    text = f"create the schedule {name}: {cron} ({request.timezone}) on {request.branch}"
    mark = "with NIGHTSHIFT = true" if switched else "which its description makes a night"
    played = ", inactive: the fleet plays it" if request.by_fleet else ""
    return SetupStep("schedule", f"{text}, {mark}{played}", carry_out)


def choose_schedule_name(*, by_fleet: bool) -> str:
    """The description of a night's schedule, by which a fleet finds its own."""
    return FLEET_SCHEDULE if by_fleet else NAME


def _find_night(schedules: Iterable[Schedule], request: SetupRequest) -> Schedule | None:
    """A night's schedule. For a fleet, an inactive one counts only if it is the fleet's own."""
    nights = (each for each in schedules if is_night(each, request.marks))
    if request.by_fleet:
        nights = (each for each in nights if each.active or each.description == FLEET_SCHEDULE)
    return next(nights, None)


def _describe_existing(project: Project, night: Schedule, request: SetupRequest) -> str:
    if not request.by_fleet:
        return "" if night.active else " but inactive: activate it when nights should start"
    if night.active:
        return " and is active: the project starts its own nights, the fleet counts them"
    own = project.check_access().login
    return "" if night.owner == own else f", owned by {night.owner or 'nobody'}, not by {own}"


def _plan_labels(project: Project, request: SetupRequest) -> SetupStep:
    existing = project.setup.list_labels()
    missing = [each for each in request.labels if each.name not in existing]
    if not missing:
        return SetupStep("labels", "the merge requests' labels exist")

    def carry_out() -> str:
        return "; ".join(project.ensure_labels(missing))

    return SetupStep("labels", f"create {', '.join(each.name for each in missing)}", carry_out)


def build_cron_days(days: tuple[str, ...]) -> str:
    """The last field of cron for these weekdays; every day for none."""
    return ",".join(str(number) for number, day in enumerate(_DAYS) if day in days) or "*"
