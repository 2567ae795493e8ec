"""A test that a given task asks for: run by this program, and only one that the policy lists."""

from pathlib import Path

import pytest

from tests.support.shop import GOOD
from tests.support.world import world

TASK = "Test the discount of total(), please."
UNIT = "python3 -m unittest"
TESTS = """\
verify_commands: [make test]
policy:
  test_commands:
    unit: {command: [python3, -m, unittest], args: [-v]}
"""


def test_the_change_is_proven_by_it(tmp_path: Path) -> None:
    with world(tmp_path, GOOD, config=TESTS) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_TASK=TASK, NIGHTSHIFT_TASK_TEST="unit -v")
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert f"{UNIT} -v" in shop.product("plan.json")["verify_commands"]
        ran = shop.bundle["proposal"]["commands"]
        assert [each["command"] for each in ran] == ["make test", f"{UNIT} -v"]


@pytest.mark.parametrize(
    ("asked", "why"), [("e2e", "no such test"), ("unit --pdb", "is not on its list")]
)
def test_one_that_is_not_listed_is_refused_before_anything_is_spent(
    tmp_path: Path, asked: str, why: str
) -> None:
    with world(tmp_path, GOOD, config=TESTS) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_TASK=TASK, NIGHTSHIFT_TASK_TEST=asked)
        assert done.exit_status == 2 and why in done.last_line
        assert shop.agent.seen == []


def test_a_night_without_a_task_does_not_run_it(tmp_path: Path) -> None:
    with world(tmp_path, GOOD, config=TESTS) as shop:
        done = shop.nightshift("plan", NIGHTSHIFT_TASK_TEST="e2e")
        assert done.exit_status == 0, done.log
        assert shop.product("plan.json")["verify_commands"] == ["make test"]
