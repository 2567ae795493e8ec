"""What a run in processes of its own costs: `python benchmarks/separation.py OLDER [ROUNDS]`.

OLDER is a clone of an older commit. A recorded night without its pauses is played by both in turn,
each a real start, against a GitLab stand-in that is not counted: wall time, CPU of all processes,
and, in rounds of their own, the largest sum of the memory (PSS) of this program's processes, agents
and tools not among them, which only root can read. The least of each is the least disturbed one.
A fixed loop before each round shows what a second of CPU is worth here, the unit of `CPU loops`.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree

from gitlab_nightshift.demo.demo_night import RECORDING, Demo, open_demo

STEPS = 20_000_000
NEWER = Path(__file__).resolve().parents[1]
PAUSE_S = 0.01
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Night:
    """Seconds, and bytes where the memory was looked at."""

    wall: float
    cpu: float
    memory: int


def main(older: Path, rounds: int) -> None:
    """Print a row for each of both, and what the newer one has more."""
    with tempfile.TemporaryDirectory(prefix="ns-") as name:
        folder = Path(name)
        recording = _without_pauses(folder)
        sources = (older.resolve(), NEWER)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        for source in sources:
            _play(source, folder, recording)  # compiles what has never run
        loops, plain = [], []
        for _ in range(rounds):
            loops.append(_loop())
            plain.append([_play(each, folder, recording) for each in sources])
        looks = (rounds + 4) // 5
        seen = [
            [_play(each, folder, recording, look=True) for each in sources] for _ in range(looks)
        ]
    _print("wall s", [[night.wall for night in pair] for pair in plain])
    _print("CPU s", [[night.cpu for night in pair] for pair in plain])
    pairs = zip(plain, loops, strict=True)
    _print("CPU loops", [[night.cpu / loop for night in pair] for pair, loop in pairs])
    print(f"loop least {min(loops):.2f} s, median {statistics.median(loops):.2f} s")
    _print("PSS MB", [[night.memory / MEGABYTE for night in pair] for pair in seen])


def _print(what: str, pairs: list[list[float]]) -> None:
    before, after = (min(column) for column in zip(*pairs, strict=True))
    between = statistics.median(after - before for before, after in pairs)
    print(
        f"{what:<9} least {before:7.2f} -> {after:7.2f}  {after - before:+6.2f}"
        f"  x {after / before:.2f}  median of differences {between:+6.2f}"
    )


def _without_pauses(folder: Path) -> Path:
    made = folder / "recording"
    copytree(RECORDING, made)
    for about in made.glob("*/bead.json"):
        about.write_text(json.dumps({**json.loads(about.read_text()), "pace_s": 0}))
    return made


def _play(source: Path, folder: Path, recording: Path, *, look: bool = False) -> Night:
    """A night of the program in ``source``."""
    with open_demo(folder / "results", os.environ) as demo:
        begun = time.perf_counter()
        log = folder / "log"
        process = _start(source, demo, recording, log)
        memory = _Memory(process.pid) if look else None
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - begun
        most = memory.stop() if memory else 0
        assert process.returncode == 0, log.read_text()
        assert len(demo.project.merge_requests) == 1
    return Night(wall, used.ru_utime + used.ru_stime, most)


def _start(source: Path, demo: Demo, recording: Path, log: Path) -> "subprocess.Popen[bytes]":
    env = {
        **demo.env,
        "PYTHONPATH": str(source),
        "NIGHTSHIFT_REPLAY_DIR": str(recording),
        "NIGHTSHIFT_VERIFY_COMMANDS": "true",
    }
    command = [sys.executable, "-m", "gitlab_nightshift", "run"]
    with log.open("wb") as file:
        return subprocess.Popen(command, cwd=demo.checkout, env=env, stdout=file, stderr=file)


def _loop() -> float:
    begun = time.process_time()
    for _ in range(STEPS):
        pass
    return time.process_time() - begun


# --- memory ---------------------------------------------------------------------------------------


class _Memory:
    """The largest sum of the memory of the program's own processes below one, while it runs."""

    def __init__(self, pid: int) -> None:
        self._pid, self._most, self._over = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def stop(self) -> int:
        """Bytes."""
        self._over.set()
        self._thread.join()
        return self._most

    def _look(self) -> None:
        while not self._over.wait(PAUSE_S):
            self._most = max(self._most, sum(map(_pss, _own(self._pid))))


def _own(pid: int) -> Iterator[int]:
    """A process and those below it that run this program's stages."""
    try:
        if b"entry.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
            yield pid
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _own(int(child))
    except (FileNotFoundError, ProcessLookupError):
        return


def _pss(pid: int) -> int:
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next(int(row.split()[1]) << 10 for row in rows if row.startswith("Pss:"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10)
