"""``nightshift report``: how past nights turned out, read from GitLab."""

import argparse

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift report                                     this project, to nightshift-history.html
  nightshift report --group acme --days 30              all projects of a group
  nightshift report --json --output -                   the same as JSON"""
HTML_FILE, JSON_FILE = "nightshift-history.html", "nightshift-history.json"


def register(commands: "options.Commands") -> None:
    summary = "show how past nights turned out, as a page or JSON"
    parser = options.add_command(commands, "report", summary, run, examples=EXAMPLES)
    options.add_settings_options(parser)
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--project", metavar="PATH", help="default: this job's")
    scope.add_argument("--group", metavar="PATH", help="all projects of a group")
    parser.add_argument("--days", type=int, default=90, metavar="N", help="default: 90")
    parser.add_argument("--json", action="store_true", help="JSON instead of a page")
    parser.add_argument(
        "--output", metavar="FILE", help=f"default: {HTML_FILE} or {JSON_FILE}; - for stdout"
    )


def run(args: argparse.Namespace, env: Env) -> int:
    """Read the history and write it."""
    from gitlab_nightshift.commands.config_show import read_settings
    from gitlab_nightshift.commands.history_reading import read_figures
    from gitlab_nightshift.records.storage import to_json
    from gitlab_nightshift.stages.report.history_report import render_history

    settings = read_settings(options.build_invocation(args, env))
    figures = read_figures(settings, env, args.project, args.group, args.days)
    text = to_json(figures) if args.json else render_history(figures)
    _write_output(args.output or (JSON_FILE if args.json else HTML_FILE), text)
    return 0


def _write_output(name: str, text: str) -> None:
    from pathlib import Path

    from gitlab_nightshift.errors import build_config_error

    if name == "-":
        options.write_result(text)
        return
    try:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise build_config_error(f"--output {name}: {error.strerror}") from None
    print(name)
