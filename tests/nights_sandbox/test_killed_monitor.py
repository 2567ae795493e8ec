"""An agent's monitor is killed in the middle of a bead: the attempt fails, the night goes on."""

import os
import signal
from pathlib import Path

from gitlab_nightshift.system.processes import _read_parent
from tests.sandbox import tools
from tests.support.sandboxes import scripted, tier_or_skip, with_agent
from tests.support.trees import processes_in
from tests.support.world import PLAIN, ended, wait_in, world

IMPLEMENT = (
    "case $HOME in *-1/home) echo evil > run.sh; touch planted; exec sleep 600 ;; esac;"
    " echo '# x' >> test_shop.py"
)


def holder_of(pid: int, night: int) -> int:
    """The process that the night's process of work has started, of one below it."""
    while _read_parent(_read_parent(pid)) != night:
        pid = _read_parent(pid)
    return pid


def sleeping(folder: Path) -> list[int]:
    """The agent, once nothing of it but its last command is left."""
    return [int(each.split()[0]) for each in processes_in(folder) if " sleep" in each]


def test_the_monitor_is_killed() -> None:
    tier = tier_or_skip("landlock")
    config = f"{PLAIN}accept_partial: [files]\n"
    with tools.open_folder() as folder, world(Path(folder), config=config) as shop:
        path = with_agent(shop, "scripted", scripted(IMPLEMENT))
        night = shop.start("run", NIGHTSHIFT_ISOLATION=tier, PATH=path)
        wait_in(night, lambda: sleeping(folder), "the agent at work")
        [agent] = sleeping(folder)
        monitor = holder_of(agent, night.pid)
        assert monitor != agent
        os.kill(monitor, signal.SIGKILL)
        done = ended(night)
        assert (done.exit_status, shop.result["outcome"]) == (0, "MR_CREATED"), done.log
        failed = shop.result["beads"][1]
        assert (failed["bead"], failed["attempt"], failed["status"]) == ("implement", 1, "crashed")
        assert failed["error"] == "the agent ended with SIGKILL (perhaps memory ran out)"
        assert processes_in(folder) == []
        shop.assert_restored()
