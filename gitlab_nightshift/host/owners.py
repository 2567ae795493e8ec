"""Whose the checkout is: agents' own user gets it for a run, and its owners get it back.

Who owned what lies in the folder beside the checkout before the first owner changes, so that the
next start gives back what a killed run could not.
"""

import contextlib
from collections.abc import Callable, Iterator

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.host.aside import OWNERS, Aside
from gitlab_nightshift.host.paths import display
from gitlab_nightshift.host.sandbox import uid
from gitlab_nightshift.host.sandbox.ownership import Owners, give, owners_of, take_back
from gitlab_nightshift.host.sandbox.records import Identity
from gitlab_nightshift.host.signals import shield


class OwnersRefused(Exception):
    """The checkout cannot be another user's; the text is why, in one line."""


@contextlib.contextmanager
def given(aside: Aside, identity: Identity | None, warn: Callable[[str], None]) -> Iterator[None]:
    """The checkout is the user's within this block; nothing changes where there is none.

    Raises OwnersRefused where the file system does not let it be. ``warn`` is told where not all
    could be given back: then the next start tries again.
    """
    if identity is None:
        yield
        return
    try:
        with shield():
            _give(aside, identity)
        yield
    finally:
        with shield():
            gone = not uid.is_left(identity) or uid.sweep(identity)
            try:
                give_back(aside, gone=gone)
            except NightshiftError as error:
                warn(error.message)


def _give(aside: Aside, identity: Identity) -> None:
    note, part = aside.folder / OWNERS, aside.folder / f"{OWNERS}.part"
    try:
        owners = owners_of(aside.checkout, identity)
        part.write_text(owners.to_json())
        part.rename(note)
        give(aside.checkout, owners.user)
    except OSError as error:
        what = display(str(error.filename or aside.checkout))
        text = f"the owner of {what} in {aside.checkout} cannot be changed ({error.strerror})"
        raise OwnersRefused(text) from None


def give_back_after_kill(aside: Aside) -> None:
    """What ``given`` does at its end; nothing where nothing was given. Raises as that."""
    give_back(aside, gone=end_left(aside))


def end_left(aside: Aside) -> bool:
    """End what a killed run left of its agents' user; False where that cannot be done."""
    owners = _read(aside)
    return owners is None or uid.sweep_after_kill(*owners.user)


def give_back(aside: Aside, *, gone: bool) -> None:
    """Give every path its old owner, unless a process of the user is not ``gone``."""
    owners = _read(aside)
    if owners is None:
        return
    if not gone:
        raise _not_given_back(aside, f"processes of user {owners.user[0]} cannot be ended")
    try:
        take_back(aside.checkout, owners)
    except OSError as error:
        raise _not_given_back(aside, error.strerror or "unknown") from None
    (aside.folder / OWNERS).unlink()


def _read(aside: Aside) -> Owners | None:
    try:
        return Owners.from_json((aside.folder / OWNERS).read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _not_given_back(aside, f"the note of them is damaged: {error}") from None


def _not_given_back(aside: Aside, why: str) -> NightshiftError:
    text = (
        f"not all files in {aside.checkout} have their owners back ({why}):"
        f" give them back by chown, remove {aside.folder / OWNERS}, then start the job again"
    )
    return NightshiftError(Code.WORKSPACE_DIRTY, text)
