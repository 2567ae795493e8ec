"""Chooses a sandbox for agents that works within this process's own confinement."""

import functools
from collections.abc import Callable, Sequence

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.sandbox.confinement import ConfinementMode
from gitlab_nightshift.sandbox.launch import Sandbox
from gitlab_nightshift.sandbox.self_confinement import OwnConfinement, weaken_sandbox
from gitlab_nightshift.sandbox.tier_choice import UnavailableTier
from gitlab_nightshift.sandbox.tiers import Tier


class SandboxUnavailable(BaseException):
    """No sandbox works within this process's namespaces; the text says why. Neither a bug nor a
    result: the process has done nothing yet, and can be restarted without them."""


def fit(
    own: OwnConfinement | None,
    choice: Callable[..., Sandbox],
    known: Sequence[UnavailableTier] = (),
) -> Sandbox:
    """The sandbox, with weaker guarantees if this process is not confined. Raises
    SandboxUnavailable.

    ``known`` are tiers that do not work.
    """
    # A process with filesystem rules of Landlock may not mount (landlock(7)), so the tier that
    # mounts must not be chosen, although it would still work now, before they are in force.
    if own and own.mode is ConfinementMode.LANDLOCK:
        known = (*known, UnavailableTier(Tier.NAMESPACES, own.why))
    choice = functools.partial(choice, known=known)
    if own is None:
        return choice()
    if own.mode is ConfinementMode.NAMESPACES:
        try:
            sandbox = choice()
        except NightshiftError as error:
            raise SandboxUnavailable(error.message) from None
        if sandbox.tier is not Tier.NAMESPACES:
            raise SandboxUnavailable(
                next((why for _, why in sandbox.passed_over), "agents get none")
            )
        return weaken_sandbox(sandbox, own)
    return weaken_sandbox(choice(), own)
