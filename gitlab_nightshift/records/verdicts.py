"""What this program found out about a change by itself, without believing the agent."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from gitlab_nightshift.registry.flag_registry import Level

Decision = Literal["draft", "require_approval", "deny"]
"""What a gate does with a file: shown in a draft, kept until somebody approves, refused."""


@dataclass(frozen=True)
class Finding:
    """A red flag at a place. ``line`` is 0 for a whole file, ``file`` "" for the whole change."""

    name: str
    level: Level
    file: str
    line: int
    detail: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.detail} [{self.name}]" if place else f"{self.detail} [{self.name}]"


class CheckOutcome(StrEnum):
    """What came of a check."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    NOT_CHECKED = "not_checked"


@dataclass(frozen=True)
class Check:
    """Something that was run or measured on a change; ``detail`` says what was seen, or why it
    could not be."""

    title: str
    outcome: CheckOutcome
    detail: str


@dataclass(frozen=True)
class GatedFile:
    """A changed file that the write gate does not simply let through; ``why`` goes on after its
    path."""

    path: str
    decision: Decision
    why: str

    def __str__(self) -> str:
        return f"{self.path} {self.why}."
