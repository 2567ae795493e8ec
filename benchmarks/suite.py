"""How long the suite takes, again and again: ``python benchmarks/suite.py [--rounds N] [--busy]``.

Each round is ``make test`` after the installs, with the time that a fixed loop takes before it:
what a second is worth here. ``--busy`` burns every core meanwhile, one process each. A round that
fails prints what failed, and is the exit status.
"""

import argparse
import contextlib
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
STEPS = 20_000_000
BURN = "while True: pass"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--busy", action="store_true", help="burn every core meanwhile")
    args = parser.parse_args()
    subprocess.run(["make", "installed"], cwd=ROOT, check=True)
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {'busy' if args.busy else 'quiet'}"
    )
    print("round  loop s  wall s  CPU s  result", flush=True)
    with _burning(os.cpu_count() or 1 if args.busy else 0):
        rounds = [_round(number + 1) for number in range(args.rounds)]
    walls = [wall for wall, _ in rounds]
    good = sum(ok for _, ok in rounds)
    print(f"{good} of {len(rounds)} green; wall median {statistics.median(walls):.0f} s, ", end="")
    print(f"longest {max(walls):.0f} s")
    return 0 if good == len(rounds) else 1


@contextlib.contextmanager
def _burning(count: int) -> Iterator[None]:
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def _round(number: int) -> tuple[float, bool]:
    """The seconds of one run of the suite, and whether it was green."""
    loop = _loop()
    before, begun = _cpu(), time.perf_counter()
    done = subprocess.run(["make", "test"], cwd=ROOT, check=False, capture_output=True, text=True)
    wall = time.perf_counter() - begun
    ok = done.returncode == 0
    last = (done.stdout.strip().splitlines() or [""])[-1]
    print(f"{number:5d}  {loop:6.2f}  {wall:6.0f}  {_cpu() - before:5.0f}  {last}", flush=True)
    if not ok:
        print(done.stdout[-20_000:], done.stderr[-5_000:], flush=True)
    return wall, ok


def _loop() -> float:
    begun = time.perf_counter()
    for _ in range(STEPS):
        pass
    return time.perf_counter() - begun


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())
