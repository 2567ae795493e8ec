"""Trees with planted faults, and runs on them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gitlab_nightshift.proof.evidence.evidence_records import EvidenceSubject
from gitlab_nightshift.proof.proof_commands import CommandRun
from gitlab_nightshift.proof.reports.report_readers import CaseOutcome, CollectedTests
from gitlab_nightshift.proof.running.fault_kinds import list_faults
from gitlab_nightshift.proof.running.faults import KEPT, SWITCH, Fault
from gitlab_nightshift.proof.running.trial import (
    PlantedTree,
    SuiteOutcome,
    TreeFiles,
    Trial,
    build_environment,
    is_reported_as,
    plant,
    read_outcome,
)
from gitlab_nightshift.proof.syntax.file_side import Side
from gitlab_nightshift.records.bead_results import CommandResult
from tests.proof.running.shops import GO, GO_SHOP, GOLANG, LABEL_TEST, PYTHON, SHOP, UNITTEST
from tests.proof.running.test_canaries import LABELS, PRICES
from tests.proof.running.test_single_canaries import NO_CHANGE, list_shop_faults, open_trial
from tests.support.programs import need_program
from tests.support.tried import Tried


def plant_all(
    trial: Trial, subject: EvidenceSubject, faults: Sequence[Fault]
) -> PlantedTree | None:
    return plant(trial, subject.base, faults, [lambda _planted: trial.find_whole_run({})])


def test_the_variable_has_a_new_random_name(tried: Tried) -> None:
    faults = list_shop_faults(SHOP, "label")
    with tried(PYTHON, NO_CHANGE, commands=(UNITTEST,)) as (subject, trial_checkout):
        trial = open_trial(subject, trial_checkout)
        planted = [plant_all(trial, subject, faults) for _ in range(3)]
    names = {each.variable for each in planted if each}
    assert len(names) == 3
    assert all(len(name) >= 17 for name in names)
    assert not any("shift" in name.lower() or "fault" in name.lower() for name in names)


def test_a_fault_is_on_where_its_switch_is(tried: Tried) -> None:
    faults = list_shop_faults(SHOP, "label")
    with tried(PYTHON, NO_CHANGE, commands=(UNITTEST,)) as (subject, trial_checkout):
        trial = open_trial(subject, trial_checkout)
        planted = plant_all(trial, subject, faults)
        assert planted
        assert not trial.run(planted.run.commands, {}).red
        on = trial.run(planted.run.commands, build_environment(planted, faults[:1]))
    assert on.noticed
    assert {name.split(".")[1] for name in on.failed} == {"test_label"}


def test_the_variable_does_not_say_whether_a_fault_is_on(tried: Tried) -> None:
    faults = list_shop_faults(SHOP, "label")
    with tried(PYTHON, NO_CHANGE, commands=(UNITTEST,)) as (subject, trial_checkout):
        trial = open_trial(subject, trial_checkout)
        planted = plant_all(trial, subject, faults)
        assert planted
        on, off = build_environment(planted, faults[:1]), build_environment(planted)
        assert on.keys() == off.keys()
        assert all(value.strip(",").isdecimal() for value in (*on.values(), *off.values()))
        assert not trial.run(planted.run.commands, off).red


def test_faults_that_a_compiler_refuses_are_left_out(tried: Tried) -> None:
    need_program("go")
    side = Side("shop.go", GO_SHOP.encode())
    faults = list_faults(side, side.functions)
    bad = replace(faults[-1], code_with_switch=f"({KEPT} + {SWITCH})")
    faults[-1] = bad
    with tried(GOLANG, {"shop.go": GO_SHOP + "\n"}, commands=(GO,)) as (subject, trial_checkout):
        trial = open_trial(subject, trial_checkout)
        planted = plant_all(trial, subject, faults)
        assert planted
        assert trial.run(planted.run.commands, build_environment(planted, faults[:1])).noticed
    assert bad not in planted.numbers
    assert planted.numbers.keys() >= {fault for fault in faults if fault.line != bad.line}


def test_nothing_is_planted_if_the_run_fails_without_faults(tried: Tried) -> None:
    """As tests do that read the text of the code."""
    test = LABEL_TEST + (
        "\n    def test_text(self):\n"
        '        self.assertIn(\'return "nobody"\', open("shop.py").read())\n'
    )
    files = PYTHON | {LABELS: test}
    with tried(files, {PRICES: None}, commands=(UNITTEST,)) as (subject, trial_checkout):
        trial = open_trial(subject, trial_checkout)
        assert plant_all(trial, subject, list_shop_faults(SHOP, "label")) is None


def test_a_run_reports_which_tests_failed_and_ran(tried: Tried) -> None:
    with tried(PYTHON, {"shop.py": SHOP.replace("nobody", "no")}, commands=(UNITTEST,)) as (
        subject,
        trial_checkout,
    ):
        trial = open_trial(subject, trial_checkout)
        trial.check_out(subject.tree)
        seen = trial.run(trial_checkout.commands, {})
    assert (seen.red, seen.ended, len(seen.ran)) == (True, True, 4)
    assert seen.failed == {"tests.test_label.LabelTest.test_nobody"}


def test_a_run_that_takes_too_long_is_ended(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitlab_nightshift.proof.running.trial.EXTRA_S", 1.0)
    files = PYTHON | {"tests/test_slow.py": "import time\n\ntime.sleep(600)\n"}
    with tried(files, NO_CHANGE, commands=(UNITTEST,)) as (subject, trial_checkout):
        seen = open_trial(subject, trial_checkout).run(trial_checkout.commands, {}, 0.0)
    assert (seen.ended, seen.noticed) == (False, False)


def test_the_old_product_tree_keeps_the_new_tests(tried: Tried) -> None:
    """Test files, also moved ones, stay as the change has them."""
    after = {"attic/old_names.py": LABEL_TEST, LABELS: None, "shop.py": SHOP + "\n\nLIMIT = 3\n"}
    with tried(PYTHON, after, commands=(UNITTEST,)) as (subject, trial_checkout):
        tree = open_trial(subject, trial_checkout).build_old_product(subject)
        assert tree
        held = TreeFiles(trial_checkout.checkout.repository, tree)
        assert held.read("shop.py") == SHOP.encode()
        assert held.read("attic/old_names.py") == LABEL_TEST.encode()
        assert held.read(LABELS) is None


def test_no_old_product_tree_if_only_tests_change(tried: Tried) -> None:
    with tried(PYTHON, {LABELS: None}, commands=(UNITTEST,)) as (subject, trial_checkout):
        assert open_trial(subject, trial_checkout).build_old_product(subject) is None


def test_no_variable_remains_if_nothing_could_be_planted(tried: Tried) -> None:
    """Later runs must not see the variable."""
    faults = list_shop_faults(SHOP, "label")
    with tried(PYTHON, NO_CHANGE, commands=(UNITTEST,)) as (subject, trial_checkout):
        trial = open_trial(subject, trial_checkout)
        asked: list[int] = []

        def refuse(_planted: PlantedTree) -> tuple[None, str]:
            asked.append(len(trial.reached_env))
            return None, ""

        assert plant(trial, subject.base, faults, [refuse]) is None
    assert (asked, trial.reached_env) == ([1], {})


def test_reached_faults_come_in_the_order_in_which_they_were_chosen() -> None:
    """Not file by file: only the first ones are tried."""
    faults = list_shop_faults(SHOP, "label")
    first, second, third = (
        replace(fault, path=path)
        for fault, path in zip(faults, ("b.py", "a.py", "b.py"), strict=False)
    )
    planted = PlantedTree("", "", {first: 1, third: 3, second: 2})
    assert planted.list_reached() == [first, second, third]


# --- outcomes of a suite --------------------------------------------------------------------------


PASSED, FAILED, SKIPPED = CaseOutcome.PASSED, CaseOutcome.FAILED, CaseOutcome.SKIPPED


def run(status: int | None, counts: dict[str, CaseOutcome], unknown: str = "") -> CommandRun:
    error = "ended by this program: timeout" if status is None else ""
    result = CommandResult("test", status, 2.0, error)
    named = {name: Counter({outcome: 1}) for name, outcome in counts.items()}
    return CommandRun(result, CollectedTests("test", named, unknown))


@pytest.mark.parametrize(
    ("seen", "noticed", "disagrees"),
    [
        (run(0, {"a": PASSED}), False, False),
        (run(1, {"a": FAILED}), True, False),
        (run(0, {"a": FAILED}), False, True),
        (run(1, {"a": PASSED}), False, False),
        (run(1, {}, "no report"), True, False),
        (run(0, {}, "no report"), False, False),
        (run(None, {"a": FAILED}), False, False),
        (run(None, {}, "no report"), False, False),
    ],
)
def test_a_fault_is_noticed_by_status_and_report(
    seen: CommandRun, noticed: bool, disagrees: bool
) -> None:
    outcome = read_outcome([seen])
    assert (outcome.noticed, outcome.disagrees) == (noticed, disagrees)


def test_outcomes_of_several_commands_are_combined() -> None:
    runs = [run(0, {"a": PASSED, "b": SKIPPED}), run(1, {"c": FAILED}), run(1, {}, "no report")]
    assert read_outcome(runs) == SuiteOutcome(
        red=True,
        failed=frozenset(["c"]),
        ran=frozenset(["a", "c"]),
        unknown="no report",
        duration_s=6.0,
    )


SOURCES = {
    "tests/test_a.py": "class TestA:\n    def test_b(self):\n        assert 1\n",
    "a_test.go": 'package a\n\nimport "testing"\n\nfunc TestA(t *testing.T) { t.Error() }\n',
    "a.test.js": "describe('suite', () => { it('title', () => { expect(1).toBe(1) }) })\n",
    "src/test/java/CartTest.java": "class CartTest { @Test void total() { assertTrue(a); } }\n",
    "src/a.rs": "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() { assert!(true); }\n}\n",
}


@pytest.mark.parametrize(
    ("path", "name", "is_it"),
    [
        ("tests/test_a.py", "tests/test_a.py::TestA::test_b", True),
        ("tests/test_a.py", "tests.test_a.TestA.test_b", True),
        ("tests/test_a.py", "tests/test_a.py::TestA::test_bc", False),
        ("tests/test_a.py", "tests/test_a.py::TestA::a_test_b", False),
        ("a_test.go", "pkg::TestA", True),
        ("a_test.go", "pkg::TestA/row", True),
        ("a_test.go", "pkg::TestAll", False),
        ("a.test.js", "a.test.js::suite title", True),
        ("a.test.js", "a.test.js::title", True),
        ("a.test.js", "a.test.js::suite subtitle", False),
        ("src/test/java/CartTest.java", "com.shop.CartTest::total", True),
        ("src/a.rs", "tests::adds", True),
    ],
)
def test_a_reported_name_is_that_of_its_test(path: str, name: str, is_it: bool) -> None:
    [test] = Side(path, SOURCES[path].encode()).tests
    assert is_reported_as(name, test) is is_it
