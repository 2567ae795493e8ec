"""Complexity and benchmarks."""

import dataclasses
import importlib
from collections.abc import Sequence
from dataclasses import dataclass, fields

import pytest

from gitlab_nightshift.proof.evidence.evidence_records import Evidence, EvidenceSubject
from gitlab_nightshift.proof.evidence.measurements import Times, compare_complexity, run_benchmark
from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.proof.reviewed_change import Context
from gitlab_nightshift.proof.running.trial import TrialCheckout
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.verdicts import CheckOutcome
from gitlab_nightshift.settings.model import Settings
from tests.support.pairs import change_of
from tests.support.tables import each
from tests.support.tried import Tried

FLAT = "def size(n):\n    return n\n"
NESTED = "def size(n):\n" + "".join(
    f"    if n > {limit}:\n        return {limit}\n" for limit in range(9, 0, -1)
)
TABLE = "LIMITS = range(9, 0, -1)\n\n\ndef size(n):\n    return next(x for x in LIMITS if n > x)\n"
LINES = "".join(f"    step_{number}(n)\n" for number in range(8))


def twice(names: tuple[str, ...]) -> str:
    return "\n\n".join(f"def {name}(n):\n{LINES}" for name in names)


@each(
    ("before", "after", "category", "levels"),
    [
        (NESTED, TABLE, "refactoring", []),
        (FLAT, NESTED, "refactoring", ["fail"]),
        (FLAT, NESTED, "tests", ["warn"]),
        (twice(("a",)), twice(("a", "b")), "refactoring", ["fail"]),
        (FLAT, FLAT.replace("n)", "number)").replace("n\n", "number\n"), "refactoring", []),
    ],
)
def test_complexity(before: str, after: str, category: str, levels: list[str]) -> None:
    evidence = compare_complexity(build_subject({"shop.py": before}, {"shop.py": after}, category))
    (found,) = evidence.checks
    assert found.outcome is CheckOutcome.UNDECIDED
    assert found.detail.startswith("before: ")
    assert [finding.level for finding in evidence.findings] == levels


def build_subject(before: dict[str, str], after: dict[str, str], category: str) -> EvidenceSubject:
    return EvidenceSubject("", "", change_of(before, after), Context(Settings(), category))


def test_figures_count_only_product_code() -> None:
    subject = build_subject({"test_a.py": FLAT}, {"test_a.py": NESTED}, "refactoring")
    assert compare_complexity(subject).checks == ()


SLOW, QUICK = "SECONDS = 2.0\n", "SECONDS = 1.0\n"
BENCH = {"Makefile": "bench:\n\t@cat work.py\n"}


@dataclass(frozen=True)
class Stated(Runner):
    """Runs commands, and takes for their duration what they print: no machine decides here."""

    def run(
        self, argv: Sequence[str], log: str, *, at_most_s: float | None = None
    ) -> CommandResult:
        result = super().run(argv, log, at_most_s=at_most_s)
        if not result.ok:
            return result
        return dataclasses.replace(result, duration_s=float(self.read_tail(log).split(" = ")[1]))


def measure(subject: EvidenceSubject, trial_checkout: TrialCheckout) -> Evidence:
    runner = Stated(
        **{each.name: getattr(trial_checkout.runner, each.name) for each in fields(Runner)}
    )
    return run_benchmark(subject, dataclasses.replace(trial_checkout, runner=runner))


@pytest.mark.parametrize(
    ("before", "after", "seen_as", "flags"),
    [
        (SLOW, QUICK, CheckOutcome.PASSED, []),
        (QUICK, SLOW, CheckOutcome.FAILED, [("slower", "fail")]),
    ],
)
def test_a_benchmark_runs_before_and_after_the_change(
    tried: Tried, before: str, after: str, seen_as: CheckOutcome, flags: list[tuple[str, str]]
) -> None:
    files = {**BENCH, "work.py": before}
    with tried(files, {"work.py": after}, category="performance") as (subject, trial_checkout):
        evidence = measure(subject, trial_checkout)
    (found,) = evidence.checks
    assert found.outcome is seen_as, found
    ratio = float(after.rsplit(maxsplit=1)[-1]) / float(before.rsplit(maxsplit=1)[-1])
    assert f"`make bench` takes {ratio:.2f} of the time before" in found.detail
    assert "in 7 rounds)" in found.detail
    assert [(finding.name, finding.level) for finding in evidence.findings] == flags


def test_a_benchmark_that_the_change_adds(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there on both sides: only the product code is the old one before."""
    module = importlib.import_module("gitlab_nightshift.proof.evidence.measurements")
    monkeypatch.setattr(module, "ROUNDS", 3)
    bench = "import work\n\nprint('SECONDS =', work.SECONDS)\n"
    after = {"work.py": QUICK, "bench_work.py": bench}
    with tried({"work.py": SLOW}, after, category="performance") as (subject, trial_checkout):
        (found,) = measure(subject, trial_checkout).checks
    assert (found.outcome, "python3 bench_work.py" in found.detail) == (CheckOutcome.PASSED, True)


def test_the_time_of_the_whole_command_counts(
    tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("gitlab_nightshift.proof.evidence.measurements")
    monkeypatch.setattr(module, "ROUNDS", 3)
    files = {**BENCH, "work.py": SLOW}
    with tried(files, {"work.py": QUICK}, category="performance") as (subject, trial_checkout):
        (found,) = run_benchmark(subject, trial_checkout).checks
    assert "`make bench` takes " in found.detail
    assert "in 3 rounds)" in found.detail


@pytest.mark.parametrize(
    ("files", "after", "why"),
    [
        ({"work.py": SLOW}, {"work.py": QUICK}, "there is no benchmark"),
        ({**BENCH, "work.py": SLOW}, {"README.md": "x"}, "no product code is changed"),
        (
            {"Makefile": "bench:\n\t@grep -q SECONDS work.py\n", "work.py": "x = 1\n"},
            {"work.py": QUICK},
            "`make bench` ended with exit 2 on the code before",
        ),
    ],
)
def test_without_measurements_the_check_says_why(
    tried: Tried, files: dict[str, str], after: dict[str, str], why: str
) -> None:
    with tried(files, after, category="performance") as (subject, trial_checkout):
        (found,) = run_benchmark(subject, trial_checkout).checks
    assert (found.outcome, found.detail) == (
        CheckOutcome.NOT_CHECKED,
        f"nothing was measured: {why}",
    )


def test_the_spread_is_that_of_the_rounds() -> None:
    times = Times((1.0, 2.0, 4.0), (0.5, 2.0, 3.0))
    assert (times.ratio, times.spread) == (1.0, (0.5, 1.0))
