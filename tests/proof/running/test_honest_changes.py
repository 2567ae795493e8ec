"""Honest changes of a suite pass the canaries and the red flags."""

from pathlib import Path

import pytest

from tests.proof.running.proving import prove
from tests.proof.running.shops import LABEL_TEST, PYTHON, UNITTEST
from tests.proof.running.test_canaries import LABELS, change
from tests.support.scripts import ScriptCase, read_cases
from tests.support.tried import Tried

MAKE_TABLE = """
make_table() { cat > tests/test_label.py <<X
import unittest

from shop import label


class LabelTest(unittest.TestCase):
    def test_labels(self):
        for name, wanted in (("", "nobody"), ("a", "for a")):
            with self.subTest(name=name):
                self.assertEqual(label(name), wanted)
X
}
"""


@pytest.mark.parametrize("case", read_cases(Path(__file__).with_name("honest.cases")), ids=repr)
def test_an_honest_change_is_refused_by_nobody(tried: Tried, case: ScriptCase) -> None:
    before, after = case.change(PYTHON, MAKE_TABLE)
    with tried(before, after, commands=(UNITTEST,)) as (subject, trial_checkout):
        found = prove(subject, trial_checkout)
    assert found.flags.keys() <= {*case.expected}, found.evidence


def test_a_test_that_the_commands_do_not_run_loses_nothing(tried: Tried) -> None:
    """It is run by nobody before the change, so faults that it would notice are no loss."""
    command = f"{UNITTEST} tests.test_price"
    with tried(
        PYTHON, {LABELS: change(LABEL_TEST, "nobody", "without_a_name")}, commands=(command,)
    ) as (subject, trial_checkout):
        found = prove(subject, trial_checkout)
    assert "suite-weakened" not in found.flags, found.evidence
