"""``nightshift providers``: lists the agents installed here."""

import argparse

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift providers
  nightshift providers --json --set agent_executable=/opt/claude/bin/claude"""


def register(commands: "options.Commands") -> None:
    summary = "list the agents installed here and what each can do"
    parser = options.add_command(commands, "providers", summary, run, examples=EXAMPLES)
    options.add_settings_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace, env: Env) -> int:
    """Print a row for each agent."""
    from gitlab_nightshift.commands.config_show import build_search_env, read_settings
    from gitlab_nightshift.commands.provider_table import format_rows, list_providers

    call = options.build_invocation(args, env)
    rows = list_providers(read_settings(call), build_search_env(call))
    options.write_result(format_rows(rows, as_json=args.json))
    return 0
