"""SIGKILL of each process of a confined program: it ends, counts as failed, and leaves nothing."""

import contextlib
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.sandbox import launch
from gitlab_nightshift.sandbox.launch import ProcessBoundary
from gitlab_nightshift.sandbox.process import KILLED, EndReason, ProcessLimits, ProgramEnd, stream
from gitlab_nightshift.sandbox.system_paths import build_python_command
from gitlab_nightshift.sandbox.tiers import Tier
from gitlab_nightshift.system.processes import list_own_children
from tests.sandbox.test_lifetime import DAEMON, is_gone
from tests.sandbox.tools import PYTHON, Room

PROGRAM = f"{DAEMON}while not os.path.exists(sys.argv[2]): time.sleep(.01)\n"
Event = Callable[[list[int]], bool]


def descendants(pids: set[int]) -> list[int]:
    """These and all below them, in the order of their start."""
    found = sorted(pids)
    for pid in found:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            children = Path(f"/proc/{pid}/task/{pid}/children")
            found += sorted(map(int, children.read_text().split()))
    return found


def run(room: Room, argv: list[str], on_line: Event, on_tick: Event) -> ProgramEnd:
    """Run a program in the sandbox, and check that no process of it is left."""
    before = list_own_children()
    ended = stream(
        argv,
        cwd=room.checkout,
        env=room.env(),
        stdin=b"",
        stdout=io.BytesIO(),
        stderr=io.BytesIO(),
        limits=ProcessLimits(timeout_s=300),
        on_line=lambda _: on_line(descendants(list_own_children() - before)),
        on_tick=lambda: on_tick(descendants(list_own_children() - before)),
        boundary=ProcessBoundary(room.sandbox, room.confinement),
    )
    assert list_own_children() == before
    return ended


def do_nothing(_: list[int]) -> bool:
    return False


def test_each_process_of_the_tree_is_killed(any_room: Room) -> None:
    """Also the monitor, bubblewrap's two and a daemon. The program ends by itself if another
    process was killed."""
    lock, over = any_room.scratch / "lock", any_room.scratch / "over"
    statuses, tree = list[int](), list[int]()

    def kill(pids: list[int]) -> bool:
        tree[:] = pids
        assert not is_gone(lock)
        os.kill(tree[len(statuses)], signal.SIGKILL)
        over.touch()
        return False

    while len(statuses) < max(1, len(tree)):
        argv = [PYTHON, "-c", PROGRAM, str(lock), str(over)]
        ended = run(any_room, argv, on_line=kill, on_tick=do_nothing)
        assert ended.end is EndReason.EXITED and is_gone(lock)
        statuses.append(ended.exit_status)
        for path in (lock, over):
            path.unlink()
    holders = 2 if any_room.sandbox.tier is Tier.NAMESPACES else 1
    assert set(statuses[: holders + 1]) <= set(KILLED), statuses
    assert set(statuses[holders + 1 :]) == {0}, statuses


def test_the_launcher_is_killed(any_room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the sandbox is complete: the program has not run, and no boundary is broken."""
    slow = build_python_command("-c", "import time; time.sleep(300)")
    monkeypatch.setattr(launch, "build_inside_command", lambda _: slow)
    ran = any_room.scratch / "ran"

    def kill(pids: list[int]) -> bool:
        for pid in pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(slow[0].encode()):
                    os.kill(pid, signal.SIGKILL)
        return False

    ended = run(any_room, ["/bin/sh", "-c", f"touch {ran}"], on_line=do_nothing, on_tick=kill)
    assert ended.exit_status in KILLED and ended.how == "SIGKILL (perhaps memory ran out)"
    assert not ran.exists()


def test_a_launcher_that_fails_by_itself_is_an_incomplete_sandbox(
    any_room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    ending = build_python_command("-c", "raise SystemExit(3)")
    monkeypatch.setattr(launch, "build_inside_command", lambda _: ending)
    with pytest.raises(NightshiftError, match="the sandbox could not be set up") as caught:
        run(any_room, ["/bin/true"], on_line=do_nothing, on_tick=do_nothing)
    assert caught.value.code is Code.POLICY_DENY
