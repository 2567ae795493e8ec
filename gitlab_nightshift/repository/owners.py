"""Owners of the checkout: agents' own user gets it for a run, and its owners get it back.

Who owned what is written to the state folder before the first owner changes, so that the next
start gives back what a killed run could not.
"""

import contextlib
from collections.abc import Callable, Iterator

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.repository.state_folder import OWNERS, StateFolder
from gitlab_nightshift.sandbox import uid_tier
from gitlab_nightshift.sandbox.tiers import SandboxUser
from gitlab_nightshift.sandbox.tree_ownership import Owners, give, read_owners, take_back
from gitlab_nightshift.system.file_names import format_path
from gitlab_nightshift.system.signals import defer_signals


class OwnershipError(Exception):
    """The checkout cannot be another user's; the text is why, in one line."""


@contextlib.contextmanager
def give_checkout(
    state: StateFolder, identity: SandboxUser | None, warn: Callable[[str], None], *, leaving: bool
) -> Iterator[None]:
    """Make the checkout the user's during the block; nothing changes where there is no user.

    Raises OwnershipError where the file system refuses that. ``warn`` gets a line where not all
    could be given back: then the next start tries again. Unless it is ``leaving``, what was given
    is given back by whoever has taken the checkout.
    """
    if identity is None:
        yield
        return
    try:
        with defer_signals():
            _give(state, identity)
        yield
    except OwnershipError:
        leaving = True  # another way is tried
        raise
    finally:
        with defer_signals():
            gone = not uid_tier.is_left(identity) or uid_tier.kill_leftovers(identity)
            try:
                if leaving:
                    give_back(state, gone=gone)
            except NightshiftError as error:
                warn(error.message)


def _give(state: StateFolder, identity: SandboxUser) -> None:
    note, part = state.folder / OWNERS, state.folder / f"{OWNERS}.part"
    try:
        owners = read_owners(state.checkout, identity)
        part.write_text(owners.to_json())
        part.rename(note)
        give(state.checkout, owners.user)
    except OSError as error:
        what = format_path(str(error.filename or state.checkout))
        text = f"the owner of {what} in {state.checkout} cannot be changed ({error.strerror})"
        raise OwnershipError(text) from None


def give_back_after_kill(state: StateFolder) -> None:
    """The end of ``give_checkout``: nothing where nothing was given. Raises the same."""
    give_back(state, gone=end_left(state))


def end_left(state: StateFolder) -> bool:
    """End what a killed run left of its agents' user; False where that cannot be done."""
    owners = _read(state)
    return owners is None or uid_tier.clean_up_killed_run(*owners.user)


def give_back(state: StateFolder, *, gone: bool) -> None:
    """Give every path its old owner, unless a process of the user is not ``gone``."""
    owners = _read(state)
    if owners is None:
        return
    if not gone:
        raise _build_owners_error(state, f"processes of user {owners.user[0]} cannot be ended")
    try:
        take_back(state.checkout, owners)
    except OSError as error:
        raise _build_owners_error(state, error.strerror or "unknown") from None
    (state.folder / OWNERS).unlink()


def _read(state: StateFolder) -> Owners | None:
    try:
        return Owners.from_json((state.folder / OWNERS).read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise _build_owners_error(state, f"the note of them is damaged: {error}") from None


def _build_owners_error(state: StateFolder, why: str) -> NightshiftError:
    text = (
        f"not all files in {state.checkout} have their owners back ({why}):"
        f" give them back by chown, remove {state.folder / OWNERS}, then start the job again"
    )
    return NightshiftError(Code.WORKSPACE_DIRTY, text)
