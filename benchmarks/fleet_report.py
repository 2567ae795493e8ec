"""``fleet report`` and ``fleet stop`` over many projects of a stand-in in a process of its own.

    python -m benchmarks.fleet_report [--projects 10000] [--delay 0.5]

Seconds, CPU seconds and memory of the command; what GitLab was asked. A first report reads a
result for each night, a second one none of them again.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.fleet_standin import (
    OWNER_TOKEN,
    PLAN_TOKEN,
    FleetServer,
    build_env,
    open_fleet_server,
)

REPORT = ("report", "--quiet")
FLEET = "groups: [acme]\nbudget: {night_usd: 100000}\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--projects", type=int, default=10_000)
    parser.add_argument("--nights", type=int, default=1, help="that each project has had")
    parser.add_argument("--delay", type=float, default=0.5, help="of a page, in seconds")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fleet.yaml").write_text(FLEET)
        with open_fleet_server(folder / "gitlab") as server:
            server.call("add_fleet", group="acme", count=asked.projects)
            server.call("add_past_nights", nights=asked.nights)
            server.call("configure", page_delay_s=asked.delay)
            count = asked.projects
            measure(server, folder, f"{count} projects, first report", PLAN_TOKEN, *REPORT)
            measure(server, folder, f"{count} projects, second report", PLAN_TOKEN, *REPORT)
            measure(server, folder, f"{count} projects, stop", OWNER_TOKEN, "stop")


def measure(server: FleetServer, folder: Path, title: str, token: str, *args: str) -> None:
    """Run a command once."""
    before, asked = time.monotonic(), sum(server.call("count")["requests"].values())
    command = [sys.executable, "-P", "-m", "gitlab_nightshift", "fleet", *args]
    env: Mapping[str, str] = {"PATH": os.environ["PATH"], **build_env(server.url, token)}
    process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    took = time.monotonic() - before
    requests = sum(server.call("count")["requests"].values()) - asked
    cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    print(
        f"{title}: exit {process.returncode}, {took:.0f} s, CPU {cpu:.1f} s,"
        f" {memory:.0f} MB, {requests} requests",
        flush=True,
    )


if __name__ == "__main__":
    main()
