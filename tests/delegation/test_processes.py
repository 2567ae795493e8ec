"""A delegation's processes: what each can see, and what becomes of the call when one is killed."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.agent import append, hang, plays, sh
from tests.support.delegation import DEVELOPMENT, Delegations, delegations, ended
from tests.support.shop import GOOD
from tests.support.trees import processes_in, wait_for
from tests.support.world import BOT_TOKEN, MODEL_KEY, UNRELATED

HANGING = plays(GOOD, {"implement": [append("shop.py", "x = 1\n"), sh("rm -r docs"), hang()]})
SECRETS = {"GITLAB_TOKEN": BOT_TOKEN, "UNRELATED_SECRET": UNRELATED}
KNOWN = {**SECRETS, "ANTHROPIC_API_KEY": MODEL_KEY}
KILLED = "import os, signal\ndef die(*_):\n    os.kill(os.getpid(), signal.SIGKILL)\n"


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children(pid: int) -> list[int]:
    """Of its main thread, in the order in which they were started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def work_of(context: Delegations) -> int:
    """The process that works: the last of ours above the agent, as the redactor is its sibling."""
    pid = context.agent.seen[0].pid
    while len(children(parent(pid))) < 3:  # redactor, gateway, work
        pid = parent(pid)
    return pid


@pytest.mark.parametrize("mode", ["worktree", "in_place"])
def test_work_is_killed(tmp_path: Path, mode: str) -> None:
    with delegations(tmp_path, HANGING, config=DEVELOPMENT) as context:
        process = context.start(context.payload(workspace={"checkout_mode": mode}))
        wait_for(lambda: context.agent.hanging or process.poll() is not None, "the agent hangs")
        os.kill(work_of(context), signal.SIGKILL)
        done = ended(process)
        done.failed("E_TERMINATED", 143, "the process of work was killed")
        assert done.result["rollback_performed"] is True
        assert done.result["provider_used"] == "claude_code"
        assert (context.events[-1]["event"], context.events[-1]["phase"]) == (
            "phase_end",
            "Finalize",
        )
        context.assert_untouched()


def test_the_redactor_is_killed(tmp_path: Path) -> None:
    with delegations(tmp_path, HANGING) as context:
        process = context.start(context.payload())
        wait_for(lambda: context.agent.hanging or process.poll() is not None, "the agent hangs")
        os.kill(children(process.pid)[0], signal.SIGKILL)
        ended(process).failed("E_TERMINATED", 143, "the redactor was killed")
        context.assert_untouched()


@pytest.mark.parametrize("name", ["prepare._run_prepare", "finish._run_finish"])
def test_another_is_killed(tmp_path: Path, name: str) -> None:
    """Whatever is killed, one JSON object says so."""
    with delegations(tmp_path) as context:
        module, _, step = name.partition(".")
        plant = f"import gitlab_nightshift.run.{module}_process as m\nm.{step} = die\n"
        done = ended(context.start(context.payload(), before=KILLED + plant))
        done.failed("E_TERMINATED", 143, f"the process of {module} was killed")
        context.assert_untouched()


# --- what each can see ----------------------------------------------------------------------------


def regions(pid: int) -> Iterator[bytes]:
    """The memory of a process, as the kernel lets root read it."""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            where, rights, *_ = line.split()
            start, end = (int(part, 16) for part in where.split("-"))
            if rights.startswith("rw") and end - start < 1 << 30:
                try:
                    memory.seek(start)
                    yield memory.read(end - start)
                except (OSError, OverflowError):
                    continue


def held(pid: int, secrets: dict[str, str]) -> set[str]:
    """The secrets that a process holds, in its environment or anywhere in its memory."""
    parts = [Path(f"/proc/{pid}/environ").read_bytes(), *regions(pid)]
    return {
        name for name, value in secrets.items() if any(value.encode() in part for part in parts)
    }


@dataclass(frozen=True)
class Orphaned:
    """A delegation that lost the process that waited for it: what it printed, and which secrets
    redactor, gateway and work held before (root alone can look)."""

    context: Delegations
    out: bytes
    held: list[set[str]]


def look(context: Delegations, secrets: dict[str, str]) -> list[set[str]]:
    work = work_of(context)
    redactor, gateway = (pid for pid in children(parent(work)) if pid != work)
    return [held(pid, secrets) for pid in (redactor, gateway, work)]


@pytest.fixture(scope="module")
def orphaned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orphaned]:
    with delegations(tmp_path_factory.mktemp("orphaned"), HANGING) as context:
        context.env |= SECRETS
        process = context.start_sealed(context.payload())
        wait_for(lambda: context.agent.hanging or process.poll() is not None, "the agent hangs")
        seen = [] if os.geteuid() else look(context, KNOWN)
        process.kill()
        out, _ = process.communicate(timeout=warm.LIMIT_S)
        yield Orphaned(context, out, seen)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look into our processes")
def test_who_works_holds_no_secret(orphaned: Orphaned) -> None:
    """The same look finds all of them in the redactor, and the model key alone in the gateway."""
    assert orphaned.held == [set(KNOWN), {"ANTHROPIC_API_KEY"}, set()]


def test_the_process_that_waits_for_it_is_killed(orphaned: Orphaned) -> None:
    assert json.loads(orphaned.out)["diagnostics"]["error_code"] == "E_TERMINATED"
    wait_for(lambda: not processes_in(orphaned.context.folder), "all are gone")
    orphaned.context.assert_untouched()
