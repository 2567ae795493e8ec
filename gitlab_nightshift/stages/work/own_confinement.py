"""Confines the process that runs agents, and chooses a sandbox that works within that."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.sandbox import self_confinement
from gitlab_nightshift.sandbox.confinement import ConfinementMode
from gitlab_nightshift.sandbox.launch import Sandbox
from gitlab_nightshift.sandbox.self_confinement import OwnConfinement, weaken_sandbox
from gitlab_nightshift.sandbox.supervised_process import forward_signals
from gitlab_nightshift.sandbox.tier_choice import UnavailableTier
from gitlab_nightshift.sandbox.tiers import Tier
from gitlab_nightshift.stages.work.work_context import WorkContext


class SandboxUnavailable(BaseException):
    """No sandbox works within this process's namespaces; the text says why. Neither a bug nor a
    result: the process has done nothing yet, and can be restarted without them."""


def confine_work(work_context: WorkContext, inputs: Mapping[str, Any]) -> WorkContext:
    """Confine this process as the supervisor chose; from then on it handles signals."""
    if not inputs.get("confined"):
        forward_signals()
        return work_context
    close_latch = functools.partial(os.write, inputs["latch"], b".")
    own = self_confinement.confine(inputs["confined"], forward_signals, close_latch)
    return dataclasses.replace(work_context, own=own)


def run_confined_step(step: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The step's answer, or ``unfit``: why it cannot run in this process's namespaces."""
    try:
        return step()
    except SandboxUnavailable as unfit:
        return {"unfit": str(unfit)}


def choose_sandbox(
    own: OwnConfinement | None,
    choice: Callable[..., Sandbox],
    unavailable: Sequence[UnavailableTier] = (),
) -> Sandbox:
    """The sandbox, with weaker guarantees if this process is not confined. Raises
    SandboxUnavailable.

    ``unavailable`` are tiers that are known not to work.
    """
    # A process with filesystem rules of Landlock may not mount (landlock(7)), so the tier that
    # mounts must not be chosen, although it would still work now, before they are in force.
    if own and own.mode is ConfinementMode.LANDLOCK:
        unavailable = (*unavailable, UnavailableTier(Tier.NAMESPACES, own.reason))
    choice = functools.partial(choice, unavailable=unavailable)
    if own is None:
        return choice()
    # Namespaces that are in force cannot be left again (setns(2) needs CAP_SYS_ADMIN in
    # those to return to), so if only a weaker tier works, the process must be started again.
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
