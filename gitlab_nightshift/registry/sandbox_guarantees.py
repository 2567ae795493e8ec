"""The guarantees of a sandbox as a run measures them, and the attacks that were tried on it.

Standard library only: the proof runs in any Python of a machine.
"""

from dataclasses import dataclass
from enum import StrEnum


class GuaranteeState(StrEnum):
    """``partial``: the sandbox leaves something open by design;
    ``broken``: an attack that it should stop succeeded."""

    HELD = "held"
    PARTIAL = "partial"
    BROKEN = "broken"


@dataclass(frozen=True)
class Strength:
    """How far a guarantee holds (``files``, ``secrets``, ``network``, ``lifetime``): ``reason`` is
    what enforces it, what it leaves open, or which attack succeeded."""

    name: str
    state: GuaranteeState
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.state}: {self.reason}"


@dataclass(frozen=True)
class ProbeSummary:
    """The attempts at one attack; ``how`` tells how they ended."""

    title: str
    attempts: int
    state: GuaranteeState
    how: str
