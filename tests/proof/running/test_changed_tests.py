"""New tests on the old code and against faults; the old tests on the new code."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from gitlab_nightshift.proof.evidence.evidence_records import Evidence
from gitlab_nightshift.proof.running import changed_tests
from gitlab_nightshift.proof.running.changed_tests import (
    BEFORE,
    FAULTS,
    evaluate_new_tests,
    run_old_tests,
)
from gitlab_nightshift.proof.running.trial import Trial
from gitlab_nightshift.records.verdicts import CheckOutcome
from tests.proof.running.shops import (
    GO,
    GO_SHOP,
    GO_TEST,
    GOLANG,
    JAVASCRIPT,
    LABEL_TEST,
    NODE,
    NODE_SHOP,
    NODE_TEST,
    PYTHON,
    SHOP,
    UNITTEST,
)
from tests.proof.running.test_canaries import GO_FILE, LABELS, SCRIPT, change
from tests.proof.running.test_single_canaries import open_trial
from tests.support.programs import need_program
from tests.support.tried import Files, Tried

PASSED, UNDECIDED, NOT_CHECKED = (
    CheckOutcome.PASSED,
    CheckOutcome.UNDECIDED,
    CheckOutcome.NOT_CHECKED,
)
POLITE = change(SHOP, '"for "', '"to "')
BROKEN = change(SHOP, '"for " + name', '"for " + name[3]')
NEW = "\n    def test_more(self):\n        {}\n"


def add(text: str, source: str = LABEL_TEST) -> str:
    return source + NEW.format(text)


def evaluate(
    tried: Tried, before: Files, after: Mapping[str, str | None], command: str = UNITTEST
) -> Evidence:
    with tried(before, after, commands=(command,)) as (subject, trial_checkout):
        return evaluate_new_tests(subject, open_trial(subject, trial_checkout))


def list_outcomes(evidence: Evidence) -> dict[str, CheckOutcome]:
    return {check.title: check.outcome for check in evidence.checks}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(SHOP, POLITE, id="an assertion"),
        pytest.param(BROKEN, POLITE, id="an exception of the product"),
        pytest.param(change(SHOP, '"for " + name', "None.x"), POLITE, id="of a value that is None"),
    ],
)
def test_a_test_that_fails_on_the_old_code_is_proven(tried: Tried, before: str, after: str) -> None:
    """Faults that it would not notice are not even tried."""
    test = change(add('self.assertEqual(label("ab"), "to ab")'), "for a", "to a")
    old = change(LABEL_TEST, 'self.assertEqual(label("a"), "for a")', "pass")
    evidence = evaluate(
        tried, PYTHON | {"shop.py": before, LABELS: old}, {"shop.py": after, LABELS: test}
    )
    assert list_outcomes(evidence) == {BEFORE: PASSED}
    assert set(evidence.proven) == {
        (LABELS, "LabelTest.test_more"),
        (LABELS, "LabelTest.test_somebody"),
    }


@pytest.mark.parametrize(
    "test",
    [
        'self.assertEqual(__import__("shop").shout("a"), "A")',
        'from shop import shout\n        self.assertEqual(shout("a"), "A")',
        'import shouting\n        self.assertEqual(label("b"), "for b")',
    ],
)
def test_a_missing_name_proves_nothing(tried: Tried, test: str) -> None:
    product = SHOP + "\n\ndef shout(name):\n    return name.upper()\n"
    after = {LABELS: add(test), "shop.py": product, "shouting.py": "LOUD = True\n"}
    evidence = evaluate(tried, PYTHON, after)
    assert list_outcomes(evidence)[BEFORE] is UNDECIDED
    assert FAULTS in list_outcomes(evidence)


@pytest.mark.parametrize(
    ("command", "files", "after"),
    [
        (
            NODE,
            JAVASCRIPT,
            {
                "src/shop.js": NODE_SHOP + "\nexport const shout = (name) => name.toUpperCase();\n",
                SCRIPT: change(NODE_TEST, "{ label,", "{ shout, label,")
                + "\ntest('shouts', () => {\n  assert.equal(shout('a'), 'A');\n});\n",
            },
        ),
        (
            GO,
            GOLANG,
            {
                "shop.go": GO_SHOP + "\nfunc Half(n int) int { return n / 2 }\n",
                GO_FILE: GO_TEST + "\nfunc TestHalf(t *testing.T) {\n\tsame(t, Half(4), 2)\n}\n",
            },
        ),
    ],
)
def test_code_that_does_not_load_or_compile_proves_nothing(
    tried: Tried, command: str, files: Files, after: Files
) -> None:
    need_program(command.split(maxsplit=1)[0])
    evidence = evaluate(tried, files, after, command)
    assert list_outcomes(evidence) == {BEFORE: UNDECIDED, FAULTS: PASSED}, evidence
    assert (evidence.proven, evidence.findings) == ((), ())


@pytest.mark.parametrize(
    ("test", "level", "outcome"),
    [
        ('self.assertEqual(label("a"), label("a"))', "fail", CheckOutcome.FAILED),
        ('self.assertIsNotNone(label("a"))', "warn", CheckOutcome.FAILED),
        (
            'self.assertEqual((label(""), label("a")), ("nobody", "for a"))',
            "",
            PASSED,
        ),
    ],
)
def test_faults_decide_if_only_tests_change(
    tried: Tried, test: str, level: str, outcome: CheckOutcome
) -> None:
    evidence = evaluate(
        tried,
        PYTHON,
        {"tests/test_more.py": add(test, LABEL_TEST.partition("\n    def")[0] + "\n")},
    )
    assert [(f.name, f.level) for f in evidence.findings] == (
        [("mutants-survive", level)] if level else []
    ), evidence
    assert list_outcomes(evidence) == {FAULTS: outcome}


@pytest.mark.parametrize(
    ("test", "able"),
    [
        ('self.assertEqual((label(""), label("a")), ("nobody", "for a"))', True),
        ('self.assertIsNotNone(label("a"))', False),
        ('label("a").upper()', False),
    ],
)
def test_a_test_that_notices_wrong_values_can_fail(tried: Tried, test: str, able: bool) -> None:
    """One that raises where nothing is returned asserts nothing."""
    evidence = evaluate(tried, PYTHON, {LABELS: add(test)})
    assert evidence.proven == (((LABELS, "LabelTest.test_more"),) if able else ())


def test_two_faults_prove_nothing(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_tests, "MOST_FAULTS", 2)
    evidence = evaluate(tried, PYTHON, {LABELS: add('self.assertEqual(label("a"), label("a"))')})
    assert list_outcomes(evidence) == {FAULTS: UNDECIDED}
    assert evidence.findings == ()


def test_a_test_that_reads_the_code_is_told_from_one_that_runs_it(tried: Tried) -> None:
    test = add('self.assertIn(\'return "nobody"\', open("shop.py").read() + label(""))')
    evidence = evaluate(tried, PYTHON, {LABELS: test})
    assert [(finding.name, finding.file) for finding in evidence.findings] == [
        ("test-reads-source", LABELS)
    ]


@pytest.mark.parametrize(
    ("new", "outcome"),
    [
        ("", NOT_CHECKED),
        ('\n    def test_b(self):\n        self.assertEqual(label("b"), "for b")\n', PASSED),
    ],
)
def test_an_old_test_of_code_size_does_not_count_for_people(
    tried: Tried, new: str, outcome: CheckOutcome
) -> None:
    size = add('self.assertLess(len(open("shop.py").read() + label("")), {})')
    files = PYTHON | {LABELS: size.format(400)}
    after = {LABELS: size.format(405) + new}
    with tried(files, after, commands=(UNITTEST,)) as (original, trial_checkout):
        subject = replace(original, context=replace(original.context, by_people=True))
        evidence = evaluate_new_tests(subject, open_trial(subject, trial_checkout))
    assert list_outcomes(evidence) == {FAULTS: outcome}
    assert evidence.findings == ()


@pytest.mark.parametrize(("existed", "by_people"), [(True, True), (True, False), (False, True)])
def test_an_old_test_that_a_person_edits_need_not_notice_faults(
    tried: Tried, existed: bool, by_people: bool
) -> None:
    """New tests, and tests that a night edits, are refused."""
    hollow = 'self.assertEqual(label("a"), label("a"))'
    more = "tests/test_more.py"
    start = LABEL_TEST.partition("\n    def")[0] + "\n"
    files = PYTHON | ({more: add(hollow, start)} if existed else {})
    with tried(files, {more: add(f"{hollow}  # edited", start)}, commands=(UNITTEST,)) as (
        original,
        trial_checkout,
    ):
        subject = replace(original, context=replace(original.context, by_people=by_people))
        evidence = evaluate_new_tests(subject, open_trial(subject, trial_checkout))
    refused = not (existed and by_people)
    assert [finding.level for finding in evidence.findings] == (["fail"] if refused else [])


@pytest.mark.parametrize("by_people", [True, False])
def test_a_test_that_reaches_no_fault_is_not_checked_for_people(
    tried: Tried, by_people: bool
) -> None:
    """A night's change is held to notice some: a test may have hidden what it came by."""
    test = change(LABEL_TEST, 'label("a"), "for a"', "bool(label), True")
    files = {"tests/test_more.py": test.partition("    def test_nobody")[0] + NEW.format("label")}
    with tried(PYTHON, files, commands=(UNITTEST,)) as (original, trial_checkout):
        subject = replace(original, context=replace(original.context, by_people=by_people))
        evidence = evaluate_new_tests(subject, open_trial(subject, trial_checkout))
    assert [finding.level for finding in evidence.findings] == ([] if by_people else ["fail"])


def test_tests_that_cannot_run_alone_are_not_checked(tried: Tried) -> None:
    evidence = evaluate(tried, PYTHON, {"tests/test_more.py": "import nowhere\n" + add("pass")})
    assert list_outcomes(evidence) == {BEFORE: NOT_CHECKED}


def test_a_change_without_new_tests_has_no_check(tried: Tried) -> None:
    assert evaluate(tried, PYTHON, {"shop.py": POLITE}) == Evidence()


# --- the old tests on the new code ----------------------------------------------------------------


CODE = "def size(n):\n    return n\n"
HEAD = "import unittest\nfrom shop import size\n\n\nclass T(unittest.TestCase):\n"
OLD = HEAD + "    def test_size(self):\n        self.assertEqual(size(3), 3)\n"
REDEFINED = HEAD + "    def test_size(self):\n        self.assertEqual(size(3), 4)\n"
ADDED = OLD + "\n    def test_more(self):\n        self.assertEqual(size(4), 4)\n"
MORE = CODE.replace("return n", "return n + 1")


@pytest.mark.parametrize(
    ("code", "test", "seen_as"),
    [
        (CODE + "\n\nSIZE = size\n", OLD + "\n", CheckOutcome.PASSED),
        (MORE, REDEFINED, CheckOutcome.FAILED),
        (CODE.replace("size", "width"), OLD.replace("size", "width"), CheckOutcome.UNDECIDED),
    ],
)
def test_old_tests_check_changes_that_must_keep_behaviour(
    tried: Tried, code: str, test: str, seen_as: CheckOutcome
) -> None:
    before, commands = {"shop.py": CODE, "test_shop.py": OLD}, ("python3 -m unittest",)
    after = {"shop.py": code, "test_shop.py": test}
    with tried(before, after, category="refactoring", commands=commands) as (
        subject,
        trial_checkout,
    ):
        evidence = run_old_tests(subject, Trial(trial_checkout, lambda _name: "", "old"))
    assert [check.outcome for check in evidence.checks] == [seen_as], evidence
    failed = seen_as is CheckOutcome.FAILED
    flags = [(finding.name, finding.level) for finding in evidence.findings]
    assert flags == ([("old-tests-fail", "fail")] if failed else [])


@pytest.mark.parametrize(
    ("code", "test", "detail"),
    [
        (MORE, REDEFINED, "this change redefines what test_shop.T.test_size demand"),
        (MORE.replace("n + 1", "0 + n"), ADDED, ""),
        (CODE, REDEFINED.replace("size(3), 4", "size(4), 4"), ""),
    ],
    ids=["redefined", "more tests", "tests alone"],
)
def test_redefined_expectations_are_undecided(
    tried: Tried, code: str, test: str, detail: str
) -> None:
    before, commands = {"shop.py": CODE, "test_shop.py": OLD}, ("python3 -m unittest",)
    after = {"shop.py": code, "test_shop.py": test}
    with tried(before, after, commands=commands) as (subject, trial_checkout):
        evidence = run_old_tests(subject, Trial(trial_checkout, lambda _name: "", "old"))
    assert evidence.findings == ()
    assert [check.detail for check in evidence.checks] == ([detail] if detail else [])
