"""gitlab-nightshift: one small, proven merge request a night, or none, with the reason.

A bead is one step of a night for which an agent is started: Analyze, Implement, Verify, MR.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not imported from typing, which would take 6 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__version__ = "0.1.0"
"""Also the version of the built package (pyproject.toml)."""


def delegate(payload: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    """Run one delegated task: see ``gitlab_nightshift.api.delegate``, which is imported lazily."""
    from importlib import import_module

    result: dict[str, Any] = import_module("gitlab_nightshift.api").delegate(payload, env)
    return result
