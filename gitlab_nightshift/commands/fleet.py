"""``nightshift fleet``: many projects, from a control project."""

import importlib

from gitlab_nightshift.commands import options

EXAMPLES = """\
examples:
  nightshift fleet plan                      choose tonight's projects, and say why or why not
  nightshift fleet run                       start those that are due now
  nightshift fleet init                      show which projects would be set up
  nightshift fleet stop --running            stop all nights, also those that run"""
MODULES = ("init", "plan", "run", "report", "stop", "rotate")
"""``fleet_….py``, in the order of ``--help``; ``stop`` also has ``start``."""


def register(commands: "options.Commands") -> None:
    """Add the commands to the command line."""
    fleet = commands.add_parser(
        "fleet",
        help="give many projects their nights, from a control project",
        epilog=EXAMPLES,
        formatter_class=options.build_formatter,
    )
    below = fleet.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in MODULES:
        importlib.import_module(f"gitlab_nightshift.commands.fleet_{name}").register(below)
