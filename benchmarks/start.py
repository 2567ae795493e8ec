"""What starting costs: the help, the version, and what the sealed start adds to `config show`;
and the CPU of `check` on one changed line, git's included.

    python benchmarks/start.py [RUNS]

All run in turn, so that a noisy machine is noisy for all; the unit is a Python that does nothing,
for `check` one that imports pydantic and tree-sitter. The goals: help and version within 3 of it,
the seal within 100 ms a night, `check` within 3 (4.2 in November 2026).
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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


def run(command: list[str], folder: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    subprocess.run(command, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)


def timed(arguments: list[str], folder: str) -> float:
    """Milliseconds of wall time."""
    began = time.perf_counter()
    run([sys.executable, *arguments], folder)
    return (time.perf_counter() - began) * 1000


def read_cpu() -> float:
    """Milliseconds of CPU that all processes took that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (spent.ru_utime + spent.ru_stime) * 1000


def compare_check(runs: int) -> None:
    """Print the CPU of ``check`` on one changed line, and of the imports that it needs."""
    ways = {"two imports": ["-c", "import pydantic, tree_sitter"], "check": [*COMMAND, "check"]}
    rows: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        change_one_line(folder)
        for name, way in [*ways.items()] * (runs + 1):
            before = read_cpu()
            run([sys.executable, *way], folder)
            rows[name].append(read_cpu() - before)
    pairs = list(zip(rows["check"], rows["two imports"], strict=True))[1:]  # the first warms up
    for name, spent in rows.items():
        print(f"{name:<14} {statistics.median(spent[1:]):6.1f} ms of CPU")
    print(f"{'check':<14} {statistics.median(a / b for a, b in pairs):6.1f} x two imports")


def change_one_line(folder: str) -> None:
    """A repository whose working tree differs from its commit in one line."""
    file = Path(folder) / "shop.py"
    file.write_text("def add(a, b):\n    return a + b\n")
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for args in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "shop"]):
        run([*git, *args], folder)
    file.write_text("def add(a, b):\n    return b + a\n")


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
    compare_check(runs)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
