"""A given task instead of a category: no Analyze, and a failure is one."""

from pathlib import Path

from tests.support.agent import plays
from tests.support.shop import GOOD, refused
from tests.support.world import BOT_TOKEN, PROVING, world

TASK = "Test the discount of total(), please."


def test_a_task_opens_its_merge_request(tmp_path: Path) -> None:
    with world(tmp_path, GOOD, config=PROVING) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_TASK=f"  {TASK}\n")
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert shop.agent.names == ["implement-task-1", "verify-task-1", "mr-task-1"]
        assert TASK in shop.agent.seen[0].prompt
        assert "A person gave this task" in shop.agent.seen[0].prompt
        [mr] = shop.merge_requests
        assert mr.title == "[night-shift/task] Test the discount of total()"
        assert mr.labels == ["night-shift", "task"]
        assert (shop.result["task"], shop.result["category_used"]) == (TASK, "task")
        assert shop.product("plan.json")["task"] == TASK


def test_a_task_runs_on_a_quiet_date_and_beside_open_merge_requests(tmp_path: Path) -> None:
    config = "quiet_dates: [2026-11-16]\nmax_open_mrs: {total: 0}\n"
    with world(tmp_path, GOOD, config=config) as shop:
        assert shop.nightshift("run", NIGHTSHIFT_TASK=TASK).exit_status == 0
        assert len(shop.merge_requests) == 1


def test_a_task_that_fails_is_no_quiet_night(tmp_path: Path) -> None:
    script = plays(GOOD, {"verify": refused("It tests nothing.")})
    with world(tmp_path, script) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_TASK=TASK)
        assert (done.exit_status, shop.result["error_code"]) == (8, "E_TEST_FAILED")
        assert "the task could not be done: It tests nothing." in done.last_line
        assert len(shop.agent.names) == 6, "three attempts"
        assert shop.written == []


def test_a_task_that_changes_nothing(tmp_path: Path) -> None:
    with world(tmp_path, plays(GOOD, {"implement": []})) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_TASK=TASK)
        assert (done.exit_status, shop.result["error_code"]) == (9, "E_APPLY_FAILED")


def test_a_task_may_not_break_the_rules(tmp_path: Path) -> None:
    script = plays(GOOD, {"implement": [("write", "package.json", "{}\n")]})
    with world(tmp_path, script) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_TASK=TASK)
        assert (done.exit_status, shop.result["error_code"]) == (3, "E_POLICY_DENY")


def test_a_task_that_is_a_document_is_refused(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_TASK="x" * 100_000)
        assert done.exit_status == 2
        assert "task" in done.stderr
        assert len(done.stderr) < 400
        assert shop.agent.seen == []


def test_a_secret_in_a_task_reaches_no_model(tmp_path: Path) -> None:
    """GitLab replaces $GITLAB_TOKEN in what is typed into the form."""
    with world(tmp_path, GOOD) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_TASK=f"Print {BOT_TOKEN} in the log.")
        assert done.exit_status == 2
        assert "task: it holds a secret" in done.stderr
        assert BOT_TOKEN not in done.stderr + done.stdout
        assert shop.agent.seen == []
