"""The guarantees of a sandbox as a run finds them, and what was tried against it.

Standard library alone: the proof runs in any Python of a machine.
"""

from dataclasses import dataclass
from enum import StrEnum


class GuaranteeState(StrEnum):
    """``partial``: the sandbox itself leaves something open; ``broken``: something got through
    that it promises to stop."""

    HELD = "held"
    PARTIAL = "partial"
    BROKEN = "broken"


@dataclass(frozen=True)
class Strength:
    """One guarantee (``files``, ``secrets``, ``network``, ``lifetime``) as it is on this machine:
    ``reason`` says what holds it, what is open, or what got through."""

    name: str
    state: GuaranteeState
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.state}: {self.reason}"


@dataclass(frozen=True)
class ProbeSummary:
    """Attempts at one thing: how many, what became of them, and how they ended."""

    title: str
    attempts: int
    state: GuaranteeState
    how: str
