"""What the search for private files costs a night, in starts of this command (``--help``).

    python benchmarks/private_files.py [RUNS]

Search and start run in turn, so that a noisy machine is noisy for both; times are of CPU. A night
searches in the process of work, while the plan is made in another: of two cores the second one is
free then, and the night does not wait. The goal is 0.1 s, or two starts.
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Callable

from gitlab_nightshift.sandbox.credential_files import find_credential_files
from gitlab_nightshift.sandbox.visible_system import look_at_system

HELP = [sys.executable, "-m", "gitlab_nightshift", "--help"]


def timed(call: Callable[[], object]) -> float:
    """Milliseconds of CPU."""
    began = sum(os.times()[:4])
    call()
    return (sum(os.times()[:4]) - began) * 1000


def start() -> None:
    """The command, to its end."""
    subprocess.run(HELP, check=True, stdout=subprocess.DEVNULL)


def main(runs: int) -> None:
    """Print the medians."""
    calls = (start, look_at_system, find_credential_files)
    rows = [[timed(call) for call in calls] for _ in range(runs)]
    medians = [statistics.median(column) for column in zip(*rows, strict=True)]
    for name, median in zip(("start", "search", "of it the table"), medians, strict=True):
        print(f"{name:<16} {median:6.1f} ms  {median / medians[0]:.2f} starts")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
