"""This program's own findings about a change: red flags, checks, decisions of the write gate. No
agent contributes to them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from gitlab_nightshift.registry.flag_registry import Level

GateDecision = Literal["draft", "require_approval", "deny"]
"""What the write gate does about a file: publish a draft, wait for approval, refuse."""


@dataclass(frozen=True)
class Finding:
    """A red flag. ``line`` is 0 for the whole file, ``file`` "" for the whole change."""

    name: str
    level: Level
    file: str
    line: int
    detail: str

    def __str__(self) -> str:
        text = f"{self.detail} [{self.name}]"
        location = f"{self.file}:{self.line}" if self.line else self.file
        return f"{location}: {text}" if location else text


class CheckOutcome(StrEnum):
    """The outcome of a check. ``undecided``: a figure without a limit, which neither passes nor
    fails; ``not_checked``: the check could not be done."""

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
    """A changed file, and the write gate's decision. ``why`` continues a sentence that begins with
    the path."""

    path: str
    decision: GateDecision
    why: str

    def __str__(self) -> str:
        return f"{self.path} {self.why}."
