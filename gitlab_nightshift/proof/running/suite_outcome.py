"""The outcome of one test run: its exit status, and the tests in the runner's report."""

from collections.abc import Sequence
from dataclasses import dataclass

from gitlab_nightshift.proof.proof_commands import CommandRun
from gitlab_nightshift.proof.reports.reported_cases import CaseOutcome
from gitlab_nightshift.proof.syntax.single_test import Test


@dataclass(frozen=True)
class SuiteOutcome:
    """``red``: the exit status is not 0; ``ended`` is False if this program ended the run.
    ``failed`` and ``ran`` are reported tests; some runners name only those that failed. ``unknown``
    is why there is no report."""

    red: bool
    ended: bool = True
    failed: frozenset[str] = frozenset()
    ran: frozenset[str] = frozenset()
    unknown: str = ""
    duration_s: float = 0.0

    @property
    def noticed(self) -> bool:
        """True if a fault was noticed: by the exit status and the report."""
        return self.ended and self.red and bool(self.failed or self.unknown)

    @property
    def disagrees(self) -> bool:
        """True for failed tests with exit status 0."""
        return self.ended and bool(self.failed) and not self.red


def read_outcome(runs: Sequence[CommandRun]) -> SuiteOutcome:
    """The outcome of commands that ran one after the other."""
    failed: set[str] = set()
    ran: set[str] = set()
    for run in runs:
        for name, times in run.collection.counts.items():
            if times[CaseOutcome.FAILED]:
                failed.add(name)
            if times[CaseOutcome.FAILED] or times[CaseOutcome.PASSED]:
                ran.add(name)
    why = "; ".join(run.collection.unknown for run in runs if run.collection.unknown)
    return SuiteOutcome(
        red=any(not run.result.ok for run in runs),
        ended=not any(run.result.error for run in runs),
        failed=frozenset(failed),
        ran=frozenset(ran),
        unknown=why,
        duration_s=sum(run.result.duration_s for run in runs),
    )


def is_reported_as(name: str, test: Test) -> bool:
    """True if a reported name (``tests/test_a.py::TestA::test_b``, ``pkg::TestA/row``,
    ``a.test.js::suite title``, ``com.shop.CartTest::total``) is this test."""
    last = name.rpartition("::")[2]
    return (
        last == test.name
        or last.startswith(f"{test.name}/")
        or last.endswith((f" {test.name}", f".{test.name}", f"/{test.name}"))
    )
