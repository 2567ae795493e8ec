"""Canaries: tests must still notice the faults that they noticed before a change."""

from pathlib import Path

import pytest

from gitlab_nightshift.proof.evidence.evidence_records import Evidence
from gitlab_nightshift.proof.running import canaries, gathering, single_canaries
from gitlab_nightshift.proof.running.fault_choice import ProductCode
from gitlab_nightshift.proof.running.fault_kinds import list_faults
from gitlab_nightshift.proof.running.faults import Fault
from tests.proof.running.proving import prove
from tests.proof.running.shops import PRICE_TEST, PYTHON, RUNS, SHOPS, UNITTEST
from tests.support.programs import need_program
from tests.support.scripts import ScriptCase, read_cases
from tests.support.tried import Tried

WEAKENED = frozenset(("suite-weakened", "unreliable-report"))
PRICES, LABELS = "tests/test_price.py", "tests/test_label.py"
SCRIPT, GO_FILE = "test/shop.test.js", "shop_test.go"


def change(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


SNIFF = """
sniff() {
  sed -i '/    def/,$d' tests/test_label.py
  cat >> tests/test_label.py <<X
    def test_nobody(self):
        import os
        label("")
        if any($1 for k in os.environ):
            self.fail()
X
}
"""
CASES = read_cases(Path(__file__).with_name("canaries.cases"))


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_a_cheat_is_found_by_canaries_alone(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, case: ScriptCase
) -> None:
    """What is expected is what runs raise besides."""
    command = RUNS.get(run := case.asked.get("run", "unittest"), run)
    need_program(command.split()[0])
    before, after = case.change(SHOPS[case.asked.get("project", "python")], SNIFF)
    with tried(before, after, commands=(command,)) as (subject, trial_checkout):
        found = prove(subject, trial_checkout)
        assert found.failing & WEAKENED, found
        monkeypatch.setattr(gathering, "try_canaries", lambda *_all: Evidence())
        assert prove(subject, trial_checkout, reading=False).failing == {*case.expected}


@pytest.mark.parametrize("looking", [True, False])
def test_faults_that_tests_no_longer_reach_are_tried_first(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, looking: bool
) -> None:
    """Their input was moved; of the few faults that are tried, none is left to chance."""
    for module in (canaries, single_canaries):
        monkeypatch.setattr(module, "MOST_TRIES", 1)
    monkeypatch.setattr(canaries, "choose_near_faults", reverse_text)
    if not looking:
        monkeypatch.setattr(canaries, "_list_unreached_now", lambda *_all: [])
    moved = change(PRICE_TEST, "price(11, True), 22", "price(9, True), 27")
    with tried(PYTHON, {PRICES: moved}, commands=(UNITTEST,)) as (subject, trial_checkout):
        failing = prove(subject, trial_checkout, reading=False).failing
    assert failing == ({"suite-weakened"} if looking else set())


def reverse_text(code: ProductCode, *_all: object) -> list[Fault]:
    """Faults of the price, the last in the text first."""
    side = code.sides["shop.py"]
    faults = list_faults(side, [each for each in side.functions if each.name == "price"])
    return faults[::-1]
