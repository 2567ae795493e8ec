"""Checks without a result: never passed, and a failure only if the change caused it."""

import pytest

from gitlab_nightshift.proof.running.base_canaries import BaseCanaries
from gitlab_nightshift.proof.running.single_canaries import TITLE
from gitlab_nightshift.records.verdicts import CheckOutcome
from gitlab_nightshift.sandbox.process import ProcessLimits
from tests.proof.running.proving import prove
from tests.proof.running.shops import LABEL_TEST, PYTHON, SHOP, UNITTEST
from tests.proof.running.test_canaries import LABELS, change
from tests.support.tried import Tried

NOT_CHECKED = CheckOutcome.NOT_CHECKED
LAZY = """import unittest

from shop import label, price


class LazyTest(unittest.TestCase):
    def test_nothing(self):
        label("a"), price(1, False)
"""
HELPER = "tests/helper.py"
MISTAKE = "def check(case, got, wanted):\n    if got != wanted:\n        {}\n"


def test_a_suite_that_notices_no_fault_is_not_checked(tried: Tried) -> None:
    files = {"shop.py": SHOP, "test_lazy.py": LAZY}
    after = {"test_lazy.py": change(LAZY, '"a"', '"b"')}
    with tried(files, after, commands=(UNITTEST,)) as (subject, trial_checkout):
        found = prove(subject, trial_checkout, reading=False)
    told = found.list_checks(TITLE)
    assert [outcome for outcome, _ in told] == [NOT_CHECKED, NOT_CHECKED]
    assert "no fault was found that the tests of the base notice" in told[0][1]
    assert "suite-weakened" not in found.flags


def test_a_failing_base_is_reported_once(tried: Tried) -> None:
    unable = BaseCanaries(unable="the commands fail on the base")
    after = {LABELS: change(LABEL_TEST, "nobody(", "no_name(")}
    with tried(PYTHON, after, commands=(UNITTEST,)) as (subject, trial_checkout):
        found = prove(subject, trial_checkout, unable)
    assert found.list_checks(TITLE) == [(NOT_CHECKED, "the commands fail on the base")]
    assert found.evidence.findings == ()


@pytest.mark.parametrize("by_people", [True, False])
@pytest.mark.parametrize(
    "does",
    [
        pytest.param("__import__('time').sleep(300)", id="hangs"),
        pytest.param("__import__('os').kill(__import__('os').getpid(), 9)", id="dies"),
        pytest.param("[print('x' * 1_000_000) for _ in range(1_000)]", id="floods"),
        pytest.param(
            "open(__import__('glob').glob(__import__('os').environ['NIGHTSHIFT_REPORTS']"
            " + '/unit*')[0], 'w').write('{'), case.fail()",
            id="lies",
        ),
    ],
)
def test_a_runner_that_the_change_breaks_is_unknown(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, does: str, by_people: bool
) -> None:
    """It hangs, dies, floods or lies where a test would fail."""
    monkeypatch.setattr("gitlab_nightshift.proof.running.trial.EXTRA_S", 3.0)
    monkeypatch.setattr("gitlab_nightshift.proof.running.single_canaries.MOST_CANARIES", 1)
    after = {HELPER: MISTAKE.format(does)}
    limits = ProcessLimits(output_bytes=5_000_000)
    with tried(PYTHON, after, commands=(UNITTEST,), by_people=by_people, limits=limits) as (
        subject,
        trial_checkout,
    ):
        found = prove(subject, trial_checkout, reading=False)
    assert found.list_checks(TITLE)[-1][0] is NOT_CHECKED
    assert found.flags["suite-weakened"] == ("warn" if by_people else "fail"), found


FLAKY = """

class FlakyTest(unittest.TestCase):
    def test_sometimes(self):
        path = pathlib.Path(os.environ["HOME"], "runs")
        path.write_text(path.read_text() + "." if path.exists() else "." * {start})
        self.assertTrue(len(path.read_text()) % {period})
"""


@pytest.mark.parametrize("start", range(3))
@pytest.mark.parametrize("period", [2, 3])
def test_a_flaky_test_does_not_count(tried: Tried, period: int, start: int) -> None:
    """Whatever it says of the base, of the change and of each fault."""
    flaky = FLAKY.format(start=start, period=period)
    imports = "import os\nimport pathlib\n"
    before = PYTHON | {LABELS: imports + LABEL_TEST + flaky}
    after = {LABELS: imports + change(LABEL_TEST, "test_nobody", "test_no_name") + flaky}
    with tried(before, after, commands=(UNITTEST,)) as (subject, trial_checkout):
        found = prove(subject, trial_checkout)
    assert found.evidence.findings == (), found.evidence
