"""What starting costs: the help, the version, and what the sealed start adds to `config show`; the
CPU of `check` on one changed line and of `doctor --boundary`, with all their processes; and `run`
until its first sandbox.

    PYTHONPATH=. python benchmarks/start.py [RUNS]

The package is compiled first, as pip does. All run in turn, so that a noisy machine is noisy for
all; the unit is a Python that does nothing, for `check` one that imports pydantic and tree-sitter,
for `run` python-gitlab, pydantic and yaml.
The goals: help and version within 3 of it, the seal within 100 ms a night, `check` within 3,
`doctor --boundary` within a second, `run` within 2.5 (6.7 by the clock, 9.3 of its CPU).
"""

import compileall
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.night import PACKAGE, RECORDED
from tests.support.world import World, world

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


def measure_doctor(runs: int) -> None:
    """Print the CPU of ``doctor --boundary`` in a small project."""
    spent = []
    with tempfile.TemporaryDirectory() as folder, world(Path(folder).resolve()) as night:
        for _ in range(runs + 1):
            before = read_cpu()
            arguments = [sys.executable, *COMMAND, "doctor", "--boundary"]
            subprocess.run(
                arguments,
                cwd=night.checkout,
                env=build_job(night),
                check=True,
                stdout=subprocess.DEVNULL,
            )
            spent.append(read_cpu() - before)
    print(f"{'doctor':<14} {statistics.median(spent[1:]):6.1f} ms of CPU")


def build_job(night: World) -> dict[str, str]:
    """The environment of a job whose agents get the strongest sandbox."""
    return {k: v for k, v in night.env.items() if k not in ("NIGHTSHIFT_ISOLATION", "PYTHONPATH")}


def compare_run(runs: int) -> None:
    """Print how long ``run`` takes until the first sandbox of something that is not its own."""
    imports = [sys.executable, "-P", "-c", "import gitlab, pydantic, yaml"]
    rows = []
    for _ in range(runs + 1):
        with tempfile.TemporaryDirectory() as folder, world(Path(folder).resolve()) as night:
            before, began = read_cpu(), time.perf_counter()
            run(imports, folder)
            unit = (time.perf_counter() - began) * 1000, read_cpu() - before
            rows.append((unit, time_first_sandbox(night)))
    for n, kind in enumerate(("", " of CPU")):
        spent = statistics.median(made[n] for _, made in rows[1:])  # the first warms up
        ratio = statistics.median(made[n] / unit[n] for unit, made in rows[1:])
        print(f"{'run':<14} {spent:6.1f} ms{kind}  {ratio:.1f} x three imports")


def time_first_sandbox(night: World) -> tuple[float, float]:
    """Milliseconds from the start of a run to its first sandbox, and of CPU that it took by then.

    The stages of a run are in bubblewrap, too, but what they see of /tmp is the machine's own.
    """
    command, env = [sys.executable, *COMMAND, "run"], build_job(night)
    began = time.perf_counter()
    with subprocess.Popen(
        command, cwd=night.checkout, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as started:
        while not any(map(is_sandbox, family := read_family(started.pid))):
            assert started.poll() is None, "the run ended without a sandbox: is there bubblewrap?"
            time.sleep(0.005)
        spent = (time.perf_counter() - began) * 1000
        started.terminate()
    return spent, sum(family.values())


def read_family(pid: int) -> dict[int, float]:
    """A process and all that come from it; for each the CPU in milliseconds that it took, with its
    children that have ended."""
    rows = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            row = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        ticks = sum(map(int, row[11:15]))
        rows[int(folder.name)] = int(row[1]), ticks * 1000 / os.sysconf("SC_CLK_TCK")
    found = {pid}
    while more := {each for each, (parent, _) in rows.items() if parent in found} - found:
        found |= more
    return {each: rows[each][1] for each in found if each in rows}


def is_sandbox(pid: int) -> bool:
    """True for a bubblewrap that hides the machine's /tmp."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"bwrap\0" in command and b"\0--tmpfs\0/tmp\0" in command


def main(runs: int) -> None:
    """Print a row for each way, and what the seal adds."""
    # Otherwise each confined process compiles its modules anew: it may not write them.
    compileall.compile_dir(PACKAGE, quiet=1, rx=RECORDED)
    with tempfile.TemporaryDirectory() as folder:
        rounds = [{name: timed(way, folder) for name, way in WAYS.items()} for _ in range(runs)]
    for name in WAYS:
        spent = statistics.median(each[name] for each in rounds)
        ratio = statistics.median(each[name] / each["nothing"] for each in rounds)
        print(f"{name:<14} {spent:6.1f} ms  {ratio:.1f} x nothing")
    added = statistics.median(each["sealed"] - each["in one Python"] for each in rounds)
    print(f"{'the seal':<14} {added:+6.1f} ms")
    compare_check(runs)
    measure_doctor(runs)
    compare_run(runs)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
