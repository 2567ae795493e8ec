"""``nightshift fleet run``: start the nights that are due now, and end."""

import argparse
from typing import TYPE_CHECKING

from gitlab_nightshift.commands import fleet_options, options
from gitlab_nightshift.commands.options import Env

if TYPE_CHECKING:
    from gitlab_nightshift.fleet.night_start import Shard

PLAN_FILE = "fleet-plan.json"


def register(commands: "options.Commands") -> None:
    """Add the command to the command line."""
    text = "start the nights that a plan has due now, by playing their schedules"
    parser = options.add_command(commands, "run", text, run)
    parser.add_argument("--plan", metavar="FILE", default=PLAN_FILE, help=f"default: {PLAN_FILE}")


def run(args: argparse.Namespace, env: Env) -> int:
    """Start them; exit status 13 if some could not be started."""
    from collections import Counter
    from datetime import UTC, datetime
    from pathlib import Path

    from gitlab_nightshift.errors import Code
    from gitlab_nightshift.fleet.night_start import start_nights
    from gitlab_nightshift.fleet.switch import is_off
    from gitlab_nightshift.gitlab.fleet_switch import ENABLED_VARIABLE
    from gitlab_nightshift.records.fleet_records import FleetPlan
    from gitlab_nightshift.records.storage import read_record

    if is_off(
        env.get(ENABLED_VARIABLE)
    ):  # the control project's own group is stopped: nights would skip
        print(f"nothing is started: {ENABLED_VARIABLE} is {env[ENABLED_VARIABLE]}")
        return 0
    plan = read_record(FleetPlan, Path(args.plan))
    shard = _read_shard(env)
    api = fleet_options.open_connection(env, "a token with the scope api is needed")
    counts = Counter[str]()
    for each in start_nights(api, plan, shard, datetime.now(UTC)):
        counts[each.outcome] += 1
        print(f"{each.outcome:7} {each.path}  {each.text}", flush=True)
    text = f", shard {shard.index} of {shard.total}" if shard.total > 1 else ""
    print(
        f"night of {plan.night}{text}: {counts['started']} started, {counts['already']} already,"
        f" {counts['own']} with a schedule of their own, {counts['failed']} not started"
    )
    return Code.INCOMPLETE.exit_status if counts["failed"] else 0


def _read_shard(env: Env) -> "Shard":
    """This job's shard, by ``parallel:`` in the pipeline file."""
    from gitlab_nightshift.errors import build_config_error
    from gitlab_nightshift.fleet.night_start import Shard

    index, total = env.get("CI_NODE_INDEX") or "1", env.get("CI_NODE_TOTAL") or "1"
    if not (index.isdecimal() and total.isdecimal() and 1 <= int(index) <= int(total)):
        raise build_config_error(f"CI_NODE_INDEX {index!r} of CI_NODE_TOTAL {total!r}: no shard")
    return Shard(int(index), int(total))
