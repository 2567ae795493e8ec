"""A given task instead of a category: no Analyze, and a failure is one."""

from pathlib import Path

from tests.support.agent import Play, plays, write
from tests.support.shop import GOOD, refused
from tests.support.world import BOT_TOKEN, World, world

TASK = "Test the discount of total(), please."
UNIT = "python3 -m unittest"
CONFIG = """\
reviewer: rita
quiet_dates: [2026-11-16]
max_open_mrs: {total: 0}
verify_commands: ['true']
policy:
  test_commands:
    unit: {command: [python3, -m, unittest], args: [-v]}
"""


def test_a_task_opens_its_merge_request(tmp_path: Path) -> None:
    """On a quiet date and beside open merge requests too; proven by the test that was asked for."""
    with world(tmp_path, GOOD, config=CONFIG) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_TASK=f"  {TASK}\n", NIGHTSHIFT_TASK_TEST="unit -v")
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert shop.agent.names == ["implement-task-1", "verify-task-1", "mr-task-1"]
        assert TASK in shop.agent.seen[0].prompt
        assert "A person gave this task" in shop.agent.seen[0].prompt
        [mr] = shop.merge_requests
        assert mr.title == "[night-shift/task] Test the discount of total()"
        assert mr.labels == ["night-shift", "task"]
        assert (shop.result["task"], shop.result["category_used"]) == (TASK, "task")
        plan = shop.product("plan.json")
        assert plan["task"] == TASK
        assert f"{UNIT} -v" in plan["verify_commands"]
        ran = shop.bundle["proposal"]["commands"]
        assert [each["command"] for each in ran] == ["true", f"{UNIT} -v"]


def test_a_task_of_another_pipeline_costs_nothing_without_approval(tmp_path: Path) -> None:
    with world(tmp_path, GOOD, config=CONFIG) as shop:
        given = {"NIGHTSHIFT_TASK": TASK, "CI_PIPELINE_SOURCE": "pipeline"}
        done = shop.nightshift("run", **given)
        shop.assert_nothing_spent(done, 4, "the task comes from another pipeline, of @")
        assert shop.result["error_code"] == "E_APPROVAL_REQUIRED"


def failed(shop: World, script: dict[str, Play], status: int, code: str, text: str = "") -> None:
    """The task is not done, which is an error; nothing is published."""
    shop.agent.script(plays(GOOD, script))
    done = shop.nightshift("run", NIGHTSHIFT_TASK=TASK)
    assert (done.exit_status, shop.result["error_code"]) == (status, code)
    assert text in done.last_line
    assert shop.written == []


def test_a_task_that_fails_is_no_quiet_night(tmp_path: Path) -> None:
    with world(tmp_path) as shop:
        why = "It tests nothing."
        said = f"could not be done: Verify (an agent) says: {why}"
        failed(shop, {"verify": refused(why)}, 8, "E_TEST_FAILED", said)
        assert len(shop.agent.names) == 4, "the second attempt fails as the first: no third"
        shop.env["NIGHTSHIFT_MAX_IMPLEMENT_RETRIES"] = "0"
        failed(shop, {"implement": []}, 9, "E_APPLY_FAILED")
        failed(shop, {"implement": [write("package.json", "{}\n")]}, 3, "E_POLICY_DENY")


def test_what_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    cases = [
        ("x" * 100_000, "", "task"),
        # GitLab replaces $GITLAB_TOKEN in what is typed into the form
        (f"Print {BOT_TOKEN} in the log.", "", "task: it contains a secret"),
        (TASK, "e2e", "no such test"),
        (TASK, "unit --pdb", "is not on its list"),
    ]
    with world(tmp_path, GOOD, config=CONFIG) as shop:
        for task, test, why in cases:
            command = "run" if BOT_TOKEN in task else "plan"
            done = shop.nightshift(command, NIGHTSHIFT_TASK=task, NIGHTSHIFT_TASK_TEST=test)
            shop.assert_nothing_spent(done, 2, why)
            assert BOT_TOKEN not in done.stderr + done.stdout
            assert len(done.stderr) < 400
        done = shop.nightshift("plan", NIGHTSHIFT_TASK_TEST="unit", NIGHTSHIFT_QUIET_DATES="")
        shop.assert_nothing_spent(done, 2, "NIGHTSHIFT_TASK_TEST: task_test: it applies to a task")
