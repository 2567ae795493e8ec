import os
from pathlib import Path

from tests.attacks.git_world import Places, run_git

TITLE = "The same, and git told to trust times"
TRIES = "core.trustctime and core.checkStat make git look at size and time alone."
MUST_FAIL = "No git looks at the agent's tree, and no setting of the agent's is read."
CONTROL = "git add"
GAINS = "lost"


def attack(checkout: Path, places: Places) -> None:
    before = (checkout / "Makefile").stat()
    data = (checkout / "Makefile").read_text()
    run_git(checkout, "config", "core.trustctime", "false")
    run_git(checkout, "config", "core.checkStat", "minimal")
    (checkout / "Makefile").write_text(data.replace("python3", "pythonX"))
    os.utime(checkout / "Makefile", ns=(before.st_atime_ns, before.st_mtime_ns))
    later = before.st_mtime_ns + 10**11
    os.utime(checkout / ".git/index", ns=(later, later))
