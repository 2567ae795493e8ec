"""How a process that runs agents drops the rights that it does not need."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

from gitlab_nightshift.sandbox import self_confinement
from gitlab_nightshift.sandbox.supervised_process import forward_signals
from gitlab_nightshift.stages.work.sandbox_fit import SandboxUnavailable
from gitlab_nightshift.stages.work.work_context import WorkContext


def confine_work(work_context: WorkContext, inputs: Mapping[str, Any]) -> WorkContext:
    """Confine this process as the supervisor chose; from then on it handles signals."""
    if not inputs.get("confined"):
        forward_signals()
        return work_context
    close_latch = functools.partial(os.write, inputs["latch"], b".")
    own = self_confinement.confine(inputs["confined"], forward_signals, close_latch)
    return dataclasses.replace(work_context, own=own)


def tell_unfit(step: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The step's answer, or ``unfit``: why it cannot run in this process's namespaces."""
    try:
        return step()
    except SandboxUnavailable as unfit:
        return {"unfit": str(unfit)}
