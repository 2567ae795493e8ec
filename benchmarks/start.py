"""What starting costs: the help, the version, and what the sealed start adds to `config show`.

    python benchmarks/start.py [RUNS]

All run in turn, so that a noisy machine is noisy for all; the unit is a Python that does nothing.
The goals: help and version within 3 of it, the seal within 100 ms a night.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

SHOW = ["config", "show"]
COMMAND = ["-P", "-m", "gitlab_nightshift"]
PLAIN = f"import os, sys; from gitlab_nightshift.cli import run; sys.exit(run({SHOW}, os.environ))"
WAYS = {
    "nothing": ["-c", "pass"],
    "--version": [*COMMAND, "--version"],
    "--help": [*COMMAND, "--help"],
    "in one Python": ["-P", "-c", PLAIN],
    "sealed": [*COMMAND, *SHOW],
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
        rounds = [{name: timed(way, folder) for name, way in WAYS.items()} for _ in range(runs)]
    for name in WAYS:
        spent = statistics.median(each[name] for each in rounds)
        ratio = statistics.median(each[name] / each["nothing"] for each in rounds)
        print(f"{name:<14} {spent:6.1f} ms  {ratio:.1f} x nothing")
    added = statistics.median(each["sealed"] - each["in one Python"] for each in rounds)
    print(f"{'the seal':<14} {added:+6.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
