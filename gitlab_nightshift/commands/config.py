"""``nightshift config``: shows the settings in force, and the schemas of files."""

import argparse

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift config show                     the settings that most teams use, and all that you set
  nightshift config show --all --set agent=codex
  nightshift config schema > nightshift.schema.json
  nightshift config schema result            the schema of result.json, which each night leaves"""


def register(commands: "options.Commands") -> None:
    config = commands.add_parser(
        "config",
        help="show the settings or their schema",
        epilog=EXAMPLES,
        formatter_class=options.build_formatter,
    )
    subcommands = config.add_subparsers(metavar="show|schema", required=True)
    show = options.add_command(
        subcommands, "show", "show values and where they come from", show_settings
    )
    show.add_argument("--all", action="store_true", help="every setting")
    options.add_settings_options(show)
    summary = "print the JSON Schema of nightshift.yaml, for editors, or of result.json"
    schema = options.add_command(subcommands, "schema", summary, show_schema)
    schema.add_argument("file", nargs="?", choices=("settings", "result"), default="settings")


def show_settings(args: argparse.Namespace, env: Env) -> int:
    """Print a line per setting."""
    from gitlab_nightshift.commands.config_show import format_settings

    print(format_settings(options.build_invocation(args, env), show_all=args.all))
    return 0


def show_schema(args: argparse.Namespace, _env: Env) -> int:
    """Print the schema of the configuration file, or of a night's result."""
    import json

    if args.file == "result":
        from gitlab_nightshift.stages.report.result_schema import build_result_schema as build
    else:
        from gitlab_nightshift.settings.schema import build_schema as build
    print(json.dumps(build(), indent=2))
    return 0
