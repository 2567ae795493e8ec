"""What the search for private files costs a night, in starts of this command (``--help``).

    python benchmarks/private_files.py [RUNS]

Search and start run in turn, so that a noisy machine is noisy for both. A night searches in a
thread while it waits for git and GitLab: ``night adds`` is how much longer twenty ``git --version``
take beside it, which is less waiting than a plan has. The goal is 0.1 s, or two starts.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from gitlab_nightshift.host.sandbox.credential_files import credential_files
from gitlab_nightshift.host.sandbox.system import look_ahead, look_at_system

HELP = [sys.executable, "-m", "gitlab_nightshift", "--help"]


def timed(call: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def start() -> None:
    """The command, to its end."""
    subprocess.run(HELP, check=True, stdout=subprocess.DEVNULL)


def plan() -> None:
    """What a plan does most: wait for git."""
    for _ in range(20):
        subprocess.run(["git", "--version"], check=True, stdout=subprocess.DEVNULL)


def plan_and_search() -> None:
    """The same beside a search."""
    look = look_ahead()
    plan()
    look()


def main(runs: int) -> None:
    """Print the medians."""
    calls = (start, look_at_system, credential_files, plan, plan_and_search)
    rows = [[timed(call) for call in calls] for _ in range(runs)]
    medians = [statistics.median(column) for column in zip(*rows, strict=True)]
    for name, median in zip(("start", "search", "of it the table"), medians, strict=False):
        print(f"{name:<16} {median:6.1f} ms  {median / medians[0]:.2f} starts")
    added = statistics.median(row[4] - row[3] for row in rows)
    print(f"{'night adds':<16} {added:6.1f} ms  {added / medians[0]:.2f} starts")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
