"""New tests on the code before and against mutants: real interpreters, real checkouts."""

import shutil

import pytest

from gitlab_nightshift.records import Check, Seen
from gitlab_nightshift.verdict.evidence import Evidence
from gitlab_nightshift.verdict.evidence.new_tests import BEFORE, MUTANTS, new_tests
from tests.verdict.evidence.conftest import Tried

SHOP = "def total(prices, discount=0):\n    return sum(prices) * (100 - discount) / 100\n"
HEAD = "import unittest\nfrom shop import total\n\n\nclass TotalTest(unittest.TestCase):\n"
PLAIN = HEAD + "    def test_plain(self):\n        self.assertEqual(total([1, 2]), 3)\n"
WORTH = PLAIN + (
    "\n    def test_discount(self):\n        self.assertEqual(total([10, 20], 50), 15)\n"
    "        self.assertEqual(total([40]), 40)\n"
)
WORTHLESS = PLAIN + (
    "\n    def test_discount(self):\n        self.assertIsNotNone(str(total([10, 20], 50)))\n"
)
UNITTEST = ("python3 -m unittest",)


def check(seen: Evidence, title: str) -> Check:
    (found,) = [each for each in seen.checks if each.title == title]
    return found


def names(seen: Evidence) -> list[tuple[str, str]]:
    return [(finding.name, finding.level) for finding in seen.findings]


def test_a_test_that_is_worth_something_kills_its_mutants(tried: Tried) -> None:
    before = {"shop.py": SHOP, "test_shop.py": PLAIN}
    with tried(before, {"test_shop.py": WORTH}, commands=UNITTEST) as (subject, lab):
        seen = new_tests(subject, lab)
    found = check(seen, MUTANTS)
    assert (found.seen, seen.findings) == (Seen.PASSED, ())
    assert found.detail.startswith("the new tests kill ")
    killed, tried_ = found.detail.split("kill ")[1].split(" mutants")[0].split(" of ")
    assert int(killed) >= 5
    assert killed == tried_


def test_a_test_that_would_pass_with_any_code_is_a_red_flag(tried: Tried) -> None:
    before = {
        "shop.py": SHOP,
        "test_shop.py": PLAIN.replace("self.assertEqual(total([1, 2]), 3)", "total([1])"),
    }
    after = {"test_shop.py": WORTHLESS.replace("self.assertEqual(total([1, 2]), 3)", "total([1])")}
    with tried(before, after, commands=UNITTEST) as (subject, lab):
        seen = new_tests(subject, lab)
    assert names(seen) == [("mutants-survive", "fail")]
    assert "kill 0 of " in check(seen, MUTANTS).detail
    assert "shop.py:2 `" in seen.findings[0].detail, "the survivors are named"
    assert (seen.findings[0].file, seen.findings[0].line > 5) == ("test_shop.py", True)


def test_a_test_that_catches_the_bug_fails_before(tried: Tried) -> None:
    wrong = SHOP.replace("100 - discount", "100 + discount")
    before = {"shop.py": wrong, "test_shop.py": PLAIN}
    after = {"shop.py": SHOP, "test_shop.py": WORTH}
    claim = "Fix the wrong sign of the discount."
    with tried(before, after, claim=claim, commands=UNITTEST) as (subject, lab):
        seen = new_tests(subject, lab)
        assert (lab.folder / "shop.py").read_text() != wrong
    assert (check(seen, BEFORE).seen, names(seen)) == (Seen.PASSED, [])


@pytest.mark.parametrize(
    ("claim", "flags"),
    [
        ("Fix the wrong sign of the discount.", [("test-passes-before", "fail")]),
        ("Say it twice.", []),
    ],
)
def test_a_test_that_claims_to_catch_a_bug_must_fail_before(
    tried: Tried, claim: str, flags: list[tuple[str, str]]
) -> None:
    wrong = SHOP.replace("100 - discount", "100 + discount")
    twice = PLAIN + "\n    def test_sum(self):\n        self.assertEqual(total([3, 4]), 7)\n"
    with tried(
        {"shop.py": wrong, "test_shop.py": PLAIN},
        {"shop.py": SHOP, "test_shop.py": twice},
        claim=claim,
        commands=UNITTEST,
    ) as (subject, lab):
        seen = new_tests(subject, lab)
    assert check(seen, BEFORE).detail == "they pass with the product code as it was, too"
    assert [each for each in names(seen) if each[0] == "test-passes-before"] == flags


def test_tests_that_cannot_be_run_alone_are_told(tried: Tried) -> None:
    pascal = {"shop.py": SHOP, "test_shop.py": PLAIN}
    broken = WORTH.replace("import unittest", "import unittest, no_such_module")
    with tried(pascal, {"test_shop.py": broken}, commands=UNITTEST) as (subject, lab):
        seen = new_tests(subject, lab)
    found = check(seen, "New tests alone")
    assert found.seen is Seen.NOT_CHECKED
    assert "they could not be run alone (`python3 -m unittest -k …` exit 1" in found.detail


def test_a_change_without_tests_has_none_to_try(tried: Tried) -> None:
    with tried({"shop.py": SHOP}, {"shop.py": SHOP + "# x\n"}) as (subject, lab):
        assert new_tests(subject, lab) == Evidence()


def test_there_is_an_end_to_it(tried: Tried) -> None:
    """An endless loop is noticed as a mutant, and costs no more than the lab's time."""
    loop = "def count(n):\n    i = 0\n    while i < n:\n        i += 1\n    return i\n"
    test = "import unittest\nfrom loop import count\n\n\nclass T(unittest.TestCase):\n"
    test += "    def test_count(self):\n        self.assertEqual(count(3), 3)\n"
    before, after = {"loop.py": loop}, {"test_loop.py": test}
    with tried(before, after, commands=UNITTEST, seconds=20) as (subject, lab):
        seen = new_tests(subject, lab)
        assert lab.left_s() > -10
    assert check(seen, MUTANTS).detail.startswith("the new tests kill ")


JS = (
    "export function clamp(x, low, high) {\n"
    "  if (x < low) return low;\n  return x > high ? high : x;\n}\n"
)
JS_TEST = (
    "import test from 'node:test';\nimport assert from 'node:assert';\n"
    "import { clamp } from '../src/clamp.js';\n\n"
    "test('clamps', () => {\n"
    "  assert.equal(clamp(1, 2, 4), 2);\n  assert.equal(clamp(9, 2, 4), 4);\n"
    "  assert.equal(clamp(3, 2, 4), 3);\n});\n"
)


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_node(tried: Tried) -> None:
    before = {"package.json": '{"type": "module"}', "src/clamp.js": JS}
    with tried(before, {"test/clamp.test.js": JS_TEST}) as (subject, lab):
        seen = new_tests(subject, lab)
    assert check(seen, MUTANTS).detail.startswith("the new tests kill "), seen
    assert [finding for finding in seen.findings if finding.level == "fail"] == []


@pytest.mark.skipif(not shutil.which("go"), reason="go is not installed")
def test_go(tried: Tried) -> None:
    code = (
        "package shop\n\nfunc Total(a, b int) int {\n"
        "\tif a < 0 {\n\t\treturn b\n\t}\n\treturn a + b\n}\n"
    )
    test = (
        'package shop\n\nimport "testing"\n\nfunc TestTotal(t *testing.T) {\n'
        "\tif Total(1, 2) != 3 || Total(-1, 4) != 4 || Total(0, 2) != 2 {\n"
        '\t\tt.Fatal("wrong")\n\t}\n}\n'
    )
    before = {"go.mod": "module example.com/shop\n\ngo 1.19\n", "total.go": code}
    with tried(before, {"total_test.go": test}) as (subject, lab):
        seen = new_tests(subject, lab)
    assert check(seen, MUTANTS).detail.startswith("the new tests kill "), seen
    assert seen.findings == ()
