"""``nightshift fleet report``: the results of the whole fleet, and one notification."""

import argparse
from typing import TYPE_CHECKING

from gitlab_nightshift.commands import fleet_options, options
from gitlab_nightshift.commands.options import Env

if TYPE_CHECKING:
    from gitlab_nightshift.fleet.fleet_settings import FleetSettings
    from gitlab_nightshift.stages.report.history_report import HistoryFigures
    from gitlab_nightshift.stages.report.result_texts import Notification

EXAMPLES = """\
examples:
  nightshift fleet report                    page, JSON and metrics of the last 30 days, here
  nightshift fleet report --days 90 --output public"""
SCOPE = "the scope read_api is enough, or api for a dashboard"


def register(commands: "options.Commands") -> None:
    """Add the command to the command line."""
    text = "show what became of all projects' nights: page, JSON, metrics, one notification"
    parser = options.add_command(commands, "report", text, run, examples=EXAMPLES)
    fleet_options.add_fleet_option(parser)
    parser.add_argument("--days", type=int, default=30, metavar="N", help="default: 30")
    parser.add_argument("--output", metavar="FOLDER", default=".", help="default: this folder")
    parser.add_argument("--quiet", action="store_true", help="notify nobody, write no dashboard")


def run(args: argparse.Namespace, env: Env) -> int:
    """Write the files, then notify people."""
    from pathlib import Path

    from gitlab_nightshift.commands.history_reading import find_first_day
    from gitlab_nightshift.fleet.fleet_history import build_message, make_report

    settings, since = fleet_options.read_fleet(args).settings, find_first_day(args.days)
    api = fleet_options.open_connection(env, SCOPE)
    control = fleet_options.read_control_job(env)
    figures = make_report(api, settings, since, Path(args.output), control)
    message = build_message(figures, env.get("CI_JOB_URL", ""))
    print(message.body)
    return 0 if args.quiet else _notify_people(settings, figures, message, env)


def _notify_people(
    settings: "FleetSettings", figures: "HistoryFigures", message: "Notification", env: Env
) -> int:
    """The exit status: 13 if somebody was not notified, or the dashboard was not written."""
    import os

    from gitlab_nightshift.commands.printing import write_note
    from gitlab_nightshift.errors import Code, NightshiftError
    from gitlab_nightshift.fleet.fleet_dashboard import write_dashboard
    from gitlab_nightshift.run.supervisor.notices import notify_of_message

    warnings = list(notify_of_message(message, settings.notify, env, dict(os.environ)))
    try:
        if settings.dashboard:
            project = fleet_options.open_control_project(env)
            write_dashboard(project, settings.dashboard, figures, settings.groups)
    except NightshiftError as error:
        warnings.append(f"the dashboard could not be written: {error.message}")
    for line in warnings:
        write_note(f"warning: {line}")
    return Code.INCOMPLETE.exit_status if warnings else 0
