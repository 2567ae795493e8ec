"""New tests on the code before and against mutants: real interpreters, real checkouts."""

import dataclasses
import importlib
import shutil
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.verdicts import Check, CheckOutcome
from gitlab_nightshift.system.process import ProcessLimits
from gitlab_nightshift.verdict.evidence import control_run
from gitlab_nightshift.verdict.evidence.lab import Evidence, compute_deadline
from gitlab_nightshift.verdict.evidence.new_tests import BEFORE, MUTANTS, evaluate_new_tests
from gitlab_nightshift.verdict.proof_commands import Runner
from tests.verdict.evidence.conftest import Tried

module = importlib.import_module("gitlab_nightshift.verdict.evidence.mutant_runs")
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


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is to end by itself does so on a busy machine, too."""
    monkeypatch.setattr(module, "SPARE_S", 600.0)


def test_a_test_that_is_worth_something_kills_its_mutants(tried: Tried) -> None:
    before = {"shop.py": SHOP, "test_shop.py": PLAIN}
    with tried(before, {"test_shop.py": WORTH}, commands=UNITTEST) as (subject, lab):
        seen = evaluate_new_tests(subject, lab)
    found = check(seen, MUTANTS)
    assert (found.outcome, seen.findings) == (CheckOutcome.PASSED, ())
    assert " planted mistakes found" in found.detail
    killed, tried_ = found.detail.split(" planted")[0].split(" of ")
    assert int(killed) >= 5
    assert killed == tried_


READERS = {
    "hash": "zlib.crc32(pathlib.Path('shop.py').read_bytes()) == " + str(zlib.crc32(SHOP.encode())),
    "part": "'sum(prices) * (100' in inspect.getsource(total)",
    "count": "inspect.getsource(total).count('*') == 1",
    "tree": f"ast.dump(ast.parse(inspect.getsource(total))) == ast.dump(ast.parse({SHOP!r}))",
    "code": f"total.__code__.co_code == compile({SHOP!r}, '', 'exec').co_consts[1].co_code",
}


def try_reader(tried: Tried, how: str) -> Evidence:
    own = "\n    def test_discount(self):\n        total([10, 20], 50)\n"
    own += f"        self.assertTrue({READERS[how]})\n"
    before = {"shop.py": SHOP, "test_shop.py": PLAIN}
    after = {"test_shop.py": "import ast, inspect, pathlib, zlib\n" + PLAIN + own}
    with tried(before, after, commands=UNITTEST) as (subject, lab):
        return evaluate_new_tests(subject, lab)


@pytest.mark.parametrize("how", READERS)
def test_a_test_that_recognises_the_text_earns_nothing(tried: Tried, how: str) -> None:
    """Each would notice every planted mistake, and none of these tests checks what comes out."""
    seen = try_reader(tried, how)
    assert names(seen) == [("test-reads-source", "fail")], seen
    assert check(seen, MUTANTS).outcome is CheckOutcome.FAILED


def test_a_syntax_tree_is_recognised_by_the_statement_alone(
    tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_run, "_build_idle_statement", lambda *_: iter(()))
    monkeypatch.setattr(module, "MOST_MUTANTS", 3)
    seen = try_reader(tried, "tree")
    assert (seen.findings, check(seen, MUTANTS).outcome) == ((), CheckOutcome.PASSED)


def test_a_test_that_would_pass_with_any_code_is_a_red_flag(
    tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_MUTANTS", 3)
    before = {
        "shop.py": SHOP,
        "test_shop.py": PLAIN.replace("self.assertEqual(total([1, 2]), 3)", "total([1])"),
    }
    after = {"test_shop.py": WORTHLESS.replace("self.assertEqual(total([1, 2]), 3)", "total([1])")}
    with tried(before, after, commands=UNITTEST) as (subject, lab):
        seen = evaluate_new_tests(subject, lab)
    assert names(seen) == [("mutants-survive", "fail")]
    assert "0 of 3 " in check(seen, MUTANTS).detail
    assert "shop.py:2 `" in seen.findings[0].detail, "the survivors are named"
    assert (seen.findings[0].file, seen.findings[0].line > 5) == ("test_shop.py", True)


def test_a_test_that_claims_to_catch_a_bug_must_fail_before(
    tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_MUTANTS", 1)
    wrong = SHOP.replace("100 - discount", "100 + discount")
    before = {"shop.py": wrong, "test_shop.py": PLAIN}
    claim = "Fix the wrong sign of the discount."
    catching = {"shop.py": SHOP, "test_shop.py": WORTH}
    with tried(before, catching, claim=claim, commands=UNITTEST) as (subject, lab):
        seen = evaluate_new_tests(subject, lab)
        assert (lab.folder / "shop.py").read_text() != wrong
    assert (check(seen, BEFORE).outcome, names(seen)) == (CheckOutcome.PASSED, [])

    twice = PLAIN + "\n    def test_sum(self):\n        self.assertEqual(total([3, 4]), 7)\n"
    passing = {"shop.py": SHOP, "test_shop.py": twice}
    with tried(before, passing, claim=claim, commands=UNITTEST) as (subject, lab):
        claimed = evaluate_new_tests(subject, lab)
        told = evaluate_new_tests(dataclasses.replace(subject, claim="Say it twice."), lab)
    for seen in (claimed, told):
        assert check(seen, BEFORE).detail == "the new tests pass without the change, too"
    assert ("test-passes-before", "fail") in names(claimed)
    assert "test-passes-before" not in [name for name, _ in names(told)]


def test_an_edited_expectation_earns_no_credit(tried: Tried) -> None:
    """It fails without the change because it was edited, not because it catches a fault."""
    before = {"shop.py": SHOP, "test_shop.py": PLAIN}
    after = {"shop.py": SHOP.replace("sum(", "1 + sum("), "test_shop.py": PLAIN.replace("3)", "4)")}
    with tried(before, after, commands=UNITTEST) as (subject, lab):
        alone = check(evaluate_new_tests(subject, lab), BEFORE)
    assert alone.outcome is CheckOutcome.UNDECIDED
    assert alone.detail.startswith("expectations that are edited together with the code")
    both = (
        after["test_shop.py"]
        + "\n    def test_none(self):\n        self.assertEqual(total([]), 1)\n"
    )
    with tried(before, {**after, "test_shop.py": both}, commands=UNITTEST) as (subject, lab):
        assert check(evaluate_new_tests(subject, lab), BEFORE).outcome is CheckOutcome.PASSED


def test_tests_that_cannot_be_run_alone_are_told(tried: Tried) -> None:
    before = {"shop.py": SHOP, "test_shop.py": PLAIN}
    broken = WORTH.replace("import unittest", "import unittest, no_such_module")
    with tried(before, {"test_shop.py": broken}, commands=UNITTEST) as (subject, lab):
        seen = evaluate_new_tests(subject, lab)
    found = check(seen, "New tests alone")
    assert found.outcome is CheckOutcome.NOT_CHECKED
    assert "they could not be run alone (`python3 -m unittest -k …` exit 1" in found.detail


def test_a_change_without_tests_has_none_to_try(tried: Tried) -> None:
    with tried({"shop.py": SHOP}, {"shop.py": SHOP + "# x\n"}) as (subject, lab):
        assert evaluate_new_tests(subject, lab) == Evidence()


def test_an_endless_loop_is_noticed_as_a_mutant(
    tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_MUTANTS", 1)
    monkeypatch.setattr(module, "SPARE_S", 1.0)
    loop = "from time import sleep\n\n\ndef count(n):\n    while n:\n"
    loop += "        n -= 1\n        sleep(0.01)\n    return n\n"
    test = "import unittest\nfrom loop import count\n\n\nclass T(unittest.TestCase):\n"
    test += "    def test_count(self):\n        self.assertEqual(count(1), 0)\n"
    with tried({"loop.py": loop}, {"test_loop.py": test}, commands=UNITTEST) as (subject, lab):
        seen = evaluate_new_tests(subject, lab)
    assert check(seen, MUTANTS).detail == "1 of 1 planted mistakes found"


@dataclass(frozen=True)
class Telling(Runner):
    """Runs nothing: each command passes after two seconds of ``now``; what it may take is kept."""

    now: list[float] = field(default_factory=lambda: [0.0])
    limits_s: list[float | None] = field(default_factory=list)

    def run(
        self, argv: Sequence[str], log: str, *, at_most_s: float | None = None
    ) -> CommandResult:
        self.now[0] += 2.0
        self.limits_s.append(at_most_s)
        (self.logs.folder / f"{log}.out").write_text("Ran 3 tests in 0.1s")
        return CommandResult(" ".join(argv), 0, 2.0)


def test_there_is_an_end_to_it(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may take four times its usual time, and never more than the lab has left."""
    monkeypatch.setattr(module, "SPARE_S", 5.0)
    seen: dict[float, tuple[str, list[float | None]]] = {}
    with tried({"shop.py": SHOP, "test_shop.py": ""}, {"test_shop.py": WORTH}) as (subject, lab):
        for left_s in (3.0, 6.0, 1000.0):
            each = Telling(
                lab.folder, {}, lab.runner.scratch, lab.runner.logs, ProcessLimits, print
            )
            clock = SimpleNamespace(monotonic=lambda now=each.now: now[0])
            monkeypatch.setattr("gitlab_nightshift.verdict.evidence.lab.time", clock)
            own = dataclasses.replace(lab, runner=each, deadline=left_s, commands=UNITTEST)
            seen[left_s] = check(evaluate_new_tests(subject, own), MUTANTS).detail, each.limits_s
            assert compute_deadline(None) == each.now[0] + 300
            assert compute_deadline(100.0) == each.now[0] + 15
    assert seen[3.0] == ("there was no time for one, or none of them compiled", [3.0, 1.0])
    assert seen[6.0][1] == [6.0, 4.0, 2.0], "the control is the second"
    assert seen[1000.0][1] == [1000.0, *[13.0] * 7]


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
def test_node(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MUTANTS", 3)
    before = {"package.json": '{"type": "module"}', "src/clamp.js": JS}
    with tried(before, {"test/clamp.test.js": JS_TEST}) as (subject, lab):
        seen = evaluate_new_tests(subject, lab)
    assert check(seen, MUTANTS).detail.partition(" planted")[1], seen
    assert [finding for finding in seen.findings if finding.level == "fail"] == []


@pytest.mark.skipif(not shutil.which("go"), reason="go is not installed")
def test_go(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard library is compiled by the first run of this user, and kept for others."""
    monkeypatch.setattr(module, "MOST_MUTANTS", 3)
    built = subprocess.check_output(["go", "env", "GOCACHE"], text=True).strip()
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
    with tried(before, {"total_test.go": test}, GOCACHE=built, GOFLAGS="-vet=off") as (
        subject,
        lab,
    ):
        seen = evaluate_new_tests(subject, lab)
    assert check(seen, MUTANTS).detail.partition(" planted")[1], seen
    assert seen.findings == ()
