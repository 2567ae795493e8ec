"""What a test that stopped halfway leaves behind, ended: processes of any kind, and mounts."""

import subprocess
from pathlib import Path

from gitlab_nightshift.system.processes import end_orphans, list_own_children
from tests.support import kept


def living() -> set[int]:
    """Children of this process and of those that serve its tests."""
    served = (Path(f"/proc/{pid}/task/{pid}/children").read_text() for pid in kept.services)
    found = list_own_children().union(*(map(int, pids.split()) for pids in served))
    return found - {kept.prepared, *kept.services}


def end_processes(before: set[int]) -> None:
    """End descendants that were not there before; what serves tests goes on.

    Orphans are among them, because this process is their reaper. Their end takes locks and the life
    of a user of their own with it.
    """
    ended = end_orphans(lambda: living() - before)
    assert ended, "what a failed test started will not die"


def unmount_all(folder: Path) -> None:
    """Unmount what is mounted below a folder, the innermost first."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    points = [line.split()[1].encode().decode("unicode_escape") for line in lines]
    for point in reversed(points):
        if point.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", point], check=True)
