"""A control project's folder, in which the fleet's commands are run against a stand-in."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support import warm
from tests.support.fleet_standin import PLAN_TOKEN, RUN_TOKEN, build_env
from tests.support.world import PATH, Done, ended

QUICK = """
from gitlab_nightshift.fleet import tonights_plan
tonights_plan.SETTLING_S = 1.5
"""
"""Run first in each command: the stand-in's pipelines are there within a second."""


@dataclass(frozen=True)
class ControlProject:
    """Its folder, and the address of the stand-in."""

    folder: Path
    url: str

    def write_fleet(self, more: str = "") -> None:
        """A fleet.yaml whose window, of one hour, is open now."""
        now = datetime.now(UTC) - timedelta(minutes=30)
        window = f"window: {{start: '{now:%H:%M}', end: '{now + timedelta(hours=1):%H:%M}'}}\n"
        given = more if "budget:" in more else f"{more}budget: {{night_usd: 1000}}\n"
        usual = "groups: [acme]\nmax_running: 1000\nmax_open_per_reviewer: 1000\n"
        self.folder.mkdir(exist_ok=True)
        (self.folder / "fleet.yaml").write_text(f"{usual}{window}cadence: nightly\n{given}")

    def start(self, *args: str, before: str = "", **env: str) -> warm.Started:
        """Start a command of the fleet with the token that it needs."""
        token = PLAN_TOKEN if args[0] == "plan" else RUN_TOKEN
        whole = {**build_env(self.url, token), "PATH": PATH, "HOME": str(self.folder), **env}
        return warm.start(["fleet", *args], cwd=self.folder, env=whole, before=QUICK + before)

    def run(self, *args: str, before: str = "", **env: str) -> Done:
        """The same, to its end."""
        return ended(self.start(*args, before=before, **env))

    def read_plan(self) -> Any:
        """What the last plan wrote."""
        return json.loads((self.folder / "fleet-plan.json").read_text())
