"""``nightshift doctor``: would a night start here."""

import argparse

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift doctor --boundary               would a night start here, and in which sandbox
  nightshift doctor --boundary --verbose --set isolation=landlock"""


def register(commands: "options.Commands") -> None:
    """Add the command to the command line."""
    summary = "would a night start here: tried, not guessed"
    parser = options.add_command(
        commands, "doctor", summary, run, examples=EXAMPLES, beside_agents=True
    )
    options.add_settings_options(parser)
    parser.add_argument(
        "--boundary",
        action="store_true",
        help="the sandbox that a night with these settings would have, proven; 0 only where one"
        " would start",
    )
    parser.add_argument("--verbose", action="store_true", help="with the evidence of each row")


def run(args: argparse.Namespace, env: Env) -> int:
    """Examine this machine; 0 only where a night would start, else the status it would end with."""
    from gitlab_nightshift.commands.doctor_report import format_examination
    from gitlab_nightshift.commands.examination import examine
    from gitlab_nightshift.errors import build_config_error

    if not args.boundary:
        raise build_config_error("doctor: so far only --boundary can be examined")
    options.check_linux()
    seen = examine(options.build_invocation(args, env))
    in_gitlab = env.get("GITLAB_CI") == "true" and not env.get("NO_COLOR")
    colour = options.has_colour(env) or in_gitlab
    print(format_examination(seen, verbose=args.verbose, colour=colour))
    return seen.exit_status
