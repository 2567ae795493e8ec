"""Which tests a change touches."""

from pathlib import Path

import pytest

from gitlab_nightshift.proof.evidence.evidence_records import EvidenceSubject
from gitlab_nightshift.proof.running.touched_tests import TouchedTests, find_touched_tests
from gitlab_nightshift.proof.running.trial import TreeFiles, TrialCheckout
from tests.proof.running.shops import GO_TEST, GOLANG, PYTHON, SHOPS
from tests.proof.running.test_canaries import GO_FILE, LABELS, PRICES, change
from tests.support.scripts import ScriptCase, read_cases
from tests.support.tried import Tried


def find(subject: EvidenceSubject, trial_checkout: TrialCheckout) -> tuple[TouchedTests, ...]:
    files = (
        TreeFiles(trial_checkout.checkout.repository, tree) for tree in (subject.base, subject.tree)
    )
    return find_touched_tests(subject.change, *files)


@pytest.mark.parametrize("case", read_cases(Path(__file__).with_name("touched.cases")), ids=repr)
def test_a_test_is_touched_by_changes_of_its_helpers(tried: Tried, case: ScriptCase) -> None:
    with tried(*case.change(SHOPS[case.asked.get("project", "python")])) as (
        subject,
        trial_checkout,
    ):
        found = find(subject, trial_checkout)
    old = sorted({test.name for each in found for test in each.old})
    new = sorted({test.name for each in found for test in each.new})
    assert [" ".join([*old, "=>", *new])] == case.expected


def test_languages_are_told_apart_and_the_larger_one_is_first(tried: Tried) -> None:
    after = {LABELS: None, PRICES: None, GO_FILE: change(GO_TEST, '"for a"', '"for " + "a"')}
    with tried(PYTHON | GOLANG, after) as (subject, trial_checkout):
        found = find(subject, trial_checkout)
    assert [(each.language, len(each.old)) for each in found] == [("python", 4), ("go", 1)]
    assert {"label", "price"} <= found[0].named
    assert "Label" in found[1].named
