"""SIGTERM, SIGINT and SIGKILL in every stage: agents are gone, the checkout is as before."""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import Play, append, hang, plays, sh, stubborn
from tests.support.shop import GOOD, TEST, refused
from tests.support.trees import processes_in, wait_for
from tests.support.world import FILES, Done, World, ended, world

MESS = sh("echo x > shop.py; rm run.sh; chmod 700 docs; touch new.txt; git add -A")
SLOW = {**FILES, "slow.sh": "[ ! -e test_new.py ] || sleep 60\n"}


def stopped(
    shop: World, reached: Callable[[], Any], number: signal.Signals = signal.SIGTERM
) -> Done:
    """Run a night, send the signal once it has come so far, and wait for its end."""
    process = shop.start("run")
    wait_for(lambda: reached() or process.poll() is not None, "the night to come so far")
    assert process.poll() is None, process.communicate()
    process.send_signal(number)
    return ended(process, 30)


def tidied_up(shop: World, done: Done, status: int = 143) -> None:
    code = {143: "E_TERMINATED", 130: "E_INTERRUPTED"}[status]
    assert (done.exit_status, done.stderr) == (status, "")
    result = shop.result
    assert result["error_code"] == code
    assert "stopped by a signal" in result["reason"]
    assert code in done.last_line
    assert shop.bundle["base_sha"] == shop.sha
    assert {"report.html", "junit.xml", "nightshift.env", "events.jsonl"} <= set(shop.products())
    shop.assert_put_back()


def faulty(shop: World, method: str, path: str) -> Callable[[], bool]:
    """GitLab is down for these requests; tells when one of them has come."""
    shop.gitlab.fail_next(method, path, 502, "<html>", times=1000)
    return lambda: any(request.status == 502 for request in shop.gitlab.requests)


def test_sigterm_while_planning(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        tidied_up(shop, stopped(shop, faulty(shop, "GET", "/user$")))
        assert shop.result["outcome"] == "FAILED"
        assert shop.agent.seen == []


def test_sigterm_during_the_baseline(tmp_path: Path) -> None:
    config = "verify_commands: ['sleep 61']\n"
    with world(tmp_path, GOOD, config=config) as shop:
        tidied_up(shop, stopped(shop, lambda: sleeping(shop)))
        assert shop.agent.seen == []


def sleeping(shop: World) -> list[str]:
    return [row for row in processes_in(shop.folder) if " sleep" in row]


@pytest.mark.parametrize("bead", ["analyze", "implement", "verify"])
def test_sigterm_during_a_bead(tmp_path: Path, bead: str) -> None:
    scripts: Mapping[str, Play] = plays(GOOD, {bead: [MESS, hang()]})
    with world(tmp_path, scripts) as shop:
        tidied_up(shop, stopped(shop, lambda: shop.agent.hanging))
        assert shop.result["outcome"] == "FAILED"
        assert shop.agent.names[-1] == f"{bead}-tests-1"
        last = shop.result["beads"][-1]
        assert (last["bead"], last["error"]) == (bead, "stopped by a signal")
        assert last["status"] != "ok"
        assert shop.written == []
        assert shop.result["isolation"] == "none", "told however the run ended"


def test_sigint_ends_also_an_agent_that_ignores_signals(tmp_path: Path) -> None:
    with world(tmp_path, plays(GOOD, {"implement": [stubborn(), MESS, hang()]})) as shop:
        done = stopped(shop, lambda: shop.agent.hanging, signal.SIGINT)
        tidied_up(shop, done, 130)


def test_sigterm_during_verify_commands_on_the_change(tmp_path: Path) -> None:
    scripts = plays(GOOD, {"implement": [("write", "test_new.py", "x = 1\n")]})
    config = "verify_commands: ['sh slow.sh']\n"
    with world(tmp_path, scripts, files=SLOW, config=config) as shop:
        tidied_up(shop, stopped(shop, lambda: sleeping(shop)))
        assert shop.agent.names[-1] == "verify-tests-1"


def test_sigterm_during_the_mr_bead_keeps_the_verified_change(tmp_path: Path) -> None:
    with world(tmp_path, plays(GOOD, {"mr": [MESS, hang()]})) as shop:
        tidied_up(shop, stopped(shop, lambda: shop.agent.hanging))
        assert shop.result["outcome"] == "MR_READY"
        assert shop.written == []
        assert shop.nightshift("publish", "nightshift/bundle").exit_status == 0
        [mr] = shop.merge_requests
        assert mr.title == "[night-shift/tests] Test the discount of total()"


def test_sigterm_while_publishing_keeps_the_bundle(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        done = stopped(shop, faulty(shop, "POST", "/merge_requests$"))
        tidied_up(shop, done)
        assert shop.bundle["outcome"] == "MR_READY"
        assert shop.product("published.json")["error_code"] == "E_TERMINATED"
        assert "Go on with: nightshift publish nightshift/bundle" in done.last_line
        shop.gitlab.faults.clear()
        assert shop.nightshift("publish", "nightshift/bundle").exit_status == 0
        assert len(shop.merge_requests) == 1


def test_a_second_signal_does_not_cut_the_tidying_short(tmp_path: Path) -> None:
    with world(tmp_path, plays(GOOD, {"implement": [stubborn(), MESS, hang()]})) as shop:
        process = shop.start("run")
        wait_for(lambda: shop.agent.hanging, "the bead to hang")
        for _ in range(5):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
        tidied_up(shop, ended(process, 30))


@pytest.mark.parametrize("bead", ["analyze", "verify"])
def test_the_start_after_a_kill_repairs_and_a_night_works(tmp_path: Path, bead: str) -> None:
    scripts = plays(GOOD, {bead: [MESS, hang()]})
    with world(tmp_path, scripts) as shop:
        (shop.checkout / "untracked").write_text("mine")
        shop.look()
        process = shop.start("run")
        wait_for(lambda: shop.agent.hanging, "the bead to hang")
        process.kill()
        ended(process)
        os.kill(shop.agent.seen[-1].pid, signal.SIGKILL)
        wait_for(lambda: not processes_in(tmp_path), "the agent to end")
        assert shop.tree() != shop.before
        assert scratch_of(shop)

        shop.agent.script(plays(GOOD, {"verify-tests-1": refused("No.")}))
        before = len(shop.agent.seen)
        done = shop.nightshift("run")
        assert (done.exit_status, done.stderr) == (0, "")
        first = shop.agent.seen[before]
        assert (first.git_status, first.head) == ("?? untracked\n", shop.sha)
        assert len(shop.merge_requests) == 1
        assert shop.tree() == shop.before
        assert shop.left_over() == []
        assert scratch_of(shop) == []


def scratch_of(shop: World) -> list[Path]:
    """The agents' folders of runs in this checkout."""
    found = []
    for place in {shop.folder / "tmp", Path("/tmp")}:
        for owner in place.glob("ns-*/checkout"):
            with contextlib.suppress(OSError):  # another test's, gone since
                if owner.read_text() == str(shop.checkout):
                    found.append(owner.parent)
    return found


@pytest.mark.parametrize("command", ["run", "publish"])
def test_a_kill_while_publishing_loses_nothing(tmp_path: Path, command: str) -> None:
    """The next start finds the bundle in the killed one's private folder, which is removed."""
    with world(tmp_path, GOOD) as shop:
        if command == "publish":
            assert shop.nightshift("run", NIGHTSHIFT_DRY_RUN="true").exit_status == 0
        reached = faulty(shop, "POST", "/merge_requests$")
        with shop.start(command) as process:
            wait_for(lambda: reached() or process.poll() is not None, "GitLab to be asked")
            process.kill()
        assert not (shop.checkout / "nightshift").exists()
        [left] = (tmp_path / "tmp").iterdir()
        elsewhere = left.with_name("nightshift-elsewhere")
        shutil.copytree(left, elsewhere)
        (elsewhere / "checkout").write_text(str(tmp_path / "home"))
        shop.gitlab.faults.clear()

        beads = len(shop.agent.seen)
        done = shop.nightshift("publish", "nightshift/bundle")
        assert (done.exit_status, done.stderr) == (0, "")
        assert len(shop.merge_requests) == 1
        assert len(shop.agent.seen) == beads
        assert list((tmp_path / "tmp").iterdir()) == [elsewhere]
        shutil.rmtree(elsewhere)
        shop.assert_put_back()


def test_two_nights_in_one_checkout(tmp_path: Path) -> None:
    scripts = plays(GOOD, {"implement": [append("test_shop.py", TEST), hang()]})
    with world(tmp_path, scripts) as shop:
        process = shop.start("run")
        wait_for(lambda: shop.agent.hanging, "the bead to hang")
        second = shop.nightshift("run")
        assert second.exit_status == 11
        assert "another night runs in" in second.stderr + second.log
        process.send_signal(signal.SIGTERM)
        tidied_up(shop, ended(process, 30))
