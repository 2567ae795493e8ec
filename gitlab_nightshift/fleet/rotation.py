"""A project's night token is replaced before it ends: create, store, verify, then revoke.

Nothing is kept between runs. The variable's description names the token that it holds, so a run
that was killed anywhere is continued by the next one: until the new token is in the variable the
old one works, and afterwards only tokens that the variable does not name are revoked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Literal

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.access import parse_day
from gitlab_nightshift.gitlab.api_error import call_or_none
from gitlab_nightshift.gitlab.ci_settings import CiVariable
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.project_setup import HeldToken, NewSecret
from gitlab_nightshift.job.job_secrets import TOKEN
from gitlab_nightshift.onboarding.gitlab_steps import (
    LASTS,
    NAME,
    describe_token,
    find_described_token,
)

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

WITHIN = timedelta(days=14)
State = Literal["rotated", "revoked", "kept", "waits", "not ours"]


@dataclass(frozen=True)
class Rotation:
    """What became of a project's token. ``rotated``: a new one is in the variable, ``revoked``:
    only tokens that an earlier run had left were taken back, ``kept``: nothing was due, ``waits``:
    a night is running, ``not ours``: the variable holds no token that this program has made."""

    state: State
    text: str


@dataclass(frozen=True)
class _Held:
    """The variable, and the project's tokens of our name that were not revoked; ``stored`` is the
    one that the variable is known to hold."""

    variable: CiVariable
    tokens: Sequence[HeldToken]
    stored: HeldToken | None

    @property
    def left(self) -> tuple[HeldToken, ...]:
        """Working tokens beside the stored one, of a run that was killed."""
        known = self.stored and self.stored.active
        return tuple(t for t in self.tokens if known and t.active and t is not self.stored)

    def is_due(self, today: date) -> bool:
        """Whether the stored token ends soon, or has ended; of several the first one counts where
        the variable does not say which it holds."""
        asked = [self.stored] if self.stored else self.tokens
        return any(not each.active or _ends_soon(each, today) for each in asked)


def rotate_token(project: Project, today: date, *, dry_run: bool = False) -> Rotation:
    """Replace the token if it ends within two weeks and no night is running.

    Raises ApiError, and ``E_PUBLISH`` where the new token does not do what the old one did: it is
    taken back then, and the old one stays.
    """
    held = _read_held(project)
    if isinstance(held, Rotation):
        return held
    due = held.is_due(today)
    if not (due or held.left):
        return Rotation("kept", f"until {held.stored.ends_on if held.stored else 'later'}")
    if _is_night_running(project):
        return Rotation("waits", "a night is running")
    if dry_run:
        return Rotation("kept", "would be rotated" if due else f"would revoke {len(held.left)}")
    if not due:
        return Rotation("revoked", _revoke(project, held.left))
    return _replace(project, held, today)


def describe_own_end(client: "Client", today: date) -> str:
    """A sentence where the command's own token ends soon, which nobody else replaces; "" where it
    does not, or GitLab does not say."""
    path = "/personal_access_tokens/self"
    found = call_or_none(lambda: client.read_object(path), 400, 403, 404) or {}
    ends = parse_day(found.get("expires_at"))
    if ends is None or ends > today + WITHIN:
        return ""
    return f"This command's own GITLAB_TOKEN ends on {ends}: replace it by hand."


def _read_held(project: Project) -> _Held | Rotation:
    own = [v for v in project.ci_settings.list_variables() or () if v.key == TOKEN]
    if len(own) != 1:
        text = f"{len(own)} variables {TOKEN}" if own else f"no variable {TOKEN} of its own"
        return Rotation("not ours", text)
    made = [t for t in project.setup.list_tokens() if t.name == NAME and not t.revoked]
    if not made:
        return Rotation("not ours", f"no project access token {NAME!r}: {TOKEN} is another's")
    number = find_described_token(own[0].description)
    stored = next((t for t in made if t.id == number), made[0] if len(made) == 1 else None)
    return _Held(own[0], made, stored)


def _replace(project: Project, held: _Held, today: date) -> Rotation:
    ends = today + LASTS
    made = project.setup.create_token(NAME, ends)
    secret = NewSecret(TOKEN, made.value, held.variable.scope, describe_token(made.id, ends))
    try:
        project.with_token(made.value).check_access()
    except BaseException:  # a signal, too: nothing holds the new token yet
        project.setup.revoke_token(made.id)
        raise
    # Not taken back from here on: the variable may hold it although the answer was lost.
    project.setup.replace_secret(secret)
    _verify_stored(project, secret)
    if _is_night_running(project):  # it began before the new token was stored, and has the old one
        return Rotation("rotated", f"until {ends}; the old one is revoked after tonight's night")
    return Rotation("rotated", f"until {ends}; {_revoke(project, held.tokens)}")


def _verify_stored(project: Project, secret: NewSecret) -> None:
    """A hidden value cannot be read back: GitLab writes it and its description together."""
    found = project.ci_settings.list_variables() or ()
    if not any(v.key == TOKEN and v.description == secret.description for v in found):
        text = f"{TOKEN} was not stored: the old token stays"
        raise NightshiftError(Code.PUBLISH, text)


def _revoke(project: Project, tokens: Sequence[HeldToken]) -> str:
    working = [each for each in tokens if each.active]
    for each in working:
        project.setup.revoke_token(each.id)
    return f"{len(working)} older revoked" if working else "the older one had ended"


def _is_night_running(project: Project) -> bool:
    return bool(project.list_night_jobs())


def _ends_soon(token: HeldToken, today: date) -> bool:
    return token.ends_on is not None and token.ends_on <= today + WITHIN
