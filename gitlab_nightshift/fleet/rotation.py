"""Rotate a project's night token before it expires: create, store, verify, then revoke the old one.

The only state is the variable's description, which names the token in it. The next run therefore
continues a run that was killed at any point. The old token works until the variable has the new
one, and only tokens that the variable does not name are revoked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Literal

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.accounts import parse_day
from gitlab_nightshift.gitlab.api_error import call_or_none
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.project_settings import CiVariable, NewSecret, ProjectToken
from gitlab_nightshift.job.job_secrets import TOKEN
from gitlab_nightshift.onboarding.gitlab_steps import (
    NAME,
    TOKEN_LIFETIME,
    describe_token,
    parse_token_id,
)

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

DUE_WITHIN = timedelta(days=14)
"""A token that expires within this time is replaced."""
State = Literal["rotated", "revoked", "kept", "waits", "not ours"]


@dataclass(frozen=True)
class Rotation:
    """The result for a project. ``rotated``: the variable has a new token; ``revoked``: only
    leftovers of an earlier run were revoked; ``kept``: nothing was due; ``waits``: a night is
    running; ``not ours``: this program did not create the variable's token."""

    state: State
    text: str


@dataclass(frozen=True)
class _TokenState:
    """The variable, and this program's tokens that are not revoked; ``stored`` is the one in the
    variable, None if unknown."""

    variable: CiVariable
    tokens: Sequence[ProjectToken]
    stored: ProjectToken | None

    @property
    def leftovers(self) -> tuple[ProjectToken, ...]:
        """Active tokens besides the stored one, created by a run that was killed."""
        if not (self.stored and self.stored.active):  # any of them may be the stored one
            return ()
        return tuple(token for token in self.tokens if token.active and token is not self.stored)

    def is_due(self, today: date) -> bool:
        """True if the stored token has expired or will soon. If it is unknown which token is
        stored, any of them counts."""
        candidates = [self.stored] if self.stored else self.tokens
        days = (token.expires_on if token.active else today for token in candidates)
        return any(day is not None and day <= today + DUE_WITHIN for day in days)


def rotate_token(project: Project, today: date, *, dry_run: bool = False) -> Rotation:
    """Replace the token if it expires within two weeks and no night is running.

    Raises ApiError, and an error if the new token lacks rights: then it is revoked, and the old one
    stays.
    """
    current = _read_token_state(project)
    if isinstance(current, Rotation):
        return current
    due = current.is_due(today)
    leftovers = current.leftovers
    if not (due or leftovers):
        return Rotation("kept", f"until {current.stored.expires_on if current.stored else 'later'}")
    if _is_night_running(project):
        return Rotation("waits", "a night is running")
    if dry_run:
        return Rotation("kept", "would be rotated" if due else f"would revoke {len(leftovers)}")
    if not due:
        return Rotation("revoked", _revoke(project, leftovers))
    return _replace(project, current, today)


def describe_own_expiry(client: "Client", today: date) -> str:
    """A warning if the command's own token, which is not rotated, expires soon; "" if not, or if
    that is unknown."""
    path = "/personal_access_tokens/self"
    token = call_or_none(lambda: client.read_object(path), 400, 403, 404) or {}
    day = parse_day(token.get("expires_at"))
    if day is None or day > today + DUE_WITHIN:
        return ""
    return f"This command's own GITLAB_TOKEN ends on {day}: replace it by hand."


def _read_token_state(project: Project) -> _TokenState | Rotation:
    variables = [each for each in project.ci_settings.list_variables() or () if each.key == TOKEN]
    if len(variables) != 1:
        count = f"{len(variables)} variables {TOKEN}"
        text = count if variables else f"no variable {TOKEN} of its own"
        return Rotation("not ours", text)
    listed = project.setup.list_tokens()
    tokens = [each for each in listed if each.name == NAME and not each.revoked]
    if not tokens:
        return Rotation("not ours", f"no project access token {NAME!r}: {TOKEN} is another's")
    token_id = parse_token_id(variables[0].description)
    stored = next((each for each in tokens if each.id == token_id), None)
    if stored is None and len(tokens) == 1:
        stored = tokens[0]
    return _TokenState(variables[0], tokens, stored)


def _replace(project: Project, current: _TokenState, today: date) -> Rotation:
    expires_on = today + TOKEN_LIFETIME
    created = project.setup.create_token(NAME, expires_on)
    # The scope selects the variable to change: another one with this name may have another scope.
    description = describe_token(created.id, expires_on)
    secret = NewSecret(TOKEN, created.value, current.variable.scope, description)
    try:
        project.with_token(created.value).check_access()
    except BaseException:  # also for a signal: the new token is not stored yet
        project.setup.revoke_token(created.id)
        raise
    # Not revoked from here on: if the answer is lost, the variable may have the new token.
    project.setup.replace_secret(secret)
    _verify_stored(project, secret)
    if _is_night_running(project):  # it started with the old token
        old = "the old one is revoked after tonight's night"
    else:
        old = _revoke(project, current.tokens)
    return Rotation("rotated", f"until {expires_on}; {old}")


def _verify_stored(project: Project, secret: NewSecret) -> None:
    """Check the description: GitLab stores it together with the value, which cannot be read
    back."""
    variables = project.ci_settings.list_variables() or ()
    if not any((each.key, each.description) == (TOKEN, secret.description) for each in variables):
        text = f"{TOKEN} was not stored: the old token stays"
        raise NightshiftError(Code.PUBLISH, text)


def _revoke(project: Project, tokens: Sequence[ProjectToken]) -> str:
    active = [token for token in tokens if token.active]
    for token in active:
        project.setup.revoke_token(token.id)
    return f"{len(active)} older revoked" if active else "the older one had ended"


def _is_night_running(project: Project) -> bool:
    return bool(project.list_night_jobs())
