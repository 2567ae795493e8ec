"""What is no weakening of a suite is none to its canaries, nor to what reads."""

import pytest

from tests.proof.running.proving import prove
from tests.proof.running.shops import LABEL_TEST, PYTHON, SHOP, UNITTEST
from tests.proof.running.test_canaries import LABELS, change
from tests.support.tried import Tried

TABLE = """import unittest

from shop import label


class LabelTest(unittest.TestCase):
    def test_labels(self):
        for name, wanted in (("", "nobody"), ("a", "for a")):
            with self.subTest(name=name):
                self.assertEqual(label(name), wanted)
"""
RENAMED = change(LABEL_TEST, "test_nobody", "test_without_a_name")
REFACTORED = change(
    change(SHOP, "    if count > 10 and member:\n        return count * 2\n", ""),
    "return count * 3",
    "return count * (2 if member and 10 < count else 3)",
)
WITHOUT_LABEL = SHOP.partition("\n\ndef label")[0]
POLITE, POLITE_TEST = change(SHOP, '"for "', '"to "'), change(LABEL_TEST, "for a", "to a")
HONEST: dict[str, tuple[dict[str, str], dict[str, str | None]]] = {
    "a test moves to another file": (PYTHON, {LABELS: None, "tests/test_names.py": LABEL_TEST}),
    "a test is renamed": (PYTHON, {LABELS: RENAMED}),
    "tests become cases of a table": (PYTHON, {LABELS: TABLE}),
    "cases of a table become tests": (PYTHON | {LABELS: TABLE}, {LABELS: LABEL_TEST}),
    "product code is written otherwise": (PYTHON, {"shop.py": REFACTORED}),
    "a feature goes with its tests": (PYTHON, {"shop.py": WITHOUT_LABEL, LABELS: None}),
    "what is expected changes with the code": (PYTHON, {"shop.py": POLITE, LABELS: POLITE_TEST}),
    "a test is added": (
        PYTHON,
        {
            LABELS: LABEL_TEST + "\n    def test_blank(self):\n"
            '        self.assertEqual(label(" "), "for  ")\n'
        },
    ),
}
ALLOWED = {"a feature goes with its tests": frozenset(["public-name-removed"])}


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_change_is_refused_by_nobody(tried: Tried, kind: str) -> None:
    before, after = HONEST[kind]
    with tried(before, after, commands=(UNITTEST,)) as (subject, workbench):
        found = prove(subject, workbench)
    assert found.flags.keys() <= ALLOWED.get(kind, frozenset()), found.evidence


def test_a_test_that_the_commands_do_not_run_loses_nothing(tried: Tried) -> None:
    """It is run by nobody before the change, so faults that it would notice are no loss."""
    command = f"{UNITTEST} tests.test_price"
    with tried(PYTHON, {LABELS: RENAMED}, commands=(command,)) as (subject, workbench):
        found = prove(subject, workbench)
    assert "suite-weakened" not in found.flags, found.evidence
