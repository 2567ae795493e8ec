"""The tests as they were, run against the product code of a change."""

import pytest

from gitlab_nightshift.proof.running.old_tests import run_old_tests
from gitlab_nightshift.proof.running.trial import Trial
from gitlab_nightshift.records.verdicts import CheckOutcome
from tests.support.tried import Tried

CODE = "def size(n):\n    return n\n"
HEAD = "import unittest\nfrom shop import size\n\n\nclass T(unittest.TestCase):\n"
OLD = HEAD + "    def test_size(self):\n        self.assertEqual(size(3), 3)\n"
NEW = HEAD + "    def test_size(self):\n        self.assertEqual(size(3), 4)\n"
ADDED = OLD + "\n    def test_more(self):\n        self.assertEqual(size(4), 4)\n"
MORE = CODE.replace("return n", "return n + 1")


@pytest.mark.parametrize(
    ("code", "test", "seen_as"),
    [
        (CODE + "\n\nSIZE = size\n", OLD + "\n", CheckOutcome.PASSED),
        (MORE, NEW, CheckOutcome.FAILED),
        (CODE.replace("size", "width"), OLD.replace("size", "width"), CheckOutcome.UNDECIDED),
    ],
)
def test_behaviour_that_is_to_stay_is_held_against_the_tests_as_they_were(
    tried: Tried, code: str, test: str, seen_as: CheckOutcome
) -> None:
    before, commands = {"shop.py": CODE, "test_shop.py": OLD}, ("python3 -m unittest",)
    after = {"shop.py": code, "test_shop.py": test}
    with tried(before, after, category="refactoring", commands=commands) as (subject, workbench):
        seen = run_old_tests(subject, Trial(workbench, lambda _name: "", "old"))
    assert [check.outcome for check in seen.checks] == [seen_as], seen
    failed = seen_as is CheckOutcome.FAILED
    flags = [(finding.name, finding.level) for finding in seen.findings]
    assert flags == ([("old-tests-fail", "fail")] if failed else [])


@pytest.mark.parametrize(
    ("code", "test", "told"),
    [
        (MORE, NEW, "this change redefines what test_shop.T.test_size demand"),
        (MORE.replace("n + 1", "0 + n"), ADDED, ""),
        (CODE, NEW.replace("size(3), 4", "size(4), 4"), ""),
    ],
    ids=["redefined", "more tests", "tests alone"],
)
def test_expectations_that_change_with_the_code_are_told_and_refuse_nothing(
    tried: Tried, code: str, test: str, told: str
) -> None:
    before, commands = {"shop.py": CODE, "test_shop.py": OLD}, ("python3 -m unittest",)
    after = {"shop.py": code, "test_shop.py": test}
    with tried(before, after, commands=commands) as (subject, workbench):
        seen = run_old_tests(subject, Trial(workbench, lambda _name: "", "old"))
    assert seen.findings == ()
    assert [check.detail for check in seen.checks] == ([told] if told else [])
