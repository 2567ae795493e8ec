"""``nightshift fleet start``: nights go on after ``fleet stop``."""

import argparse

from gitlab_nightshift.commands import fleet_options, options
from gitlab_nightshift.commands.fleet_stop import SCOPE
from gitlab_nightshift.commands.options import Env


def register(commands: "options.Commands") -> None:
    """Add the command to the command line."""
    text = "take back fleet stop, and say what still keeps nights off"
    fleet_options.add_group_options(options.add_command(commands, "start", text, run))


def run(args: argparse.Namespace, env: Env) -> int:
    """Start them; the exit status is 13 where something was not reached."""
    from gitlab_nightshift.fleet.switch import start_nights

    groups = fleet_options.find_groups(args)
    api = fleet_options.open_connection(env, SCOPE)
    return fleet_options.print_switch_lines(start_nights(api, groups))
