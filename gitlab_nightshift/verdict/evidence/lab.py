"""Where a change is tried: states of its tree, and commands in the checkout."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.host.checkout import Checkout
from gitlab_nightshift.host.variants import tree_with
from gitlab_nightshift.records import Check, CommandResult, Finding
from gitlab_nightshift.verdict.change import Change, Context
from gitlab_nightshift.verdict.commands import Runner

SHARE = 0.15
"""The part of the time left that may go into evidence, besides the commands themselves."""
LONGEST_S = 300.0


@dataclass(frozen=True)
class Subject:
    """A change between two trees. ``claim`` is what Analyze said of it, "" where nobody did."""

    base: str
    tree: str
    change: Change
    context: Context
    claim: str = ""


@dataclass(frozen=True)
class Evidence:
    """What was seen, and the red flags that only running raises."""

    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()

    def __add__(self, other: "Evidence") -> "Evidence":
        return Evidence((*self.checks, *other.checks), (*self.findings, *other.findings))


@dataclass(frozen=True)
class Lab:
    """``commands`` are those that test the whole project and passed; ``name`` begins the names of
    log files; ``deadline`` is a time of ``time.monotonic``."""

    checkout: Checkout
    runner: Runner
    commands: tuple[str, ...]
    name: str
    deadline: float

    @property
    def folder(self) -> Path:
        """The checkout."""
        return self.checkout.path

    def left_s(self) -> float:
        """Seconds that evidence may still take."""
        return self.deadline - time.monotonic()

    def variant(self, tree: str, files: Mapping[str, bytes | None]) -> str:
        """The id of a tree with some files replaced or removed (None). Paths are raw."""
        return tree_with(self.checkout.repository, tree, files)

    def run(
        self, tree: str, argv: tuple[str, ...], log: str, at_most_s: float | None = None
    ) -> CommandResult:
        """Run a command in the checkout put back, with that tree in it."""
        self.checkout.lay_tree(tree)
        left = max(self.left_s(), 1.0)
        at_most = left if at_most_s is None else min(left, at_most_s)
        return self.runner.run(argv, f"{self.name}-{log}", at_most_s=at_most)

    def output(self, log: str) -> str:
        """The end of what a run printed."""
        return self.runner.tail(f"{self.name}-{log}")


def deadline(left_s: float | None) -> float:
    """When evidence has to be there: a share of what is left of the run, at most five minutes."""
    share = LONGEST_S if left_s is None else min(left_s * SHARE, LONGEST_S)
    return time.monotonic() + share


Gather = Callable[[Subject, Lab], Evidence]
