"""What the uid tier adds to a run: a tree changes its owner, and changes it back.

    python benchmarks/owners.py [FILES]

Needs root. The goal is one second for both with 50,000 files. In units of a scan too, which says
the same on a slow or busy machine.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from gitlab_nightshift.repository.tree_snapshot import scan
from gitlab_nightshift.sandbox.tiers import SandboxUser
from gitlab_nightshift.sandbox.uid_tier import give, read_owners, take_back

AGENT = SandboxUser(60999, 60999, -1)
ROUNDS = 5
FILES_IN_A_FOLDER = 40


def grow(root: Path, files: int) -> None:
    """A tree of small files, one program in ten."""
    for number in range(files):
        path = root / f"{number // 1600}/{number // FILES_IN_A_FOLDER}/{number}"
        if number % FILES_IN_A_FOLDER == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o755 if number % 10 == 0 else 0o644)


def round_trip(root: Path) -> tuple[float, float, float, float]:
    """Seconds for a scan, the look, the change, and the way back."""
    start = time.perf_counter()
    scan(root)
    began = time.perf_counter()
    owners = read_owners(root, AGENT)
    looked = time.perf_counter()
    give(root, owners.user)
    given = time.perf_counter()
    take_back(root, owners)
    return began - start, looked - began, given - looked, time.perf_counter() - given


def main(files: int) -> None:
    """Print the medians."""
    with tempfile.TemporaryDirectory(prefix="ns-") as folder:
        grow(Path(folder), files)
        rounds = [round_trip(Path(folder)) for _ in range(ROUNDS)]
    one, look, change, back = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"{files} files: look {look:.2f} s, give {change:.2f} s, take back {back:.2f} s")
    whole = look + change + back
    print(f"both changes of owner: {whole:.2f} s, {whole / one:.1f} x a scan")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
