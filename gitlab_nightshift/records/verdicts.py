"""What this program itself found out about a change, without trusting the agent."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from gitlab_nightshift.registry.flag_registry import Level

Decision = Literal["draft", "require_approval", "deny"]
"""A gate's decision about a file: publish a draft, wait for approval, refuse."""


@dataclass(frozen=True)
class Finding:
    """A red flag and its place. ``line`` is 0 for a whole file, ``file`` "" for the whole
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
    """The outcome of a check."""

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
    """A changed file for which the write gate has a decision; ``why`` continues the sentence that
    begins with its path."""

    path: str
    decision: Decision
    why: str

    def __str__(self) -> str:
        return f"{self.path} {self.why}."
