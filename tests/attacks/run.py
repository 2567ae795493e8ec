"""Run attacks inside: ``python run.py PLACES OUTCOMES [NAME...]``. Standard library only.

Each attack is a process of its own, a few at a time; one line of JSON for each:
``[name, kind, text]``, where kind is ``loot`` (it has something), ``stopped`` (why) or ``broken``
(the attack itself does not work: that is never a success of the boundary).
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
if __name__ == "__main__":  # whoever imports this keeps the tests' modules compiled
    sys.dont_write_bytecode = True

from tests.attacks.attack import read_corpus  # noqa: E402
from tests.attacks.places import Places, request  # noqa: E402

AT_A_TIME = 6
LONGEST_S = 120.0


@dataclass
class Running:
    """An attack's process, and the pipe that its outcome comes from."""

    name: str
    pid: int
    pipe: int
    until: float


def run(places: Places, wanted: list[str]) -> list[tuple[str, str, str]]:
    """Run these attacks; their outcomes in the order in which they ended."""
    places = replace(places, runner=os.getpid())
    read_corpus()  # here once, instead of in each process
    waiting, running = list(wanted), list[Running]()
    outcomes = []
    while waiting or running:
        while waiting and len(running) < AT_A_TIME:
            running.append(_start(places, waiting.pop(0)))
        ready, _, _ = select.select([one.pipe for one in running], [], [], 0.2)
        for one in [r for r in running if r.pipe in ready or time.monotonic() > r.until]:
            running.remove(one)
            outcomes.append(_ended(one))
    return outcomes


def _start(places: Places, name: str) -> Running:
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(reading)
        os.set_inheritable(writing, False)
        os.write(writing, json.dumps(attempted(places, name)).encode())
        os._exit(0)
    os.close(writing)
    return Running(name, pid, reading, time.monotonic() + LONGEST_S)


def attempted(places: Places, name: str) -> tuple[str, str]:
    """One attack in this very process."""
    try:
        loot = read_corpus()[name].attempt(places)
    except OSError as error:
        return "stopped", str(error)
    except BaseException as error:
        return "broken", f"{type(error).__name__}: {error}"
    return ("loot", loot) if loot else ("stopped", "nothing found")


def _ended(one: Running) -> tuple[str, str, str]:
    """A daemon of the attack may hold the pipe: one message is all that is waited for."""
    late = time.monotonic() > one.until
    raw = b"" if late else os.read(one.pipe, 65536)
    os.close(one.pipe)
    if late:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one.pid, signal.SIGKILL)
    _, status = os.waitpid(one.pid, 0)
    if raw:
        kind, text = json.loads(raw)
        return one.name, kind, text
    if late:
        return one.name, "broken", "no end"
    how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {status}"
    return one.name, "stopped", f"ended by {how}"


def needed(places: Places) -> str:
    """What an agent has to be able to do: "" where it can, else what went wrong."""
    try:
        for folder in (places.checkout, places.scratch):
            own = Path(folder, "own")
            own.write_text("x")
            own.chmod(0o600)
            own.unlink()
        assert subprocess.run(["/bin/sh", "-c", "exit 7"], check=False).returncode == 7
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), 2).close()
        assert request(places), "the gateway does not answer"
    except (OSError, AssertionError) as error:
        return repr(error)
    return ""


def main(place: str, outcomes: str, *wanted: str) -> None:
    """Write the outcomes to a file: an attack may do anything to a pipe."""
    places = Places.load(place)
    found = {"needed": needed(places), "attacks": run(places, list(wanted) or list(read_corpus()))}
    Path(outcomes).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
