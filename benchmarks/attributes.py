"""What changes of modes and times cost in the tier ``landlock``, where the monitor makes them.

    python benchmarks/attributes.py [RUNS]

Inside and bare in turn: 10,000 changes of a mode, and an archive, which has bytes to write as well.
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from gitlab_nightshift.sandbox.launch import Sandbox, prepare_launch
from gitlab_nightshift.sandbox.tier_choice import choose
from gitlab_nightshift.sandbox.tiers import Confinement, Tier

PYTHON = next(p for p in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(p).exists())
CHANGES = """
import os, time
open('file', 'w').close()
began = time.perf_counter()
for _ in range(5000): os.chmod('file', 0o600); os.chmod('file', 0o644)
print(time.perf_counter() - began)
"""
UNPACK = """
import io, os, shutil, tarfile, time
packed = io.BytesIO()
with tarfile.open(fileobj=packed, mode='w') as archive:
    for number in range(2000):
        entry = tarfile.TarInfo(f'unpacked/{number}'); entry.size = 4096
        archive.addfile(entry, io.BytesIO(bytes(4096)))
packed.seek(0)
began = time.perf_counter()
with tarfile.open(fileobj=packed) as archive: archive.extractall()
print(time.perf_counter() - began)
shutil.rmtree('unpacked')
"""


def timed(scratch: Path, sandbox: Sandbox | None, source: str) -> float:
    """Seconds, as the program itself measures them."""
    argv = [PYTHON, "-c", source]
    if sandbox is None:
        done = subprocess.run(argv, cwd=scratch, capture_output=True, check=True)
        return float(done.stdout)
    with prepare_launch(sandbox, argv, {}, Confinement(scratch, (scratch,))) as launch:
        process = launch.start()
        out, err = process.communicate()
    assert process.returncode == 0, err.decode()
    return float(out)


def compared(scratch: Path, sandbox: Sandbox, source: str, runs: int) -> tuple[float, float]:
    """Seconds inside, and how many times as long as bare."""
    pairs = [(timed(scratch, sandbox, source), timed(scratch, None, source)) for _ in range(runs)]
    inside, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
    return inside, inside / bare


def main(runs: int) -> None:
    """Print a row for each."""
    with tempfile.TemporaryDirectory(prefix="ns-") as folder:
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        sandbox = choose(Tier.LANDLOCK, Path(folder))
        for name, source in (
            ("10,000 changes of a mode", CHANGES),
            ("2,000 files unpacked", UNPACK),
        ):
            inside, times = compared(scratch, sandbox, source, runs)
            print(f"{name:<25} {inside:5.2f} s, {times:4.1f} x bare")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
