"""The tests that ran before a change and with it, by real runners."""

import functools
import sys
from dataclasses import replace
from pathlib import Path

from gitlab_nightshift.proof.evidence.collected_runs import compare_collections
from gitlab_nightshift.proof.evidence.evidence_records import Evidence, EvidenceSubject
from gitlab_nightshift.proof.proof_commands import CommandRun, run_and_collect
from gitlab_nightshift.proof.reports.report_request import build_text_reader
from gitlab_nightshift.proof.running.trial import TrialCheckout
from gitlab_nightshift.records.verdicts import CheckOutcome
from gitlab_nightshift.repository.tree_objects import write_tree_with_files
from tests.support.scripts import ScriptCase, read_cases
from tests.support.tables import each
from tests.support.tried import Tried

PYTEST, UNITTEST = f"{sys.executable} -m pytest -q", f"{sys.executable} -m unittest"
TWO = "def test_one():\n    assert 1 + 1 == 2\n\n\ndef test_two():\n    assert 2 + 2 == 4\n"
CASES = (
    "import unittest\n\n\nclass Sums(unittest.TestCase):\n    def test_one(self):\n"
    "        self.assertEqual(1 + 1, 2)\n\n    def test_two(self):\n"
    "        self.assertEqual(2 + 2, 4)\n"
)
SEVERAL = (
    "import pytest\n\n\n@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_n(n):\n    assert n\n"
)
HOOK = (
    "def pytest_collection_modifyitems(items):\n"
    "    items[:] = [item for item in items if item.name != 'test_two']\n"
)


def run_on(
    subject: EvidenceSubject, trial_checkout: TrialCheckout, tree: str, name: str
) -> tuple[CommandRun, ...]:
    back = functools.partial(trial_checkout.checkout.apply_tree, tree)
    back()
    read = build_text_reader(trial_checkout.checkout.repository, subject.base)
    return run_and_collect(trial_checkout.runner, trial_checkout.commands, name, back, read)


def compare(subject: EvidenceSubject, trial_checkout: TrialCheckout) -> Evidence:
    base = write_tree_with_files(trial_checkout.checkout.repository, subject.base, {})
    if (
        key := (base, *trial_checkout.commands)
    ) not in _BEFORE:  # many changes begin at the same tests
        _BEFORE[key] = run_on(subject, trial_checkout, base, "before")
    runs = run_on(subject, trial_checkout, subject.tree, "after")
    return compare_collections(subject, [run.collection for run in _BEFORE[key]], runs)


_BEFORE: dict[tuple[str, ...], tuple[CommandRun, ...]] = {}


COMMANDS = f"""
two() {{ cat > test_a.py <<X
{TWO}X
}}
cases() {{ cat > test_a.py <<X
{CASES}X
}}
several() {{ cat > test_n.py <<X
{SEVERAL}X
}}
hook() {{ cat > conftest.py <<X
{HOOK}X
}}
fail() {{ sed -i 's/== 4/== 5/' test_a.py; }}
PYTEST="{PYTEST}"; UNITTEST="{UNITTEST}"
"""
RUNS = {"pytest": PYTEST, "unittest": UNITTEST}


@each("case", read_cases(Path(__file__).with_name("collected.cases")))
def test_collected_tests_before_and_after(tried: Tried, case: ScriptCase) -> None:
    command = RUNS.get(case.asked["run"], case.asked["run"])
    with tried(*case.change({}, COMMANDS), commands=(command,)) as (subject, trial_checkout):
        evidence = compare(subject, trial_checkout)
    assert [finding.name for finding in evidence.findings] == case.expected, evidence
    assert {finding.level for finding in evidence.findings} <= {"fail"}
    wanted = CheckOutcome.FAILED if case.expected else CheckOutcome.PASSED
    assert wanted in [check.outcome for check in evidence.checks], evidence


def test_a_test_whose_end_reading_judges_is_counted(tried: Tried) -> None:
    """Else the numbers would differ without a word."""
    one, _, _ = TWO.partition("\n\n\ndef test_two")
    with tried({"test_a.py": TWO}, {"test_a.py": f"{one}\n"}, commands=(PYTEST,)) as (
        subject,
        trial_checkout,
    ):
        evidence = compare(subject, trial_checkout)
    assert evidence.findings == ()
    assert evidence.checks[0].detail.endswith(": 2 tests before, 1 with the change (1 gone)")


NAMED = f"{PYTEST} test_a.py"
UNREAD = f'{sys.executable} -c "import test_b"'
"""A command that makes no report."""


@each(
    ("path", "commands", "reported"),
    [
        ("test_b.py", (NAMED,), True),
        ("test_a.py", (NAMED,), False),
        ("test_b.py", (PYTEST,), False),
        ("test_b.py", (NAMED, PYTEST), False),
        ("test_b.py", (NAMED, UNREAD), False),  # may have run it
        ("test_b.py", (UNREAD,), False),
    ],
)
def test_a_new_test_that_no_command_ran_is_named(
    tried: Tried, path: str, commands: tuple[str, ...], reported: bool
) -> None:
    new = f"{TWO}\n\ndef test_three():\n    assert 3 + 3 == 6\n"
    with tried({"test_a.py": TWO, "test_b.py": TWO}, {path: new}, commands=commands) as trial:
        checks = compare(*trial).checks
    named = [(check.outcome, check.detail) for check in checks if "no command ran" in check.detail]
    expected = (CheckOutcome.NOT_CHECKED, f"no command ran {path}::test_three")
    assert named == ([expected] if reported else [])


@each(
    ("by_people", "product", "level"),
    [(True, "TWO = 3\n", "warn"), (True, None, "fail"), (False, "TWO = 3\n", "fail")],
)
def test_cases_that_go_with_the_code_are_asked_about_in_a_persons_change(
    tried: Tried, by_people: bool, product: str | None, level: str
) -> None:
    """The data of a removed feature, which no rule reads as a test."""
    after: dict[str, str | None] = {"conftest.py": HOOK}
    after |= {"shop.py": product} if product else {}
    files = {"test_a.py": TWO, "shop.py": "TWO = 2\n"}
    with tried(files, after, commands=(PYTEST,)) as (made, trial_checkout):
        subject = replace(made, context=replace(made.context, by_people=by_people))
        evidence = compare(subject, trial_checkout)
    assert [(f.name, f.level) for f in evidence.findings] == [("test-deleted", level)]


def test_a_person_is_asked_about_a_test_that_a_helper_skips_here(tried: Tried) -> None:
    """Their condition may be right about this machine; a night's is refused."""
    helper = "def skip_on_old(version):\n    return version {} 3\n"
    test = (
        "import sys\n\nimport pytest\n\nfrom helper import skip_on_old\n\n\ndef test_one():\n"
        "    if skip_on_old(sys.version_info.major):\n        pytest.skip('too old')\n"
    )
    before = {"helper.py": helper.format("<"), "test_a.py": test}
    with tried(before, {"helper.py": helper.format("<=")}, commands=(PYTEST,)) as (
        night,
        trial_checkout,
    ):
        person = replace(night, context=replace(night.context, by_people=True))
        levels = [
            [(f.name, f.level) for f in compare(s, trial_checkout).findings]
            for s in (night, person)
        ]
    assert levels == [[("test-skipped", "fail")], [("test-skipped", "warn")]]
