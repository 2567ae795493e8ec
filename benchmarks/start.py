"""What the sealed start adds to a command: `nightshift config show`, sealed and in one Python.

    python benchmarks/start.py [RUNS]

Both run in turn, so that a noisy machine is noisy for both; the unit is a Python that does nothing.
The goal is 100 ms a night.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

SHOW = ["config", "show"]
PLAIN = f"import os, sys; from gitlab_nightshift.cli import run; sys.exit(run({SHOW}, os.environ))"
WAYS = {
    "nothing": ["-c", "pass"],
    "in one Python": ["-P", "-c", PLAIN],
    "sealed": ["-P", "-m", "gitlab_nightshift", *SHOW],
}


def timed(arguments: list[str], folder: str) -> float:
    """Milliseconds of wall time."""
    began = time.perf_counter()
    env = {"PATH": os.environ["PATH"], "HOME": folder}
    command = [sys.executable, *arguments]
    subprocess.run(command, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1000


def main(runs: int) -> None:
    """Print a row for each way, and what the seal adds."""
    with tempfile.TemporaryDirectory() as folder:
        rounds = [[timed(way, folder) for way in WAYS.values()] for _ in range(runs)]
    nothing, plain, sealed = (statistics.median(column) for column in zip(*rounds, strict=True))
    for name, spent in zip(WAYS, (nothing, plain, sealed), strict=True):
        print(f"{name:<14} {spent:6.1f} ms  {spent / nothing:.1f} x nothing")
    added = statistics.median(sealed - plain for _, plain, sealed in rounds)
    print(f"{'the seal':<14} {added:+6.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
