"""``nightshift fleet stop`` and ``start``: all nights of the fleet's groups, at once and without a
commit."""

import argparse

from gitlab_nightshift.commands import fleet_options, options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift fleet stop                      the top-level groups of fleet.yaml
  nightshift fleet stop --running            also cancel the nights that run now
  nightshift fleet stop --group acme         without a fleet.yaml"""
REQUIRED = "an Owner's token of each top-level group, scope api, writes the variable"


def register(commands: "options.Commands") -> None:
    """Add both commands to the command line."""
    text = "stop all nights: one variable for each top-level group"
    parser = options.add_command(commands, "stop", text, stop, examples=EXAMPLES)
    fleet_options.add_group_options(parser)
    parser.add_argument("--running", action="store_true", help="also cancel nights that run now")
    text = "take back fleet stop, and say what still keeps nights off"
    fleet_options.add_group_options(options.add_command(commands, "start", text, start))


def stop(args: argparse.Namespace, env: Env) -> int:
    """Stop the nights; the exit status is 13 if something was not reached."""
    from gitlab_nightshift.fleet.switch import stop_nights

    groups = fleet_options.find_groups(args)
    api = fleet_options.open_connection(env, REQUIRED)
    return fleet_options.print_switch_lines(stop_nights(api, groups, running=args.running))


def start(args: argparse.Namespace, env: Env) -> int:
    """Let nights start again; the exit status is 13 if something was not reached."""
    from gitlab_nightshift.fleet.switch import start_nights

    groups = fleet_options.find_groups(args)
    api = fleet_options.open_connection(env, REQUIRED)
    return fleet_options.print_switch_lines(start_nights(api, groups))
