"""What `fleet plan` and `fleet run` take, against a GitLab stand-in that another process serves.

    PYTHONPATH=. python benchmarks/fleet.py [PROJECTS …]

Each page of GraphQL takes 500 ms there, and a query may be as complex as in GitLab. A plan is made
after a night of all projects, whose results it reads, and once more, when there is nothing new. The
goals for 10,000 projects: 180 s, 60 s of CPU, 300 MB, one request for 20 projects and one for each
night that has reported; from 1,000 to 10,000 at most 11 times as much.

Then three nights of 400 projects within a budget, with 5% of requests failing (429, 502, lost
answers), 2% of nights dying and `fleet run` killed at ten random moments of each: every project
that was due has started once, or is named, and no budget is passed.
"""

import os
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.fleet_standin import (
    PLAN_TOKEN,
    RUN_TOKEN,
    FleetServer,
    build_env,
    open_fleet_server,
)

PAGE_S, KILLS, NIGHT_USD, LIMIT_USD, COST_USD = 0.5, 10, 500.0, 2.0, 1.5
COMMAND = [sys.executable, "-P", "-m", "gitlab_nightshift", "fleet"]


@dataclass(frozen=True)
class Spent:
    """A command's end: seconds, seconds of CPU, its process's largest MB, what it printed."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    status: int
    text: str


def run(folder: Path, server: FleetServer, *args: str, kill_s: float | None = None) -> Spent:
    """Run a command of the fleet in the control project's folder, or kill it after some time."""
    token = PLAN_TOKEN if args[0] == "plan" else RUN_TOKEN
    env = {**build_env(server.url, token), "PATH": os.environ["PATH"], "HOME": str(folder)}
    began, out = time.perf_counter(), folder / "log"
    with out.open("wb") as log:
        process = subprocess.Popen(
            [*COMMAND, *args], cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True
        )
        if kill_s is not None:
            time.sleep(kill_s)
            os.killpg(process.pid, 9)
        _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    cpu = used.ru_utime + used.ru_stime
    code = os.waitstatus_to_exitcode(status)
    return Spent(wall, cpu, used.ru_maxrss / 1024, code, out.read_text())


def write_fleet(folder: Path, more: str) -> None:
    """A fleet.yaml with a window, of one hour, that is open now."""
    now = datetime.now(UTC) - timedelta(minutes=5)
    window = f"{{start: '{now:%H:%M}', end: '{now + timedelta(hours=1):%H:%M}'}}"
    folder.mkdir(exist_ok=True)
    text = "groups: [acme]\ncadence: nightly\nmax_running: 100000\nmax_open_per_reviewer: 100000\n"
    (folder / "fleet.yaml").write_text(f"{text}window: {window}\n{more}")


def measure_plan(projects: int) -> tuple[Spent, Spent]:
    """Plan after a night of all projects, and once more."""
    with tempfile.TemporaryDirectory() as name, open_fleet_server(Path(name) / "gitlab") as server:
        folder = Path(name) / "control"
        write_fleet(folder, "budget: {night_usd: 1000000}\n")
        server.call("add_fleet", group="acme", count=projects)
        server.call("add_past_nights", nights=1)
        server.call("configure", page_delay_s=PAGE_S)
        made = []
        for what in ("all nights have reported", "nothing new"):
            before = count_requests(server)
            spent = run(folder, server, "plan")
            assert spent.status == 0, spent.text[-2000:]
            asked = count_requests(server) - before
            print(
                f"{projects:6} projects, {what}: {spent.wall_s:.1f} s, {spent.cpu_s:.1f} s of CPU,"
                f" {spent.peak_mb:.0f} MB, {asked} requests",
                flush=True,
            )
            made.append(spent)
        return made[0], made[1]


def count_requests(server: FleetServer) -> int:
    return sum(server.call("count")["requests"].values())


def run_nights(projects: int, nights: int) -> None:
    """Nights that are disturbed; what was started, and what it came to."""
    chance = random.Random(3)  # noqa: S311 - moments of kills
    with tempfile.TemporaryDirectory() as name, open_fleet_server(Path(name) / "gitlab") as server:
        folder = Path(name) / "control"
        server.call("add_fleet", group="acme", count=projects)
        for number in range(1, nights + 1):
            write_fleet(folder, f"budget: {{night_usd: {NIGHT_USD}}}\n")
            server.call("configure", failing=0.05, worker_delay_s=1.0, delay_s=0.02)
            plan = run(folder, server, "plan")
            assert plan.status == 0, plan.text[-2000:]
            due = int(re.findall(r"(\d+) start,", plan.text)[-1])
            for _ in range(KILLS):
                run(folder, server, "run", kill_s=chance.uniform(4.0, 9.0))
            last = run(folder, server, "run")
            failed = last.text.count("\nfailed ") + last.text.startswith("failed ")
            started = server.call("count")["nights"]
            assert set(started.values()) == {1}, "a project has had two nights"
            assert len(started) + failed >= due, (len(started), failed, due)
            ended = server.call("end_nights", cost_usd=COST_USD, dying=0.02)
            server.call("configure", failing=0.0)
            after = run(folder, server, "plan")
            spent = float(re.findall(r"spent tonight \$([\d.]+)", after.text)[-1])
            assert spent <= NIGHT_USD, spent
            assert not server.call("count")["errors"]
            print(
                f"night {number}: {due} due, {len(started)} started once, {failed} named,"
                f" {ended['died']} died, exit {last.status}; ${spent:.2f} of ${NIGHT_USD:g}",
                flush=True,
            )
            server.call("pass_days", days=1)


def main(sizes: list[int]) -> None:
    rows = [measure_plan(size) for size in sizes]
    if len(rows) > 1:
        for what, numbers in (("s", "wall_s"), ("s of CPU", "cpu_s"), ("MB", "peak_mb")):
            first, last = (getattr(row[0], numbers) for row in (rows[0], rows[-1]))
            print(f"{sizes[0]} to {sizes[-1]} projects: {last / first:.1f} times the {what}")
    run_nights(400, 3)


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or [1000, 10_000])
