"""Gathers all evidence from running a change, and settles the findings from reading it: those that
running refutes become checks."""

from collections.abc import Callable, Iterator, Sequence, Set

from gitlab_nightshift.proof.evidence.collected_runs import compare_collections
from gitlab_nightshift.proof.evidence.evidence_records import Evidence, EvidenceSubject
from gitlab_nightshift.proof.evidence.measurements import compare_complexity, run_benchmark
from gitlab_nightshift.proof.proof_commands import CommandRun
from gitlab_nightshift.proof.reports.report_readers import CollectedTests
from gitlab_nightshift.proof.reports.report_request import build_text_reader
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries
from gitlab_nightshift.proof.running.canaries import try_canaries
from gitlab_nightshift.proof.running.changed_tests import evaluate_new_tests, run_old_tests
from gitlab_nightshift.proof.running.trial import (
    Trial,
    TrialCheckout,
    is_any_reported,
    is_reported_as,
)
from gitlab_nightshift.proof.syntax.definitions import Test
from gitlab_nightshift.proof.syntax.file_side import read_sides
from gitlab_nightshift.records.verdicts import Check, CheckOutcome, Finding

Gather = Callable[[EvidenceSubject, TrialCheckout], Evidence]
BY_CATEGORY: dict[str, tuple[Gather, ...]] = {
    "refactoring": (compare_complexity,),
    "performance": (run_benchmark,),
}
"""Additional checks by category."""


def gather_evidence(
    subject: EvidenceSubject,
    trial_checkout: TrialCheckout,
    before: Sequence[CollectedTests],
    runs: Sequence[CommandRun],
    base: BaseCanaries,
    from_reading: Sequence[Finding],
) -> Evidence:
    """Everything that running shows of a change until the deadline of the trial's checkout.

    ``before`` are the tests that ran on the base, ``runs`` the commands on the change, ``base`` the
    cache of canaries. Those of the findings ``from_reading`` that are not refuted are in
    the result, beside the findings from running. Does not restore the checkout. Raises GitError,
    OSError.
    """
    # Canaries first: they may excuse tests that are gone, and prove new ones.
    canaries = try_canaries(subject, trial_checkout, before, runs, base)
    excused = list_excused(subject, runs, canaries)
    evidence = compare_collections(subject, before, runs, excused) + canaries
    read = build_text_reader(trial_checkout.checkout.repository, subject.base)
    evidence += evaluate_new_tests(subject, Trial(trial_checkout, read, "new"), canaries.noticed)
    evidence += run_old_tests(subject, Trial(trial_checkout, read, "old"))
    for gather in BY_CATEGORY.get(subject.context.category, ()):
        evidence += gather(subject, trial_checkout)
    kept, refuted = settle_findings(subject, from_reading, evidence)
    return Evidence((*evidence.checks, *refuted), (*kept, *evidence.findings))


# --- findings that running refutes ----------------------------------------------------------------


TITLE = "Refuted by running"
REFUTED_BY_FAILURE = frozenset(("test-cannot-fail",))
"""Flags whose finding is refuted if the test has failed: on the old code, or on planted faults."""
REFUTED_BY_CANARIES = frozenset(("test-deleted", "test-loosened"))
"""Flags whose finding is refuted if all faults that the test noticed are still noticed. Not
``test-skipped``: a skipped test exists, and does not run."""
ENOUGH_CANARIES = 3  # canaries of a test, at least, that must all be noticed


def is_refutable(finding: Finding) -> bool:
    """True if running may refute a finding from reading."""
    return finding.name in REFUTED_BY_FAILURE | REFUTED_BY_CANARIES


def list_excused(
    subject: EvidenceSubject, runs: Sequence[CommandRun], evidence: Evidence
) -> frozenset[str]:
    """Reported names of tests of which enough canaries were tried, and all are still noticed. But a
    test that still exists is excused only if it runs. ``runs`` are the commands on the change."""
    names = {name for name, _ in evidence.canaries if _is_still_noticed(evidence, {name})}
    ran = {name for each in runs for name in each.collection.list_run()}
    return frozenset(name for name in names if not _is_not_run(subject, name, ran))


def _is_not_run(subject: EvidenceSubject, name: str, ran: Set[str]) -> bool:
    """True for a test that still exists but does not run, and for an unknown one."""
    sides = [read_sides(file) for file in subject.change.files]
    before = any(is_reported_as(name, test) for old, _ in sides for test in old.tests)
    after = [test for _, new in sides for test in new.tests if is_reported_as(name, test)]
    runs = is_any_reported(ran, after)
    return not runs and (bool(after) or not before)


def settle_findings(
    subject: EvidenceSubject, from_reading: Sequence[Finding], evidence: Evidence
) -> tuple[tuple[Finding, ...], tuple[Check, ...]]:
    """The findings that stay, and a check for each refuted one."""
    kept: list[Finding] = []
    refuted: list[str] = []
    for finding in from_reading:
        if why := _refute(subject, finding, evidence):
            refuted.append(f"{finding} {why}")
        else:
            kept.append(finding)
    checks = (Check(TITLE, CheckOutcome.UNDECIDED, text) for text in refuted)
    return tuple(kept), tuple(checks)


def _refute(subject: EvidenceSubject, finding: Finding, evidence: Evidence) -> str:
    """Why running refutes a finding; "" if it does not."""
    if finding.name in REFUTED_BY_FAILURE:
        names = {(test.path, test.qualified) for test in _find_tests(subject, finding)}
        return "But it failed when it should." if names & {*evidence.proven} else ""
    if finding.name in REFUTED_BY_CANARIES:
        noticing = {name for name, _ in evidence.canaries}
        tests = _find_tests(subject, finding)
        by_test = [{name for name in noticing if is_reported_as(name, test)} for test in tests]
        # A deleted file needs canaries of all its tests; a line has a test on each side.
        has_canaries = all(by_test) if finding.line == 0 else any(by_test)
        if has_canaries and _is_still_noticed(evidence, set().union(*by_test)):
            return "But each planted fault that it noticed is still noticed."
    return ""


def _is_still_noticed(evidence: Evidence, names: Set[str]) -> bool:
    """True if enough faults that these tests noticed were tried, and all are still noticed."""
    noticed = [still_noticed for name, still_noticed in evidence.canaries if name in names]
    return len(noticed) >= ENOUGH_CANARIES and all(noticed)


def _find_tests(subject: EvidenceSubject, finding: Finding) -> Iterator[Test]:
    """The tests at a finding's line, on both sides; line 0 means all of a deleted file."""
    for file in subject.change.files:
        if finding.file in (file.path, file.old_path):
            old, new = read_sides(file)
            if file.status == "D" and finding.line == 0:
                yield from old.tests
            else:
                tests = (*old.tests, *new.tests)
                yield from (test for test in tests if test.line <= finding.line <= test.end)
