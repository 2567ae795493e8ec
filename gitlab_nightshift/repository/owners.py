"""Owners of the checkout's files: during a run they belong to the agents' own user, then to the old
owners again.

The old owners are written to the state folder before the first change, so that the next start can
restore them after a kill.
"""

import contextlib
from collections.abc import Callable, Iterator

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.codec import InvalidRecordError, decode_record, encode_record
from gitlab_nightshift.repository.state_folder import OWNERS, StateFolder
from gitlab_nightshift.sandbox import uid_tier
from gitlab_nightshift.sandbox.tiers import SandboxUser
from gitlab_nightshift.sandbox.uid_tier import Owners, give, read_owners, take_back
from gitlab_nightshift.system.file_names import format_path
from gitlab_nightshift.system.signals import defer_signals


class OwnershipError(Exception):
    """The checkout cannot be given to another user; the text says why, in one line."""


@contextlib.contextmanager
def give_checkout(
    state: StateFolder, user: SandboxUser | None, warn: Callable[[str], None], *, give_back: bool
) -> Iterator[None]:
    """Give the checkout to a user during the block; does nothing without a user.

    With ``give_back`` it is given back at the end, otherwise by the process that prepared the
    checkout. ``warn`` gets a line if not everything could be given back: the next start tries
    again. Raises OwnershipError if the file system refuses.
    """
    if user is None:
        yield
        return
    try:
        with defer_signals():
            _give(state, user)
        yield
    except OwnershipError:
        give_back = True  # the caller tries a tier without another user
        raise
    finally:
        with defer_signals():
            # First: a live process of the user could recreate files that were restored.
            all_ended = not uid_tier.has_leftovers(user) or uid_tier.kill_leftovers(user)
            try:
                if give_back:
                    restore_owners(state, all_ended=all_ended)
            except NightshiftError as error:
                warn(error.message)


def _give(state: StateFolder, user: SandboxUser) -> None:
    file, new_file = state.folder / OWNERS, state.folder / f"{OWNERS}.part"
    try:
        owners = read_owners(state.checkout, user)
        new_file.write_bytes(encode_record(owners))
        new_file.rename(file)  # complete or absent, whenever this process is killed (rename(2))
        give(state.checkout, owners.user)
    except OSError as error:
        what = format_path(str(error.filename or state.checkout))
        text = f"the owner of {what} in {state.checkout} cannot be changed ({error.strerror})"
        raise OwnershipError(text) from None


def restore_owners_after_kill(state: StateFolder) -> None:
    """Restore the owners if a killed run had given the checkout to its agents' user. Raises
    NightshiftError ``E_WORKSPACE_DIRTY``."""
    restore_owners(state, all_ended=kill_leftovers(state))


def kill_leftovers(state: StateFolder) -> bool:
    """Kill processes of a killed run that belong to its agents' user; False if that fails."""
    owners = _read_owners_file(state)
    return owners is None or uid_tier.clean_up_killed_run(*owners.user)


def restore_owners(state: StateFolder, *, all_ended: bool) -> None:
    """Give every path back to its old owner, if the user's processes have ``all_ended``. Raises
    NightshiftError ``E_WORKSPACE_DIRTY``."""
    owners = _read_owners_file(state)
    if owners is None:
        return
    if not all_ended:
        raise _build_owners_error(state, f"processes of user {owners.user[0]} cannot be ended")
    try:
        take_back(state.checkout, owners)
    except OSError as error:
        raise _build_owners_error(state, error.strerror or "unknown") from None
    (state.folder / OWNERS).unlink()


def _read_owners_file(state: StateFolder) -> Owners | None:
    try:
        return decode_record(Owners, (state.folder / OWNERS).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, InvalidRecordError) as error:
        raise _build_owners_error(
            state, f"the list of the old owners cannot be read: {error}"
        ) from None


def _build_owners_error(state: StateFolder, why: str) -> NightshiftError:
    text = (
        f"not all files in {state.checkout} have their owners back ({why}):"
        f" give them back by chown, remove {state.folder / OWNERS}, then start the job again"
    )
    return NightshiftError(Code.WORKSPACE_DIRTY, text)
