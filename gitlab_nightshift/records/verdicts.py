"""Findings of this program about a change: red flags, checks, decisions of the write gate. It makes
them itself and trusts no agent for them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from gitlab_nightshift.registry.flag_registry import Level

GateDecision = Literal["draft", "require_approval", "deny"]
"""The write gate about a file: publish a draft, wait for approval, refuse."""


@dataclass(frozen=True)
class Finding:
    """A red flag, and where it is: ``line`` is 0 for the whole file, ``file`` "" for the whole
    change."""

    name: str
    level: Level
    file: str
    line: int
    detail: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.detail} [{self.name}]" if place else f"{self.detail} [{self.name}]"


class CheckOutcome(StrEnum):
    """The outcome of a check. ``undecided``: it was done, but passes no judgement, as a figure
    without a limit; ``not_checked``: it could not be done."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    NOT_CHECKED = "not_checked"


@dataclass(frozen=True)
class Check:
    """A test or measurement of a change; ``detail`` is its result, or why it could not be done."""

    title: str
    outcome: CheckOutcome
    detail: str


@dataclass(frozen=True)
class GatedFile:
    """A changed file about which the write gate has decided; ``why`` continues a sentence that
    begins with the path."""

    path: str
    decision: GateDecision
    why: str

    def __str__(self) -> str:
        return f"{self.path} {self.why}."
