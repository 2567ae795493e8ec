"""Faults planted one at a time, and the tests that notice them."""

import shutil
from dataclasses import replace

import pytest

from gitlab_nightshift.proof.evidence.evidence_records import EvidenceSubject
from gitlab_nightshift.proof.reports.report_request import build_text_reader
from gitlab_nightshift.proof.running import single_canaries
from gitlab_nightshift.proof.running.fault_kinds import list_faults
from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.running.single_canaries import (
    Canary,
    FoundCanaries,
    find_canaries,
    judge_canaries,
    plant_singles,
)
from gitlab_nightshift.proof.running.trial import Trial, TrialCheckout
from gitlab_nightshift.proof.syntax import definitions
from gitlab_nightshift.proof.syntax.file_side import Side
from tests.proof.running.shops import LABEL_TEST, PYTHON, SHOP, UNITTEST
from tests.proof.running.test_canaries import LABELS, change
from tests.support.tried import Tried

UNUSED = SHOP + "\n\ndef unused(number):\n    return number > 3\n"
NO_CHANGE = {LABELS: LABEL_TEST.replace("nobody(", "no_name(")}


def open_trial(subject: EvidenceSubject, trial_checkout: TrialCheckout) -> Trial:
    return Trial(
        trial_checkout,
        build_text_reader(trial_checkout.checkout.repository, subject.base),
        "canary",
    )


def list_shop_faults(source: str, function: str) -> list[Fault]:
    side = Side("shop.py", source.encode())
    return [fault for fault in list_faults(side, side.functions) if fault.function == function]


def list_tests(path: str, source: str) -> tuple[definitions.Test, ...]:
    return Side(path, source.encode()).tests


def find(
    subject: EvidenceSubject,
    trial_checkout: TrialCheckout,
    faults: list[Fault],
    tests: tuple[definitions.Test, ...],
) -> FoundCanaries:
    trial = open_trial(subject, trial_checkout)
    planted = plant_singles(trial, subject.base, tests, faults)
    reached = planted.list_reached() if planted else []
    return find_canaries(trial, planted, tests, reached, 1.0)


def test_canaries_are_faults_that_the_given_tests_notice(tried: Tried) -> None:
    faults = [*list_shop_faults(SHOP, "price")[:2], *list_shop_faults(SHOP, "label")[:3]]
    with tried(PYTHON, NO_CHANGE, commands=(UNITTEST,)) as (subject, trial_checkout):
        found = find(subject, trial_checkout, faults, list_tests(LABELS, LABEL_TEST))
    assert {canary.fault.function for canary in found.canaries} == {"label"}
    assert all(name.startswith("tests.test_label.") for c in found.canaries for name in c.found_by)


def test_canaries_of_most_and_of_fewest_tests_come_first(tried: Tried) -> None:
    faults = list_shop_faults(SHOP, "label")
    with tried(PYTHON, NO_CHANGE, commands=(UNITTEST,)) as (subject, trial_checkout):
        found = find(subject, trial_checkout, faults, list_tests(LABELS, LABEL_TEST))
    first, second, *_ = [len(canary.found_by) for canary in found.canaries]
    assert (first, second) == (2, 1)
    assert len(found.canaries) <= single_canaries.MOST_CANARIES


@pytest.mark.parametrize("confirmations", [2, 0])
def test_canaries_that_the_base_does_not_notice_again_are_dropped(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, confirmations: int
) -> None:
    """A flaky test seemed to notice it; without the second look the change is said to lose it."""
    monkeypatch.setattr(single_canaries, "CONFIRMATIONS", confirmations)
    files = PYTHON | {"shop.py": UNUSED}
    faults = [*list_shop_faults(UNUSED, "label"), *list_shop_faults(UNUSED, "unused")]
    old = list_tests(LABELS, LABEL_TEST)
    with tried(files, NO_CHANGE, commands=(UNITTEST,)) as (subject, trial_checkout):
        found = find(subject, trial_checkout, faults, old)
        by = frozenset(["tests.test_label.LabelTest.test_somebody"])
        found = replace(found, canaries=(Canary(faults[-1], by),))
        new = list_tests(LABELS, NO_CHANGE[LABELS])
        trial = open_trial(subject, trial_checkout)
        judged = judge_canaries(trial, subject, new, found, {f: f for f in faults})
    assert [each.still_noticed for each in judged] == ([] if confirmations else [False])


def test_runs_with_faults_have_the_variable_ci(tried: Tried) -> None:
    """A test that is skipped there notices nothing, on the base either."""
    skipped = change(
        LABEL_TEST, "class", "import os\n\n\n@unittest.skipIf(os.environ.get('CI'), '')\nclass"
    )
    with tried(PYTHON | {LABELS: skipped}, NO_CHANGE, commands=(UNITTEST,)) as (
        subject,
        trial_checkout,
    ):
        found = find(
            subject, trial_checkout, list_shop_faults(SHOP, "label"), list_tests(LABELS, skipped)
        )
    assert found.planted is not None
    assert found.canaries == ()


def test_a_test_of_the_size_of_the_code_is_left_out(tried: Tried) -> None:
    size = LABEL_TEST + (
        "\n    def test_size(self):\n"
        f'        self.assertEqual(len(open("shop.py").read()), {len(SHOP)})\n'
    )
    with tried(PYTHON | {LABELS: size}, NO_CHANGE, commands=(UNITTEST,)) as (
        subject,
        trial_checkout,
    ):
        found = find(
            subject, trial_checkout, list_shop_faults(SHOP, "label"), list_tests(LABELS, size)
        )
    assert {name for c in found.canaries for name in c.found_by} == {
        "tests.test_label.LabelTest.test_nobody",
        "tests.test_label.LabelTest.test_somebody",
    }


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_without_a_report_the_exit_status_decides(tried: Tried) -> None:
    script = "python3 -c 'import shop; assert shop.label(str()) == \"nobody\"'\n"
    files = {"shop.py": SHOP, "check.sh": script}
    with tried(files, {"check.sh": script + "\n"}, commands=("bash check.sh",)) as (
        subject,
        trial_checkout,
    ):
        found = find(subject, trial_checkout, list_shop_faults(SHOP, "label"), ())
    assert found.canaries
    assert {canary.found_by for canary in found.canaries} == {frozenset()}
