"""What the boundary adds to a bead: a program that does nothing, with and without each tier.

    python benchmarks/boundary.py [RUNS]

Tier and bare run in turn, so that a noisy machine is noisy for both. The goal is 25 ms. Below it
what the proof of the tier takes, in units of such a program inside; the goal is half a second.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from gitlab_nightshift.sandbox.launch import ProcessBoundary, Sandbox
from gitlab_nightshift.sandbox.probes import ProbeTargets
from gitlab_nightshift.sandbox.process import ProcessLimits, stream
from gitlab_nightshift.sandbox.proof import prove
from gitlab_nightshift.sandbox.tier_choice import probe_tiers
from gitlab_nightshift.sandbox.tiers import Confinement
from gitlab_nightshift.sandbox.uid_tier import give


def timed(scratch: Path, boundary: ProcessBoundary | None) -> float:
    """Milliseconds from start to the last descendant's end."""
    began = time.perf_counter()
    with (scratch / "out").open("wb") as out, (scratch / "err").open("wb") as err:
        stream(
            ["/bin/true"],
            cwd=scratch,
            env={"PATH": "/usr/bin:/bin"},
            stdin=b"",
            stdout=out,
            stderr=err,
            limits=ProcessLimits(timeout_s=30),
            on_line=lambda _: False,
            boundary=boundary,
        )
    return (time.perf_counter() - began) * 1000


def proven(scratch: Path, sandbox: Sandbox) -> float:
    """Milliseconds of the proof."""
    began = time.perf_counter()
    assert prove(sandbox, Confinement(scratch, (scratch,)), ProbeTargets()).held
    return (time.perf_counter() - began) * 1000


def main(runs: int) -> None:
    """Print a row for each tier that works here."""
    with tempfile.TemporaryDirectory(prefix="ns-") as folder:
        private = Path(folder)
        private.chmod(0o711)
        tiers = [row for row in probe_tiers(private) if isinstance(row, Sandbox)]
        for sandbox in tiers:
            scratch = private / f"scratch-{sandbox.tier}"
            scratch.mkdir()
            if sandbox.identity:
                give(scratch, (sandbox.identity.uid, sandbox.identity.gid))
            confined = ProcessBoundary(sandbox, Confinement(scratch, (scratch,)))
            pairs = [(timed(scratch, None), timed(scratch, confined)) for _ in range(runs)]
            bare, inside = (statistics.median(column) for column in zip(*pairs, strict=True))
            added = statistics.median(b - a for a, b in pairs)
            print(
                f"{sandbox.tier:<11} bare {bare:5.1f} ms  inside {inside:5.1f} ms  +{added:.1f} ms"
            )
            proof = statistics.median(proven(scratch, sandbox) for _ in range(5))
            print(f"{'':<11} proof {proof:.0f} ms, {proof / inside:.1f} x a program inside")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
