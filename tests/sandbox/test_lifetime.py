"""Nothing outlives a confined program, however it ends, nor the night shift itself."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox import uid_tier
from gitlab_nightshift.sandbox.launch import prepare_launch
from gitlab_nightshift.sandbox.tiers import Tier
from tests.sandbox.tools import PYTHON, Room, end
from tests.support.trees import wait_for

DAEMON = """
import fcntl, os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, b'x')
        os.closerange(0, 3)
        time.sleep(120)
    os._exit(0)
while not os.path.exists(sys.argv[1]) or not os.path.getsize(sys.argv[1]): time.sleep(.01)
print('ready', flush=True)
"""


def is_gone(lock: Path) -> bool:
    """True if no process holds the lock."""
    with lock.open("rb") as file, contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def wait_gone(lock: Path) -> None:
    wait_for(lambda: is_gone(lock), "the lock is free")


def test_a_daemon_ends_with_its_program(any_room: Room) -> None:
    lock = any_room.scratch / "lock"
    done = any_room.run(PYTHON, "-c", DAEMON, str(lock))
    assert (done.exit_status, done.stdout) == (0, "ready\n")
    wait_gone(lock)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_daemon_ends_when_the_program_is_killed(any_room: Room, number: int) -> None:
    lock = any_room.scratch / "lock"
    command = [PYTHON, "-c", DAEMON + "time.sleep(120)", str(lock)]
    with prepare_launch(any_room.sandbox, command, any_room.env(), any_room.confinement) as launch:
        process = launch.start()
        assert process.stdout and process.stdout.readline() == b"ready\n"
        assert not is_gone(lock)
        os.killpg(process.pid, number)
        process.wait(60)
        if any_room.sandbox.tier is Tier.UID and any_room.sandbox.identity:
            assert uid_tier.kill_leftovers(any_room.sandbox.identity)
        elif any_room.sandbox.tier is Tier.LANDLOCK and number == signal.SIGKILL:
            _end_by_lock(lock)  # the monitor is dead too: the subreaper's part
        end(process)
    wait_gone(lock)


def _end_by_lock(lock: Path) -> None:
    """Kill the lock's owner, as ``system/processes.py`` does for the night shift, a subreaper."""
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[5].rpartition(":")[2] == str(lock.stat().st_ino) and fields[1] == "FLOCK":
            os.kill(int(fields[4]), signal.SIGKILL)


def test_signals_reach_the_program_and_let_it_finish(any_room: Room) -> None:
    """After SIGINT, an agent's CLI may still report its cost."""
    script = "trap 'echo cost; exit 3' INT; echo ready; while :; do sleep 0.05; done"
    with prepare_launch(
        any_room.sandbox, ["/bin/sh", "-c", script], any_room.env(), any_room.confinement
    ) as launch:
        process = launch.start()
        assert process.stdout and process.stdout.readline() == b"ready\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 3
        assert process.stdout.read() == b"cost\n"
        end(process)


@contextlib.contextmanager
def watched(room: Room) -> Iterator[tuple["subprocess.Popen[bytes]", dict[str, int]]]:
    """The running monitor of a program that waits for the file ``end``, and the numbers in its
    ``/proc/<pid>/status``."""
    command = ["/bin/sh", "-c", "until [ -e end ]; do sleep 0.05; done; exit 3"]
    with prepare_launch(room.sandbox, command, room.env(), room.confinement) as launch:
        process = launch.start()

        def read_status() -> dict[str, int]:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            rows = (line.split(":\t") for line in lines if line.startswith(("Cap", "Sig")))
            return {name: int(value, 16) for name, value in rows if name != "SigQ"}

        caught = 1 << signal.SIGCHLD - 1
        wait_for(lambda: read_status()["SigCgt"] & caught, "the monitor watches")
        yield process, read_status()
        end(process)


def test_signals_for_the_program_do_not_end_the_monitor(monitored_room: Room) -> None:
    with watched(monitored_room) as (monitor, _):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            os.kill(monitor.pid, number)
        monitored_room.write("end", "")
        assert monitor.wait(60) == 3


def test_the_monitor_has_no_capability(monitored_room: Room) -> None:
    with watched(monitored_room) as (_, status):
        assert [status[f"Cap{name}"] for name in ("Prm", "Eff", "Amb", "Inh")] == [0, 0, 0, 0]


NIGHT = """
import sys, time
sys.path.insert(0, {root!r})
from pathlib import Path
from gitlab_nightshift.sandbox.tier_choice import choose
from gitlab_nightshift.sandbox.launch import prepare_launch
from tests.sandbox.tools import create_room
import shutil
root = Path({folder!r})
room = create_room(choose({tier!r}, root), root)
with prepare_launch(room.sandbox, {command!r}, room.env(), room.confinement) as launch:
    process = launch.start()
    print(process.stdout.readline().decode().strip(), flush=True)
    time.sleep(120)
"""


def test_everything_ends_when_the_night_shift_is_killed(any_room: Room) -> None:
    """After SIGKILL only the kernel and the monitor can clean up."""
    folder = any_room.root / "night"
    folder.mkdir(mode=0o755)
    lock = folder / "scratch/lock"
    command = [PYTHON, "-c", DAEMON + "time.sleep(120)", str(lock)]
    source = NIGHT.format(
        root=str(Path(__file__).resolve().parents[2]),
        folder=str(folder),
        tier=str(any_room.sandbox.tier),
        command=command,
    )
    night = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE)
    try:
        assert night.stdout and night.stdout.readline() == b"ready\n"
        assert not is_gone(lock)
    finally:
        night.kill()
        night.wait()
        assert night.stdout
        night.stdout.close()
    wait_gone(lock)


def test_a_tree_that_keeps_forking_is_ended(any_room: Room) -> None:
    """Bounded: at most twenty at a time, for two minutes."""
    lock = any_room.scratch / "lock"
    source = f"""
import fcntl, os, sys, time
fcntl.flock(os.open('{lock}', os.O_RDWR | os.O_CREAT, 0o666), fcntl.LOCK_EX)
end = time.monotonic() + 120
def again():
    while time.monotonic() < end:
        if os.fork(): os._exit(0)
        os.setsid(); time.sleep(.005)
    os._exit(0)
for _ in range(20):
    if os.fork() == 0: again()
time.sleep(.1)
"""
    assert any_room.python(source).exit_status == 0
    wait_gone(lock)


def test_only_processes_of_the_agents_user_are_killed(root: None) -> None:
    identity = uid_tier.reserve_user()
    assert identity is not None
    assert identity.uid in uid_tier.UNASSIGNED_IDS
    try:
        theirs = ["setpriv", f"--reuid={identity.uid}", f"--regid={identity.gid}", "--clear-groups"]
        other = subprocess.Popen(["sleep", "300"])
        mine = subprocess.Popen([*theirs, "sleep", "300"])
        wait_for(lambda: Path(f"/proc/{mine.pid}").stat().st_uid == identity.uid, "its user")
        assert uid_tier.kill_leftovers(identity)
        assert mine.wait(60) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
        uid_tier.release_user(identity)


def test_shared_memory_does_not_outlive_a_bead(any_room: Room) -> None:
    name = f"nightshift-test-{os.getpid()}"
    more = f"mkdir -p /dev/shm/{name}-folder/inner; chmod 0 /dev/shm/{name}-folder"
    done = any_room.shell(f"{more}; echo x > /dev/shm/{name}; cat /dev/shm/{name}")
    assert (done.stdout == "x\n") == (any_room.sandbox.tier is not Tier.LANDLOCK)
    assert not list(Path("/dev/shm").glob(f"{name}*"))
