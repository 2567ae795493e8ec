from collections import Counter

import pytest

from gitlab_nightshift.proof.proof_commands import CommandRun
from gitlab_nightshift.proof.reports.report_readers import CaseOutcome, Collection
from gitlab_nightshift.proof.running.trial import SuiteOutcome, is_reported_as, read_outcome
from gitlab_nightshift.proof.syntax.file_side import Side
from gitlab_nightshift.records.bead_results import CommandResult

PASSED, FAILED, SKIPPED = CaseOutcome.PASSED, CaseOutcome.FAILED, CaseOutcome.SKIPPED


def run(status: int | None, counts: dict[str, CaseOutcome], unknown: str = "") -> CommandRun:
    error = "ended by this program: timeout" if status is None else ""
    result = CommandResult("test", status, 2.0, error)
    named = {name: Counter({outcome: 1}) for name, outcome in counts.items()}
    return CommandRun(result, Collection("test", named, unknown))


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


def test_commands_add_up() -> None:
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
