"""SIGKILL of one of the night's processes: the others put the checkout back, in the same job."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.records.codec import decode_record
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.stages.report.result_texts import is_cancelled
from tests.nights_endings.test_signals import MESS, hanging
from tests.support import watched
from tests.support.agent import hang, plays
from tests.support.shop import GOOD
from tests.support.trees import processes_in, wait_for
from tests.support.world import Process, World, ended, world


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[World]:
    """Where processes start by a fork, the one that waits is started so, too."""
    with world(tmp_path, GOOD) as made:
        made.patch = watched.PATCH
        yield made


def started(shop: World, reached: Callable[[], Any]) -> tuple[Process, int]:
    """A night that has come so far, and the process that runs the command."""
    process = shop.start("run")
    wait_for(lambda: reached() or process.poll() is not None, "the night to come so far")
    assert process.poll() is None, process.communicate()
    [command] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return process, int(command)


def memory(pid: int) -> int:
    """The value by which the kernel chooses a process where memory runs out."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def test_the_command_is_killed(shop: World) -> None:
    """As where memory runs out: all that was begun is undone before the job's script goes on, and
    what the night had found is there."""
    for bead in ("analyze", "implement", "verify", "mr"):
        shop.python = Path(sys.executable) if bead == "verify" else None
        process, command = started(shop, hanging(shop, plays(GOOD, {bead: [MESS, hang()]})))
        assert shop.python is None or memory(process.pid) < memory(command)
        os.kill(command, signal.SIGKILL)
        done = ended(process)
        assert done.exit_status == -signal.SIGKILL, bead
        told = "nightshift: killed by SIGKILL, perhaps for lack of memory"
        assert done.stderr in (f"{told}; the checkout is put back\n", f"{told}\n"), "work may have"
        products = shop.products()
        assert b'"run_started"' in products["events.jsonl"], bead
        assert products["logs/01-analyze-tests-1.out"], "the others keep what they have"
        assert shop.result["error_code"] == "E_TERMINATED" and shop.result["run_id"]
        assert shop.result["reason"].startswith("killed by SIGKILL, perhaps for lack of memory; ")
        beads = [each["bead"] for each in shop.result["beads"]]
        assert beads == [*GOOD][: len(beads)] and beads[-1] == bead
        shop.assert_restored()


def test_the_process_that_waits_is_killed(shop: World) -> None:
    shop.python = Path(sys.executable)
    process, _ = started(shop, hanging(shop, plays(GOOD, {"implement": [MESS, hang()]})))
    process.kill()
    done = ended(process)  # its output ends with the last process
    assert done.exit_status == -signal.SIGKILL
    wait_for(lambda: not processes_in(shop.folder), "the command to end")
    assert shop.result["error_code"] == "E_TERMINATED"
    shop.assert_restored()


def test_the_agent_is_killed(shop: World) -> None:
    """A failed bead, and the night goes on."""
    script = plays(GOOD, {"implement-tests-1": [MESS, hang()]})
    process, _ = started(shop, hanging(shop, script))
    agents = [pid for pid in processes_in(shop.folder) if "claude" in pid]
    assert agents
    os.kill(int(agents[-1].split()[0]), signal.SIGKILL)
    done = ended(process)
    assert (done.exit_status, done.stderr) == (0, ""), done.log
    shop.assert_restored()


def read_result(shop: World) -> RunResult:
    return decode_record(RunResult, (shop.checkout / "nightshift/result.json").read_bytes())


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS])
def test_a_fault_of_the_command_is_told_as_one(shop: World, number: signal.Signals) -> None:
    """By its signal; memory is not blamed for it, and nobody has cancelled it."""
    process, command = started(shop, hanging(shop, plays(GOOD, {"implement": [MESS, hang()]})))
    os.kill(command, number)
    done = ended(process)
    assert done.exit_status == -number
    assert done.stderr == f"nightshift: killed by {number.name}; the checkout is put back\n"
    result = read_result(shop)
    assert (result.error_code, is_cancelled(result)) == ("E_TERMINATED", False)
    assert result.reason == f"killed by {number.name}; the cost is what was known until then"
    shop.assert_restored()


def test_work_that_something_else_stops_is_not_cancelled(shop: World) -> None:
    """As by a daemon that ends processes before memory runs out: only a signal to the command is a
    person's."""
    stop = "os.kill(os.getpid(), signal.SIGTERM), honest(*given, **more)"
    shop.patch = (
        "import os, signal; from tests.support.plant import plant\n"
        "plant('stages.work.workflows:try_categories', "
        f"lambda honest, *given, **more: ({stop})[1])\n"
    )
    done = shop.nightshift("run")
    result = read_result(shop)
    assert (done.exit_status, is_cancelled(result)) == (143, False), done.log
    assert result.reason == "the process of work was killed, perhaps for lack of memory"
    shop.assert_restored()


def test_signals_reach_the_command_once_or_twice(shop: World) -> None:
    """A runner sends them to the group, or to the first process alone."""
    process, _ = started(shop, hanging(shop, plays(GOOD, {"analyze": [MESS, hang()]})))
    process.terminate()
    assert ended(process).exit_status == 143
    assert shop.result["error_code"] == "E_TERMINATED"
    assert is_cancelled(read_result(shop))
    shop.assert_restored()

    shop.patch = f"import os; os.setpgid(0, 0); {watched.PATCH}"
    process, _ = started(shop, hanging(shop, plays(GOOD, {"analyze": [MESS, hang()]})))
    os.killpg(process.pid, signal.SIGTERM)
    assert ended(process).exit_status == 143
    assert shop.result["error_code"] == "E_TERMINATED"
    shop.assert_restored()
