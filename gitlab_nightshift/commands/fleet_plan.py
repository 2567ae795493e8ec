"""``nightshift fleet plan``: which projects get a night tonight; changes nothing."""

import argparse

from gitlab_nightshift.commands import fleet_options, options
from gitlab_nightshift.commands.options import Env


def register(commands: "options.Commands") -> None:
    """Add the command to the command line."""
    text = "choose tonight's projects, and say of each why or why not"
    parser = options.add_command(commands, "plan", text, run)
    fleet_options.add_fleet_option(parser)


def run(args: argparse.Namespace, env: Env) -> int:
    """Choose, write fleet-plan.json, print the table."""
    from datetime import UTC, datetime
    from pathlib import Path

    from gitlab_nightshift.commands import printing
    from gitlab_nightshift.fleet import tonights_plan
    from gitlab_nightshift.fleet.fleet_dashboard import NOTHING_OFF, read_switches
    from gitlab_nightshift.records.storage import write_record

    file = fleet_options.read_fleet(args)
    api = fleet_options.open_connection(env, "the scope read_api is enough")
    last = tonights_plan.read_last_plan(api, Path.cwd(), fleet_options.read_control_job(env))
    if last.note:
        printing.write_note(last.note)
    switches = NOTHING_OFF
    if number := file.settings.dashboard:
        switches = read_switches(fleet_options.open_control_project(env), number)
    plan = tonights_plan.plan_fleet(api, file, last, datetime.now(UTC), switches)
    write_record(Path.cwd() / tonights_plan.PLAN_FILE, plan)
    for line in tonights_plan.format_plan(plan):
        printing.write_result(f"{line}\n")
    return 0
