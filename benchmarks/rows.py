"""What it costs to keep a process to its row: the CPU of starts of report and notify, confined as
in a night and not at all, in turn.

    PYTHONPATH=. python benchmarks/rows.py [STARTS]

The goal: at most 100 ms of CPU for a night, which starts each once (2.3 and 2.1 ms of 60 in
November 2026, on two busy cores).
"""

import os
import resource
import statistics
import sys
import tempfile
from dataclasses import replace
from subprocess import DEVNULL

from gitlab_nightshift.sandbox.process_table import NOTIFY, REPORT, Confined, ProcessRow
from gitlab_nightshift.sandbox.stage_process import start_stage


def measure_start(row: ProcessRow, places: dict[str, str]) -> float:
    """Milliseconds of CPU of a process that ends for want of a task, and of its start here."""
    before = read_cpu()
    start_stage(row, {}, {"PATH": os.environ["PATH"]}, (), (DEVNULL,) * 3, (), places).wait()
    return read_cpu() - before


def read_cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used) * 1000


def main(starts: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        places = {"results": folder, "named": folder}
        for row in (REPORT, NOTIFY):
            ways = {"kept to its row": row, "not at all": replace(row, confined=Confined.NOT)}
            found: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(starts):
                for name, each in ways.items():
                    found[name].append(measure_start(each, places))
            kept, free = (statistics.median(each) for each in found.values())
            print(f"{row.name}: {kept:.1f} ms, {free:.1f} without: {kept - free:+.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
