"""What the boundary adds to a run for reading a tree: one change in 50,000 files, and `git status`.

    python benchmarks/tree.py [FILES] [RUNS]

The steps of a run with one attempt, each as often as that run takes it; the median of RUNS. The
goal is 1 s in all. `git status` is measured in between: what git needs to look at the same tree.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gitlab_nightshift.repository.checkout import open_checkout

PER_FOLDER = 100
Times = dict[str, list[float]]


def git(root: Path, *args: str) -> None:
    """Git as a person's."""
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *identity, *args], cwd=root, check=True, capture_output=True)


def make(root: Path, files: int) -> None:
    """A repository of small files, a hundred in a folder."""
    root.mkdir(parents=True)
    git(root, "init", "-q")
    for number in range(files):
        path = root / f"part{number // PER_FOLDER // 20}/folder{number // PER_FOLDER}/{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"number = {number}\n" * 20)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")


@contextlib.contextmanager
def timed(times: Times, step: str) -> Iterator[None]:
    """Adds the seconds of the block to the step's."""
    began = time.perf_counter()
    yield
    times.setdefault(step, []).append(time.perf_counter() - began)


def run(root: Path, private: Path, times: Times) -> None:
    """The looks at the tree of a run with one attempt."""
    with timed(times, "git status"):
        git(root, "status", "--porcelain")
    changed = root / "part0/folder0/0.py"
    path = os.environ["PATH"]
    with contextlib.ExitStack() as stack:
        opened = open_checkout(
            root, output_dir="nightshift", private=private, search_path=path, run_id="1", warn=print
        )
        with timed(times, "save, mask .git"):
            checkout = stack.enter_context(opened)
        changed.write_text("agent = True\n")
        with timed(times, "capture"):
            captured = checkout.capture()
        assert len(captured.files) == 1
        with timed(times, "apply"):
            checkout.apply_change(captured)
        with timed(times, "put back"):
            checkout.restore()
        with timed(times, "put back, .git too"):
            stack.close()


def main(files: int, runs: int) -> None:
    """Print a row for each step, the sum, and the same in units of `git status`."""
    with tempfile.TemporaryDirectory(prefix="ns-") as folder:
        root, private = Path(folder, "builds/shop"), Path(folder, "private")
        make(root, files)
        private.mkdir(mode=0o700)
        times: Times = {}
        for _ in range(runs):
            run(root, private, times)
    medians = {step: statistics.median(seconds) for step, seconds in times.items()}
    status = medians["git status"]
    steps = {step: s for step, s in medians.items() if step != "git status"}
    for step, seconds in {**medians, "the boundary in all": sum(steps.values())}.items():
        print(f"{step:<20} {seconds * 1000:6.0f} ms  {seconds / status:5.1f} x git status")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    main(*numbers, *(50_000, 5)[len(numbers) :])
