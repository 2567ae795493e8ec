"""SIGTERM, SIGINT and SIGKILL in every stage: agents are gone, the checkout is as before."""

import contextlib
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.agent import Play, append, hang, plays, sh, stubborn
from tests.support.shop import GOOD, refused
from tests.support.trees import holds_anything_in, kill_all, processes_in, wait_for
from tests.support.world import GO_ON, Done, World, ended, world

MESS = sh("echo x > shop.py; rm run.sh; chmod 700 docs; touch new.txt; git add -A")


def stopped(
    shop: World, reached: Callable[[], Any], number: signal.Signals = signal.SIGTERM
) -> Done:
    """Run a night, send the signal once it has come so far, and wait for its end."""
    process = shop.start("run")
    wait_for(lambda: reached() or process.poll() is not None, "the night to come so far")
    assert process.poll() is None, process.communicate()
    process.send_signal(number)
    return ended(process)


def tidied_up(shop: World, done: Done, status: int = 143) -> None:
    code = {143: "E_TERMINATED", 130: "E_INTERRUPTED"}[status]
    assert (done.exit_status, done.stderr) == (status, "")
    result = shop.result
    assert result["error_code"] == code
    assert "stopped by a signal" in result["reason"]
    assert code in done.last_line
    assert shop.bundle["base_sha"] == shop.sha
    assert {"report.html", "junit.xml", "nightshift.env", "events.jsonl"} <= set(shop.products())
    shop.assert_restored()


def faulty(shop: World, method: str, path: str) -> Callable[[], bool]:
    """GitLab is down for these requests; returns a check whether one of them has come."""
    shop.gitlab.fail_next(method, path, 502, "<html>", times=1000)
    return lambda: any(request.status == 502 for request in shop.gitlab.requests)


def hanging(shop: World, script: Mapping[str, Play]) -> Callable[[], bool]:
    """The agent does this from now on; returns a check whether it hangs."""
    (shop.agent.folder / "hanging").unlink(missing_ok=True)
    shop.agent.script(script)
    return lambda: shop.agent.hanging


def test_a_signal_before_and_during_the_beads(tmp_path: Path) -> None:
    """Also while an agent ignores them, and where many come."""
    nights = [
        ("analyze", [MESS, hang()], signal.SIGINT),
        ("verify", [MESS, hang()], signal.SIGTERM),
    ]
    with world(tmp_path, GOOD) as shop:
        tidied_up(shop, stopped(shop, faulty(shop, "GET", "/user$")))
        assert shop.result["outcome"] == "FAILED"
        assert shop.agent.seen == []
        shop.gitlab.faults.clear()
        for bead, play, number in nights:
            reached = hanging(shop, plays(GOOD, {bead: play}))
            tidied_up(shop, stopped(shop, reached, number), 128 + number)
            assert shop.result["outcome"] == "FAILED"
            assert shop.agent.names[-1] == f"{bead}-tests-1"
            last = shop.result["beads"][-1]
            assert (last["bead"], last["error"]) == (bead, "stopped by a signal")
            assert last["status"] != "ok"
            assert shop.written == []
            assert shop.result["isolation"] == "none", "told however the run ended"
        ended_by_many_signals(shop)


def ended_by_many_signals(shop: World) -> None:
    """They do not cut the clean-up short, nor is an agent left that ignores them. Nor does a second
    night in the same checkout start."""
    reached = hanging(shop, plays(GOOD, {"implement": [stubborn(), MESS, hang()]}))
    process = shop.start("run")
    wait_for(reached, "the bead to hang")
    second = shop.ends(11, "run")
    assert "another night runs in" in second.stderr + second.log
    for _ in range(5):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    tidied_up(shop, ended(process))
    last = shop.result["beads"][-1]
    assert (last["bead"], last["error"]) == ("implement", "stopped by a signal")
    assert shop.written == []


def test_sigterm_during_verify_commands(tmp_path: Path) -> None:
    """On the change, and on the untouched checkout."""
    slow, begun = tmp_path / "slow", tmp_path / "begun"
    scripts = plays(GOOD, {"implement": [*GOOD["implement"], sh(f"touch {slow}")]})
    command = f"[ ! -e {slow} ] || {{ touch {begun}; exec sleep 600; }}"
    config = f"verify_commands: [\"sh -c '{command}'\"]\n"
    with world(tmp_path, scripts, config=config) as shop:
        tidied_up(shop, stopped(shop, begun.exists))
        assert shop.agent.names[-1] == "implement-tests-1", "commands come before a model's word"
        begun.unlink()
        beads = len(shop.agent.seen)
        tidied_up(shop, stopped(shop, begun.exists))
        assert len(shop.agent.seen) == beads


def test_sigterm_keeps_what_is_verified(tmp_path: Path) -> None:
    """While publishing, and during the MR bead."""
    with world(tmp_path, GOOD) as shop:
        done = stopped(shop, faulty(shop, "POST", "/merge_requests$"))
        tidied_up(shop, done)
        assert shop.bundle["outcome"] == "MR_READY"
        assert shop.product("published.json")["error_code"] == "E_TERMINATED"
        assert f"Go on with: {GO_ON}" in done.last_line
        shop.gitlab.faults.clear()
        assert shop.nightshift("publish", "nightshift/bundle").exit_status == 0
        assert len(shop.merge_requests) == 1

        shop.env |= {"CI_PIPELINE_ID": "4712", "NIGHTSHIFT_CATEGORY": "refactoring"}
        before = shop.written
        other = [append("test_shop.py", "    # Other.\n")]  # the open one's lines do not come again
        reached = hanging(shop, plays(GOOD, {"implement": other, "mr": [MESS, hang()]}))
        tidied_up(shop, stopped(shop, reached))
        assert shop.result["outcome"] == "MR_READY"
        assert shop.written == before
        assert shop.nightshift("publish", "nightshift/bundle").exit_status == 0
        mr = shop.merge_requests[-1]
        assert mr.title == "[night-shift/refactoring] Test the discount of total()"


def test_the_start_after_a_kill_repairs_and_a_night_works(tmp_path: Path) -> None:
    with world(tmp_path) as shop:
        shop.agent.ask_git()
        (shop.checkout / "untracked").write_text("mine")
        shop.look()
        killed(shop, "analyze")
        beads = len(shop.agent.seen)
        killed(shop, "verify")
        first = shop.agent.seen[beads]
        assert (first.git_status, first.head) == ("?? untracked\n", shop.sha)

        shop.agent.script(plays(GOOD, {"verify-tests-1": refused("No.")}))
        beads = len(shop.agent.seen)
        done = shop.nightshift("run")
        assert (done.exit_status, done.stderr) == (0, "")
        first = shop.agent.seen[beads]
        assert (first.git_status, first.head) == ("?? untracked\n", shop.sha)
        assert len(shop.merge_requests) == 1
        assert shop.tree() == shop.before
        assert shop.left_over() == []
        assert scratch_of(shop) == []


def killed(shop: World, bead: str) -> None:
    """A night whose process and agent are killed while a bead hangs in a mess."""
    reached = hanging(shop, plays(GOOD, {bead: [MESS, hang()]}))
    process = shop.start("run")
    wait_for(lambda: reached() or process.poll() is not None, "the bead to hang")
    kill_all(process.pid)
    ended(process)
    wait_for(lambda: not processes_in(shop.folder), "the agent to end")
    assert shop.tree() != shop.before
    assert scratch_of(shop)


def scratch_of(shop: World) -> list[Path]:
    """The agents' folders of runs in this checkout."""
    found = []
    for place in {shop.folder / "tmp", Path("/tmp")}:
        for owner in place.glob("ns-*/checkout"):
            with contextlib.suppress(OSError):  # another test's, gone since
                if owner.read_text() == str(shop.checkout):
                    found.append(owner.parent)
    return found


def test_a_kill_while_publishing_loses_nothing(tmp_path: Path) -> None:
    """The next start finds the bundle in the killed one's private folder, which is removed."""
    with world(tmp_path, GOOD) as shop:
        for command in ("run", "publish"):
            reached = faulty(shop, "POST", "/merge_requests$")
            with shop.start(command) as process:
                wait_for(reached, "GitLab to be asked")
                process.kill()
            wait_for(lambda: not processes_in(shop.folder), "what it started to end")
            wait_for(lambda: not holds_anything_in(shop.folder), "its marks to be free")
            assert not (shop.checkout / "nightshift").exists()
            shop.gitlab.faults.clear()
            shop.gitlab.requests.clear()
        [left] = (tmp_path / "tmp").iterdir()
        elsewhere = left.with_name("nightshift-elsewhere")
        shutil.copytree(left, elsewhere)
        (elsewhere / "checkout").write_text(str(tmp_path / "home"))

        beads = len(shop.agent.seen)
        done = shop.nightshift("publish", "nightshift/bundle")
        assert (done.exit_status, done.stderr) == (0, "")
        assert len(shop.merge_requests) == 1
        assert len(shop.agent.seen) == beads
        assert list((tmp_path / "tmp").iterdir()) == [elsewhere]
        shutil.rmtree(elsewhere)
        shop.assert_restored()
