"""SIGKILL of each of a run's processes at each step: whatever dies, the run comes to its own end.

The result says what has failed and what it cost, the checkout is as before, and nothing is alive.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.separation import killing
from tests.support import watched
from tests.support.agent import hang, plays
from tests.support.model_endpoint import ModelEndpoint
from tests.support.plant import find_place
from tests.support.shop import GOOD, bill, priced
from tests.support.trees import wait_for
from tests.support.world import Done, World, world

ANALYZE, IMPLEMENT = 0.25, 0.125
"""USD that the beads pay; Implement only where it hangs then."""
MEMORY = "was killed, perhaps for lack of memory"
KEPT = "before run.received_files:RecordStore.store"
SENT = "wire.channel:OutputChannel.send_record"


@dataclass(frozen=True)
class Case:
    """When the process dies, and what the result says: the exit status, the outcome with its code
    and reason; ``beads`` that have ended (all four: their change is kept); USD."""

    when: str
    status: int
    said: tuple[str, str, str]
    beads: int = 4
    usd: float = ANALYZE


def failed(code: str, reason: str) -> tuple[str, str, str]:
    return "FAILED", code, reason


def dead(process: str) -> tuple[str, str, str]:
    return failed("E_TERMINATED", f"the process of {process} {MEMORY}")


PUBLISHED = ("MR_CREATED", "", "")
GONE = failed("E_PROVIDER_UNAVAILABLE", "the model gateway has ended")
UNPUBLISHED = failed("E_PUBLISH", f"the process of publish {MEMORY}")
UNSEEN = "not published: the commands were not run once more on the change: "
WAITS = ("MR_READY", "E_INCOMPLETE", f"{UNSEEN}the process of the notary {MEMORY}")
UNREAD = "not published: the process that reads the bundle failed: it ended with exit"
NO_WORK = dead("work")
KNOWN = "the cost is what was known until then"
NOTHING, BOTH = (0, 0.0), (1, ANALYZE + IMPLEMENT)
CASES: dict[str, Sequence[Case]] = {
    "plan": (
        Case("start", 143, dead("plan"), *NOTHING),
        Case("before run.planning:make_plan", 143, dead("plan"), *NOTHING),
        Case("after run.plan_process:_pack_publish", 143, dead("plan"), *NOTHING),
    ),
    "gateway": (
        Case("start", 5, GONE, *NOTHING),
        Case("before gateway.control_socket:ControlServer._open_bead", 5, GONE, *NOTHING),
        Case("hanging", 5, GONE, 2, ANALYZE + IMPLEMENT),
    ),
    "work": (
        Case("start", 143, NO_WORK, *NOTHING),
        Case("told", 143, NO_WORK, *NOTHING),
        Case("hanging", 143, NO_WORK, *BOTH),
        Case(f"before {SENT}:bundle/change.patch", 143, NO_WORK),
        # What it has found is whole; it is kept, and can be published by hand.
        Case(f"after {SENT}:bundle/bundle.json", 143, ("MR_READY", *NO_WORK[1:])),
    ),
    "notary": (
        Case("start", 13, WAITS),
        Case("told", 13, WAITS),
        Case("before stages.work.notary_process:_Trial.run_all", 13, WAITS),
    ),
    "publish": (
        Case("told", 12, UNPUBLISHED),
        Case("after stages.publish.publish_stage:push_commit", 12, UNPUBLISHED),
        Case("after run.publishing:write_record", 0, PUBLISHED),
    ),
    "reader": (
        Case("after repository.bundle_reader:build_answer", 12, failed("E_PUBLISH", UNREAD)),
    ),
    "report": (
        Case("start", 0, PUBLISHED),
        Case(f"after {SENT}:result.json", 0, PUBLISHED),
    ),
    "redactor": (
        Case("start", 143, dead("the redactor"), *NOTHING),
        Case("after run.redactor_process:decode_record", 143, dead("the redactor"), *NOTHING),
        Case("hanging", 143, dead("the redactor"), *BOTH),
        Case(f"{KEPT}:bundle/change.patch", 143, dead("the redactor")),
        Case(f"{KEPT}:bundle/bundle.json", 143, dead("the redactor")),
        Case(f"{KEPT}:result.json", 0, PUBLISHED),
    ),
    "plan gateway work notary publish report redactor": (Case("end", 0, PUBLISHED),),
}
WRITING = ("work", "notary", "redactor")
"""The processes that write in the checkout: after these the next night is a whole one."""


def run(folder: Path, process: str, case: Case) -> None:
    """A night in which the process dies then; raises AssertionError."""
    script = plays(GOOD, {"analyze": priced(GOOD["analyze"], ANALYZE)})
    if case.when == "hanging":
        script = plays(script, {"implement": priced([hang()], IMPLEMENT)})
    with world(folder, script) as shop, ModelEndpoint(bill) as endpoint:
        shop.patch = "".join(killing.patch(folder, each, case.when) for each in process.split())
        done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url)
        judge(shop, done, case)
        assert killing.alive(folder) == []
        shop.assert_restored()
        assert len(shop.merge_requests) == (case.said == PUBLISHED)
        if case is CASES[process][-1]:
            next_night(shop, "run" if process in WRITING else "plan")


def judge(shop: World, done: Done, case: Case) -> None:
    result = shop.result
    outcome, code, reason = case.said
    assert (done.exit_status, result["outcome"], result["error_code"]) == (
        *(case.status, outcome, code),
    ), done
    assert result["reason"].startswith(reason), result["reason"]
    assert (len(result["beads"]), result["total_cost_usd"]) == (case.beads, case.usd)
    assert result["run_id"] == "4711"
    assert {"report.html", "junit.xml", "nightshift.env"} <= set(shop.products())
    assert "Traceback" not in done.stdout + done.stderr


def next_night(shop: World, command: str) -> None:
    """The next night runs, or begins, as if nothing had happened."""
    shop.patch = ""
    shop.agent.script(GOOD)
    assert shop.nightshift(command).exit_status == 0


def test_every_function_that_a_process_dies_at_exists() -> None:
    for case in (case for cases in CASES.values() for case in cases):
        if case.when.startswith(("before ", "after ")):
            find_place(":".join(case.when.partition(" ")[2].split(":")[:2]))


@pytest.mark.parametrize("process", CASES)
def test_a_process_is_killed(tmp_path: Path, process: str) -> None:
    troubles = []
    for number, case in enumerate(CASES[process]):
        folder = tmp_path / str(number)
        try:
            run(folder, process, case)
        except (AssertionError, OSError) as error:
            troubles.append(f"{case.when}: {error}")
    assert troubles == []


@pytest.mark.parametrize("process", ["supervisor", "waiting"])
def test_one_of_the_first_two_is_killed(tmp_path: Path, process: str) -> None:
    """Within a bead: ``nights_endings/test_killed.py``."""
    memory = failed("E_TERMINATED", f"killed by SIGKILL, perhaps for lack of memory; {KNOWN}")
    cases = {
        "supervisor": (
            Case("_run_assignment", -signal.SIGKILL, memory, *NOTHING),
            Case("_publish", -signal.SIGKILL, memory),
            Case("_report", -signal.SIGKILL, PUBLISHED),
        ),
        "waiting": (
            Case(
                "_run_assignment",
                -signal.SIGKILL,
                failed("E_TERMINATED", "stopped by a s"),
                *NOTHING,
            ),
            Case("_report", -signal.SIGKILL, PUBLISHED),
        ),
    }
    for number, case in enumerate(cases[process]):
        folder = tmp_path / str(number)
        script = plays(GOOD, {"analyze": priced(GOOD["analyze"], ANALYZE)})
        with world(folder, script) as shop, ModelEndpoint(bill) as endpoint:
            place = f"before run.supervisor.supervised_run:_Run.{case.when}"
            shop.patch = f"{watched.PATCH}\n{killing.patch(folder, process, place)}"
            done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url)
            wait_for(lambda: killing.alive(folder) == [], "the others to end")  # noqa: B023
            judge(shop, done, case)
            shop.assert_restored()
            assert len(shop.merge_requests) == (case.said == PUBLISHED)
