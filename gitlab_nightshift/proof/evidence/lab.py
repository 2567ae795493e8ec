"""Where a change is tried: variants of its tree, and commands in the checkout."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.proof.reviewed_change import Changeset, Context
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.verdicts import Check, Finding
from gitlab_nightshift.repository.blobs import write_modified_tree
from gitlab_nightshift.repository.checkout import Checkout

LEAST_S = 600.0
"""What the proof may take besides the commands themselves, where these take less."""


@dataclass(frozen=True)
class EvidenceSubject:
    """A change between two trees. ``claim`` is Analyze's description of it, "" without one."""

    base: str
    tree: str
    change: Changeset
    context: Context
    claim: str = ""


@dataclass(frozen=True)
class NoticedFault:
    """A planted fault, and the reported names of the touched tests that fail with it and the
    change, none where these do not notice it. ``by_value``: it makes a value wrong."""

    by_value: bool
    tests: frozenset[str]


@dataclass(frozen=True)
class Evidence:
    """What running showed, and the red flags that only running raises. ``proven`` are new tests
    (path, qualified name) that fail on the old code or notice faults; ``canaries`` are planted
    faults by the reported name of each test that noticed them before, and whether any does
    still; ``noticed`` are the same faults by what notices them with the change."""

    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()
    proven: tuple[tuple[str, str], ...] = ()
    canaries: tuple[tuple[str, bool | None], ...] = ()
    noticed: tuple[NoticedFault, ...] = ()

    def __add__(self, other: "Evidence") -> "Evidence":
        return Evidence(
            (*self.checks, *other.checks),
            (*self.findings, *other.findings),
            (*self.proven, *other.proven),
            (*self.canaries, *other.canaries),
            (*self.noticed, *other.noticed),
        )


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

    def compute_left_s(self) -> float:
        """Seconds left for evidence."""
        return self.deadline - time.monotonic()

    def build_variant(self, tree: str, files: Mapping[str, bytes | None]) -> str:
        """Build a tree with some files replaced or removed (None), and return its id. Paths are
        raw."""
        return write_modified_tree(self.checkout.repository, tree, files)

    def run(
        self, tree: str, argv: tuple[str, ...], log: str, at_most_s: float | None = None
    ) -> CommandResult:
        """Restore the checkout to this tree, and run a command in it."""
        self.checkout.apply_tree(tree)
        left = max(self.compute_left_s(), 1.0)
        at_most = left if at_most_s is None else min(left, at_most_s)
        return self.runner.run(argv, f"{self.name}-{log}", at_most_s=at_most)

    def read_output(self, log: str) -> str:
        """The end of a run's output."""
        return self.runner.read_tail(f"{self.name}-{log}")


def compute_deadline(wanted_s: float | None, usual_s: float, left_s: float | None) -> float:
    """When the proof has to be done: after ``wanted_s`` seconds, else after the larger of ten
    minutes and three times the ``usual_s`` of the commands; half of what is left of the run at
    most, as a Verify and an MR bead follow."""
    time_s = wanted_s or max(LEAST_S, usual_s * 3)
    return time.monotonic() + (time_s if left_s is None else min(time_s, left_s / 2))
