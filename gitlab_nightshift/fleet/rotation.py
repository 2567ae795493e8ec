"""Rotate a project's night token before it expires: create, store, verify, then revoke the old one.

No state is kept between runs: the variable's description names the token in it. The next run
therefore continues one that was killed at any point. The old token works until the variable has the
new one, and only tokens that the variable does not name are revoked.
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
    find_described_token,
)

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

WITHIN = timedelta(days=14)
"""A token that ends within this time is due."""
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
        # Without knowing the stored one, any of them may be it.
        known = self.stored and self.stored.active
        return tuple(t for t in self.tokens if known and t.active and t is not self.stored)

    def is_due(self, today: date) -> bool:
        """True if the stored token has expired or will soon. If it is unknown which is stored, any
        of the tokens counts."""
        candidates = [self.stored] if self.stored else self.tokens
        ends = (each.expires_on if each.active else today for each in candidates)
        return any(day is not None and day <= today + WITHIN for day in ends)


def rotate_token(project: Project, today: date, *, dry_run: bool = False) -> Rotation:
    """Replace the token if it expires within two weeks and no night is running.

    Raises ApiError, and an error if the new token lacks rights: then it is revoked, and the old one
    stays.
    """
    current = _read_token_state(project)
    if isinstance(current, Rotation):
        return current
    due = current.is_due(today)
    if not (due or current.leftovers):
        return Rotation("kept", f"until {current.stored.expires_on if current.stored else 'later'}")
    if _is_night_running(project):
        return Rotation("waits", "a night is running")
    if dry_run:
        return Rotation(
            "kept", "would be rotated" if due else f"would revoke {len(current.leftovers)}"
        )
    if not due:
        return Rotation("revoked", _revoke(project, current.leftovers))
    return _replace(project, current, today)


def describe_own_end(client: "Client", today: date) -> str:
    """A warning if the command's own token expires soon, which is not rotated; "" if not, or if
    that is unknown."""
    path = "/personal_access_tokens/self"
    found = call_or_none(lambda: client.read_object(path), 400, 403, 404) or {}
    ends = parse_day(found.get("expires_at"))
    if ends is None or ends > today + WITHIN:
        return ""
    return f"This command's own GITLAB_TOKEN ends on {ends}: replace it by hand."


def _read_token_state(project: Project) -> _TokenState | Rotation:
    own = [v for v in project.ci_settings.list_variables() or () if v.key == TOKEN]
    if len(own) != 1:
        text = f"{len(own)} variables {TOKEN}" if own else f"no variable {TOKEN} of its own"
        return Rotation("not ours", text)
    created = [t for t in project.setup.list_tokens() if t.name == NAME and not t.revoked]
    if not created:
        return Rotation("not ours", f"no project access token {NAME!r}: {TOKEN} is another's")
    number = find_described_token(own[0].description)
    stored = next((t for t in created if t.id == number), created[0] if len(created) == 1 else None)
    return _TokenState(own[0], created, stored)


def _replace(project: Project, current: _TokenState, today: date) -> Rotation:
    ends = today + TOKEN_LIFETIME
    created = project.setup.create_token(NAME, ends)
    # The scope selects the variable to change: another one of this name may have another scope.
    secret = NewSecret(
        TOKEN, created.value, current.variable.scope, describe_token(created.id, ends)
    )
    try:
        project.with_token(created.value).check_access()
    except BaseException:  # a signal too: the new token is not stored yet
        project.setup.revoke_token(created.id)
        raise
    # Not revoked from here on: if the answer is lost, the variable may have the new token.
    project.setup.replace_secret(secret)
    _verify_stored(project, secret)
    if _is_night_running(project):  # it started with the old token
        return Rotation("rotated", f"until {ends}; the old one is revoked after tonight's night")
    return Rotation("rotated", f"until {ends}; {_revoke(project, current.tokens)}")


def _verify_stored(project: Project, secret: NewSecret) -> None:
    """Check the description: GitLab stores it together with the value, which cannot be read
    back."""
    found = project.ci_settings.list_variables() or ()
    if not any(v.key == TOKEN and v.description == secret.description for v in found):
        text = f"{TOKEN} was not stored: the old token stays"
        raise NightshiftError(Code.PUBLISH, text)


def _revoke(project: Project, tokens: Sequence[ProjectToken]) -> str:
    working = [each for each in tokens if each.active]
    for each in working:
        project.setup.revoke_token(each.id)
    return f"{len(working)} older revoked" if working else "the older one had ended"


def _is_night_running(project: Project) -> bool:
    return bool(project.list_night_jobs())
