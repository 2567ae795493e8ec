"""The setup steps in GitLab. Each is shown before it is taken, and skipped if nothing is to do."""

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
"""The name of the access token, and the description of the schedule."""
TOKEN_LIFETIME = timedelta(days=364)
"""GitLab refuses more than 365 days ("Expires at must expire in 365 days"), by default."""
CRON_AT_TWO = "0 2 * * "
"""Every day at 2:00, to be completed by the weekdays."""
_VARIABLES_FORBIDDEN = (
    "GitLab takes no variables of schedules here: allow them (Settings > CI/CD > Variables >"
    " Minimum role to use pipeline variables), or set the input"
    f' `schedule_description: "{NAME}"` of the include, then run this command again'
)
# In crontab(5) the week begins with Sunday, 0.
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True)
class SetupRequest:
    """What to set up. ``scope`` is the environment scope of GITLAB_TOKEN, ``source`` the project
    that has the program; ``branch``, ``days`` (weekdays) and ``timezone`` are the schedule's, and
    by its ``marks`` the pipeline file recognizes it. ``model_key`` is the name and value to store,
    ("", "") for none; ``labels`` are created. ``by_fleet``: the schedule is inactive, and a fleet
    plays it."""

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
    """A step. ``act`` takes it, and returns what is left to do by hand, "" for nothing; it is None
    if nothing is to do, or people have to do it ``by_hand``."""

    name: str
    text: str
    act: Callable[[], str] | None = None
    by_hand: bool = False


def list_steps(project: Project, request: SetupRequest) -> Iterator[SetupStep]:
    """The steps, each after a look at what exists."""
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
    expires_on = request.today + TOKEN_LIFETIME
    text = (
        "create a project access token (Developer, api and write_repository, until"
        f" {expires_on}) and store it as {TOKEN}: masked, hidden, protected, environments"
        f" {request.scope}"
    )

    def carry_out() -> str:
        try:
            created = project.setup.create_token(NAME, expires_on)
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
            description = describe_token(created.id, expires_on)
            secret = NewSecret(TOKEN, created.value, request.scope, description)
            project.setup.create_secret(secret)
        except BaseException:  # also for a signal: nobody would know the token's value
            project.setup.revoke_token(created.id)
            raise
        return ""

    return SetupStep("token", text, carry_out)


def describe_token(token_id: int, expires_on: date) -> str:
    """The description of the variable that has the access token: the value is hidden, so this is
    how to find the token later."""
    return f"access token {token_id}, until {expires_on}"


def parse_token_id(description: str) -> int | None:
    """The token's id in a text by :func:`describe_token`; None for other texts."""
    match = re.match(r"access token (\d{1,18}), until ", description)
    return int(match[1]) if match else None


def _plan_model_key(
    project: Project, request: SetupRequest, variables: tuple[CiVariable, ...]
) -> SetupStep:
    if existing := next((each.key for each in variables if each.key in MODEL_KEYS), ""):
        return SetupStep("model key", f"{existing} exists")
    inherited = project.ci_settings.list_inherited_variables(project.facts.path) or ()
    if group_key := next((each for each in inherited if each.key in MODEL_KEYS), None):
        return SetupStep("model key", f"the group {group_key.group} has {group_key.key}")
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

    text = f"store {key} from your environment: masked, hidden, protected"
    return SetupStep("model key", text, carry_out)


def _plan_job_token(project: Project, request: SetupRequest) -> SetupStep:
    facts, source = project.facts, request.source
    allowed = source == facts.path or project.setup.is_job_token_allowed(source, facts)
    if allowed:
        return SetupStep("job token", f"jobs may fetch the program from {source}")
    text = f"allow {facts.path} in {source}: Settings > CI/CD > Job token permissions"
    if allowed is None:  # the token may not read the permissions
        return SetupStep("job token", text, by_hand=True)

    def carry_out() -> str:
        project.setup.allow_job_token(source, facts.id)
        return ""

    return SetupStep("job token", text, carry_out)


def _plan_schedule(project: Project, request: SetupRequest) -> SetupStep:
    schedules = project.ci_settings.list_schedules() or ()
    if night := _find_night(schedules, request):
        text = f"{night.description} exists{_describe_existing(project, night, request)}"
        return SetupStep("schedule", text)
    with_variable = project.can_set_variables() is not False
    if not with_variable and not request.marks.description:
        return SetupStep("schedule", _VARIABLES_FORBIDDEN, by_hand=True)
    cron = CRON_AT_TWO + build_cron_days(request.days)
    name = request.marks.description
    if with_variable:
        name = choose_schedule_name(by_fleet=request.by_fleet)
    active = not request.by_fleet
    new = NewSchedule(name, request.branch, cron, request.timezone, with_variable, active)
    login = project.check_access().login
    # The schedule and its variable are created in two requests; it is inactive until both succeed.
    unfinished = [
        each.id
        for each in schedules
        if each.description == name and each.owner == login and not each.active
    ]

    def carry_out() -> str:
        for schedule_id in unfinished:  # left by a setup that was killed between the requests
            project.setup.delete_schedule(schedule_id)
        try:
            project.setup.create_schedule(new)
        except ApiError as error:
            if error.status != 403 or error.remedy:
                raise
            return f"{_VARIABLES_FORBIDDEN} ({error.reason})"
        return ""

    text = f"create the schedule {name}: {cron} ({request.timezone}) on {request.branch}"
    mark = "with NIGHTSHIFT = true" if with_variable else "which its description makes a night"
    inactive = ", inactive: the fleet plays it" if request.by_fleet else ""
    return SetupStep("schedule", f"{text}, {mark}{inactive}", carry_out)


def choose_schedule_name(*, by_fleet: bool) -> str:
    """The description of a new schedule; a fleet recognizes its own by it."""
    return FLEET_SCHEDULE if by_fleet else NAME


def _find_night(schedules: Iterable[Schedule], request: SetupRequest) -> Schedule | None:
    """An existing schedule of nights. For a fleet, an inactive one must be the fleet's own."""
    nights = (each for each in schedules if is_night(each, request.marks))
    if request.by_fleet:
        nights = (each for each in nights if each.active or each.description == FLEET_SCHEDULE)
    return next(nights, None)


def _describe_existing(project: Project, night: Schedule, request: SetupRequest) -> str:
    if not request.by_fleet:
        return "" if night.active else " but inactive: activate it when nights should start"
    if night.active:
        return " and is active: the project starts its own nights, the fleet counts them"
    login = project.check_access().login
    return "" if night.owner == login else f", owned by {night.owner or 'nobody'}, not by {login}"


def _plan_labels(project: Project, request: SetupRequest) -> SetupStep:
    existing = project.setup.list_labels()
    missing = [each for each in request.labels if each.name not in existing]
    if not missing:
        return SetupStep("labels", "the merge requests' labels exist")

    def carry_out() -> str:
        return "; ".join(project.ensure_labels(missing))

    return SetupStep("labels", f"create {', '.join(each.name for each in missing)}", carry_out)


def build_cron_days(days: tuple[str, ...]) -> str:
    """The last field of a cron line for these weekdays; no weekdays mean every day."""
    return ",".join(str(number) for number, day in enumerate(_DAYS) if day in days) or "*"
