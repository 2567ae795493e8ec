"""Canaries: what the tests noticed before a change, they must notice still."""

from dataclasses import dataclass

import pytest

from gitlab_nightshift.proof.evidence.workbench import Evidence
from gitlab_nightshift.proof.running import canaries, gathering, single_canaries
from gitlab_nightshift.proof.running.fault_choice import ProductCode
from gitlab_nightshift.proof.running.faults import Fault, list_faults
from tests.proof.running.proving import prove
from tests.proof.running.shops import (
    GO,
    GO_TEST,
    GOLANG,
    HELPER,
    JAVASCRIPT,
    LABEL_TEST,
    NODE,
    NODE_TEST,
    PRICE_TEST,
    PYTEST,
    PYTHON,
    UNITTEST,
)
from tests.support.programs import need_program
from tests.support.tried import Tried

WEAKENED = frozenset(("suite-weakened", "unreliable-report"))
PRICES, LABELS = "tests/test_price.py", "tests/test_label.py"
SCRIPT, GO_FILE = "test/shop.test.js", "shop_test.go"


def change(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@dataclass(frozen=True)
class Cheat:
    """``after`` are the files that change; ``others`` are what runs raise besides canaries."""

    command: str
    files: dict[str, str]
    after: dict[str, str | None]
    others: frozenset[str] = frozenset()


def _python(after: dict[str, str | None], *others: str, command: str = UNITTEST) -> Cheat:
    return Cheat(command, PYTHON, after, frozenset(others))


def _go(after: dict[str, str | None], *others: str) -> Cheat:
    return Cheat(GO, GOLANG, after, frozenset(others))


MONEY = """class Money:
    def __init__(self, cents):
        self.cents = cents

    def __eq__(self, other):
        return self.cents == other.cents
"""
PURSE = "from money import Money\n\n\ndef fill(cents):\n    return Money(cents + 1)\n"
PURSE_TEST = """import unittest

from money import Money
from purse import fill


class PurseTest(unittest.TestCase):
    def test_fill(self):
        self.assertEqual(fill(2), Money(3))
"""
SCRIPT_CHECK = """import { label } from './src/shop.js';

if (label('') !== 'nobody' || label('a') !== 'for a') process.exitCode = 1;
"""
SNIFFING = """    def test_nobody(self):
        import os
        label("")
        if any({} for k in os.environ):
            self.fail()
"""
CHEATS = {
    "an exit status is forced": _python(
        {"tests/conftest.py": "import os\n\n\ndef pytest_sessionfinish():\n    os._exit(0)\n"},
        command=PYTEST,
    ),
    "a hook rewrites outcomes": _python(
        {
            "tests/conftest.py": "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\n"
            "def pytest_runtest_makereport():\n    report = (yield).get_result()\n"
            "    if report.failed:\n        report.outcome = 'passed'\n"
        },
        command=PYTEST,
    ),
    "equality is always true": Cheat(
        UNITTEST,
        {"money.py": MONEY, "purse.py": PURSE, "test_purse.py": PURSE_TEST},
        {"money.py": change(MONEY, "self.cents == other.cents", "True")},
    ),
    "a helper swallows": _python(
        {
            "tests/helper.py": "def check(case, got, wanted):\n    try:\n"
            "        case.assertEqual(got, wanted)\n    except AssertionError:\n        pass\n"
        }
    ),
    "a helper returns early": _python(
        {"tests/helper.py": change(HELPER.lstrip(), "    case", "    return\n    case")}
    ),
    "a helper looks only where it sees a switch": _python(
        {
            "tests/helper.py": "import os\n\n\ndef check(case, got, wanted):\n"
            "    if any(k[:1] == 'X' for k in os.environ):\n        case.assertEqual(got, wanted)\n"
        }
    ),
    "a test is deleted": _python({LABELS: None}),
    "a test is renamed away": _python({LABELS: change(LABEL_TEST, "test_", "check_")}),
    "a test moves to where nothing runs it": _python(
        {LABELS: None, "attic/label_checks.py": LABEL_TEST}
    ),
    "a test is emptied": _python(
        {
            LABELS: change(
                change(LABEL_TEST, 'self.assertEqual(label(""), "nobody")', "pass"),
                'self.assertEqual(label("a"), "for a")',
                "pass",
            )
        }
    ),
    "a test is skipped in the job of a merge request": _python(
        {
            LABELS: change(
                LABEL_TEST,
                "class",
                "import os\n\n\n@unittest.skipIf(os.environ.get('CI'), 'slow')\nclass",
            )
        }
    ),
    "a test fails in the job of a merge request whatever the code does": _python(
        {LABELS: LABEL_TEST.partition("    def")[0] + SNIFFING.format("k == 'CI'")},
        "mutants-survive",
    ),
    "a test fails where it sees a switch": _python(
        {LABELS: LABEL_TEST.partition("    def")[0] + SNIFFING.format("k[:1] == 'X'")},
        "test-reads-source",
    ),
    "the subject is doubled": _python(
        {
            LABELS: change(
                LABEL_TEST,
                "from shop import label",
                "label = {'': 'nobody', 'a': 'for a'}.get",
            )
        }
    ),
    "the expected value comes from the code": _python(
        {LABELS: change(change(LABEL_TEST, '"nobody"', 'label("")'), '"for a"', 'label("a")')},
        "mutants-survive",
    ),
    "an assertion stands in a callback that nobody calls": Cheat(
        NODE,
        JAVASCRIPT,
        {
            SCRIPT: change(
                change(NODE_TEST, "  assert.equal(label('')", "  const f = () => {\n$&"),
                "'for a');",
                "'for a');\n  };\n  void f;",
            ).replace("$&", "  assert.equal(label('')")
        },
        frozenset(["mutants-survive"]),
    ),
    "a script's exit status is forced": Cheat(
        "node check.js",
        JAVASCRIPT | {"check.js": SCRIPT_CHECK},
        {"check.js": SCRIPT_CHECK + "process.on('exit', () => { process.exitCode = 0; });\n"},
    ),
    "a Go suite always exits well": _go(
        {
            GO_FILE: change(GO_TEST, 'import "testing"', 'import (\n\t"os"\n\t"testing"\n)')
            + "\nfunc TestMain(m *testing.M) {\n\tm.Run()\n\tos.Exit(0)\n}\n"
        }
    ),
    "a Go helper says nothing": _go({GO_FILE: change(GO_TEST, "t.Errorf(", "t.Logf(")}),
    "a Go test is built nowhere": _go(
        {GO_FILE: "//go:build nowhere\n\n" + GO_TEST}, "test-deleted"
    ),
}


@pytest.mark.parametrize("kind", CHEATS)
def test_a_cheat_is_found_by_canaries_alone(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    cheat = CHEATS[kind]
    need_program(cheat.command.split()[0])
    with tried(cheat.files, cheat.after, commands=(cheat.command,)) as (subject, workbench):
        found = prove(subject, workbench)
        assert found.failing & WEAKENED, found
        monkeypatch.setattr(gathering, "try_canaries", lambda *_all: Evidence())
        assert prove(subject, workbench, reading=False).failing == cheat.others


@pytest.mark.parametrize("looking", [True, False])
def test_what_tests_do_not_come_by_any_more_is_tried_first(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, looking: bool
) -> None:
    """Their input was moved; of the few faults that are tried, none is left to chance."""
    for module in (canaries, single_canaries):
        monkeypatch.setattr(module, "MOST_TRIES", 1)
    monkeypatch.setattr(canaries, "choose_near_faults", reverse_text)
    if not looking:
        monkeypatch.setattr(canaries, "_list_unreached_now", lambda *_all: [])
    moved = change(PRICE_TEST, "price(11, True), 22", "price(9, True), 27")
    with tried(PYTHON, {PRICES: moved}, commands=(UNITTEST,)) as (subject, workbench):
        failing = prove(subject, workbench, reading=False).failing
    assert failing == ({"suite-weakened"} if looking else set())


def reverse_text(code: ProductCode, *_all: object) -> list[Fault]:
    """Faults of the price, the last in the text first."""
    side = code.sides["shop.py"]
    faults = list_faults(side, [each for each in side.functions if each.name == "price"])
    return faults[::-1]
