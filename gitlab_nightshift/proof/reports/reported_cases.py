"""The content of a test runner's report: which tests ran, how often, with what outcome."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class CaseOutcome(StrEnum):
    """The outcome of a test. An expected failure counts as skipped: it proves nothing."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class ReportedCase:
    """One run of a test. ``name`` is its place (file, class), then its name without parameters:
    ``tests/test_cart.py::TestCart::test_total``."""

    name: str
    outcome: CaseOutcome


@dataclass(frozen=True)
class Collection:
    """The tests that a command ran: how often, by name and outcome. ``unknown`` is why they are not
    known."""

    command: str
    counts: Mapping[str, Counter[CaseOutcome]] = field(default_factory=dict)
    unknown: str = ""

    def count_cases(self, *outcomes: CaseOutcome) -> int:
        """How many tests had one of these outcomes; all tests if none is named."""
        return sum(
            number
            for times in self.counts.values()
            for outcome, number in times.items()
            if not outcomes or outcome in outcomes
        )

    def count_run(self, name: str) -> int:
        """How often a test ran to its end."""
        times = self.counts.get(name, Counter())
        return times[CaseOutcome.PASSED] + times[CaseOutcome.FAILED]


def build_collection(command: str, cases: Iterable[ReportedCase]) -> Collection:
    """Count cases that may come from several reports of one command."""
    counts: dict[str, Counter[CaseOutcome]] = {}
    for case in cases:
        counts.setdefault(case.name, Counter())[case.outcome] += 1
    return Collection(command, counts)
