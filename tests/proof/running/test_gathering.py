"""Findings from reading that running refutes."""

from collections import Counter

import pytest

from gitlab_nightshift.proof.evidence.evidence_records import Evidence, EvidenceSubject
from gitlab_nightshift.proof.proof_commands import CommandRun
from gitlab_nightshift.proof.reports.report_readers import CaseOutcome, CollectedTests
from gitlab_nightshift.proof.reviewed_change import Context
from gitlab_nightshift.proof.running.gathering import (
    TITLE,
    is_refutable,
    list_excused,
    settle_findings,
)
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.verdicts import CheckOutcome, Finding
from gitlab_nightshift.settings.model import Settings
from tests.proof.running.shops import LABEL_TEST
from tests.proof.running.test_canaries import LABELS, change
from tests.support.pairs import change_of

NOBODY, SOMEBODY = (f"tests.test_label.LabelTest.test_{name}" for name in ("nobody", "somebody"))
SKIPPED = change(LABEL_TEST, "    def test_nobody", "    @unittest.skip('')\n    def test_nobody")
SUBJECT = EvidenceSubject(
    "", "", change_of({LABELS: LABEL_TEST}, {LABELS: SKIPPED}), Context(Settings(), "tests")
)
LINE = 7
"""Of the skipped test."""


def settle(name: str, evidence: Evidence, line: int = LINE) -> bool:
    """Whether a finding about the test at a line is left."""
    finding = Finding(name, "fail", LABELS, line, "as it was read")
    kept, refuted = settle_findings(SUBJECT, [finding], evidence)
    assert all((c.title, c.outcome) == (TITLE, CheckOutcome.UNDECIDED) for c in refuted)
    assert len(kept) + len(refuted) == 1
    return bool(kept)


@pytest.mark.parametrize("name", ["test-cannot-fail"])
def test_a_test_that_failed_on_the_old_code_can_fail(name: str) -> None:
    proven = Evidence(proven=((LABELS, "LabelTest.test_nobody"),))
    assert is_refutable(Finding(name, "fail", LABELS, LINE, ""))
    assert settle(name, Evidence())
    assert not settle(name, proven)
    assert settle(name, proven, LINE + 5), "another test"
    assert settle(name, Evidence(canaries=((NOBODY, True),) * 9))


@pytest.mark.parametrize("name", ["test-deleted", "test-loosened"])
@pytest.mark.parametrize(
    ("canaries", "left"),
    [
        (((NOBODY, True),) * 3, False),
        (((NOBODY, True),) * 2, True),
        (((NOBODY, True),) * 3 + ((NOBODY, False),), True),
        (((NOBODY, True),) * 3 + ((NOBODY, None),), True),
        (((SOMEBODY, True),) * 3, True),
        (((NOBODY, True),) * 2 + ((SOMEBODY, True),) * 5, True),
    ],
)
def test_a_weaker_test_is_refuted_if_its_faults_are_still_noticed(
    name: str, canaries: tuple[tuple[str, bool | None], ...], left: bool
) -> None:
    assert settle(name, Evidence(canaries=canaries)) is left


@pytest.mark.parametrize("name", ["secret-added", "test-detection", "suppression-added"])
def test_other_findings_are_kept(name: str) -> None:
    evidence = Evidence(proven=((LABELS, "LabelTest.test_nobody"),), canaries=((NOBODY, True),) * 9)
    assert not is_refutable(Finding(name, "fail", LABELS, LINE, ""))
    assert settle(name, evidence)


def run_tests(*names: str) -> CommandRun:
    counts = {name: Counter({CaseOutcome.PASSED: 1}) for name in names}
    return CommandRun(CommandResult("test", 0, 1.0), CollectedTests("test", counts))


@pytest.mark.parametrize(
    ("ran", "excused"), [((NOBODY, SOMEBODY), {NOBODY}), ((SOMEBODY,), set[str]())]
)
def test_tests_are_excused_if_their_faults_are_still_noticed_and_they_run(
    ran: tuple[str, ...], excused: set[str]
) -> None:
    """The text of both is there after the change."""
    evidence = Evidence(canaries=((NOBODY, True),) * 3 + ((SOMEBODY, True),) * 2)
    assert list_excused(SUBJECT, [run_tests(*ran)], evidence) == excused


def test_deleted_tests_are_excused() -> None:
    gone = change_of({LABELS: LABEL_TEST}, {LABELS: change(LABEL_TEST, "test_nobody", "no_test")})
    evidence = Evidence(canaries=((NOBODY, True),) * 3)
    subject = EvidenceSubject("", "", gone, Context(Settings(), "tests"))
    assert list_excused(subject, [run_tests(SOMEBODY)], evidence) == {NOBODY}


def test_tests_of_files_that_the_change_leaves_alone_are_not_excused() -> None:
    """They are deselected."""
    other = "tests.test_price.PriceTest.test_members"
    evidence = Evidence(canaries=((other, True),) * 3)
    assert list_excused(SUBJECT, [run_tests(SOMEBODY)], evidence) == set()


@pytest.mark.parametrize(
    ("canaries", "left"),
    [
        (((NOBODY, True),) * 2 + ((SOMEBODY, True),), False),
        (((NOBODY, True),) * 3, True),
        (((NOBODY, True),) * 3 + ((SOMEBODY, False),), True),
    ],
)
def test_a_deleted_file_needs_canaries_of_all_its_tests(
    canaries: tuple[tuple[str, bool | None], ...], left: bool
) -> None:
    gone = change_of({LABELS: LABEL_TEST}, {})
    subject = EvidenceSubject("", "", gone, Context(Settings(), "tests"))
    finding = Finding("test-deleted", "fail", LABELS, 0, "The file is deleted with its 2 tests.")
    kept, _ = settle_findings(subject, [finding], Evidence(canaries=canaries))
    assert bool(kept) is left
