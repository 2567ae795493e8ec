"""``nightshift fleet``: plans, starts, reports and stops the nights of many projects, from a
control project. ``fleet_init.py`` sets the projects up."""

import argparse

from gitlab_nightshift.commands import fleet_init, fleet_options, options
from gitlab_nightshift.commands.options import Env

TYPE_CHECKING = False  # instead of typing's, whose import takes 6 ms
if TYPE_CHECKING:
    from gitlab_nightshift.fleet.fleet_settings import FleetSettings
    from gitlab_nightshift.fleet.tonights_plan import Shard
    from gitlab_nightshift.stages.report.history_report import HistoryFigures
    from gitlab_nightshift.stages.report.result_texts import Notification

EXAMPLES = """\
examples:
  nightshift fleet plan                      choose tonight's projects, and say why or why not
  nightshift fleet run                       start those that are due now
  nightshift fleet init                      show which projects would be set up
  nightshift fleet stop --running            stop all nights, also those that run"""
REPORT_EXAMPLES = """\
examples:
  nightshift fleet report                    page, JSON and metrics of the last 30 days, here
  nightshift fleet report --days 90 --output public"""
STOP_EXAMPLES = """\
examples:
  nightshift fleet stop                      the top-level groups of fleet.yaml
  nightshift fleet stop --running            also cancel the nights that run now
  nightshift fleet stop --group acme         without a fleet.yaml"""
PLAN_FILE = "fleet-plan.json"
# The token that a command needs, in words, for ``open_connection``.
REPORT_RIGHTS = "the scope read_api is enough, or api for a dashboard"
SWITCH_RIGHTS = "an Owner's token of each top-level group, scope api, writes the variable"


def register(commands: "options.Commands") -> None:
    fleet = commands.add_parser(
        "fleet",
        help="give many projects their nights, from a control project",
        epilog=EXAMPLES,
        formatter_class=options.build_formatter,
    )
    subcommands = fleet.add_subparsers(title="commands", metavar="COMMAND", required=True)
    fleet_init.register(subcommands)
    _add_plan_and_run(subcommands)
    _add_report(subcommands)
    _add_stop_and_start(subcommands)
    summary = "replace the nights' tokens that end within two weeks"
    parser = options.add_command(subcommands, "rotate", summary, rotate)
    fleet_options.add_fleet_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="change nothing, show what is due")


def _add_plan_and_run(commands: "options.Commands") -> None:
    summary = "choose tonight's projects, and say of each why or why not"
    fleet_options.add_fleet_option(options.add_command(commands, "plan", summary, plan))
    summary = "start the nights that a plan has due now, by playing their schedules"
    parser = options.add_command(commands, "run", summary, run)
    parser.add_argument("--plan", metavar="FILE", default=PLAN_FILE, help=f"default: {PLAN_FILE}")


def _add_report(commands: "options.Commands") -> None:
    summary = "show what became of all projects' nights: page, JSON, metrics, one notification"
    parser = options.add_command(commands, "report", summary, report, examples=REPORT_EXAMPLES)
    fleet_options.add_fleet_option(parser)
    parser.add_argument("--days", type=int, default=30, metavar="N", help="default: 30")
    parser.add_argument("--output", metavar="FOLDER", default=".", help="default: this folder")
    parser.add_argument("--quiet", action="store_true", help="notify nobody, write no dashboard")


def _add_stop_and_start(commands: "options.Commands") -> None:
    summary = "stop all nights: one variable for each top-level group"
    parser = options.add_command(commands, "stop", summary, stop, examples=STOP_EXAMPLES)
    fleet_options.add_group_options(parser)
    parser.add_argument("--running", action="store_true", help="also cancel nights that run now")
    summary = "take back fleet stop, and say what still keeps nights off"
    fleet_options.add_group_options(options.add_command(commands, "start", summary, start))


def plan(args: argparse.Namespace, env: Env) -> int:
    """Choose tonight's projects, write fleet-plan.json and print the table."""
    from datetime import UTC, datetime
    from pathlib import Path

    from gitlab_nightshift.fleet import tonights_plan
    from gitlab_nightshift.fleet.fleet_dashboard import NOTHING_OFF, read_switches
    from gitlab_nightshift.records.storage import write_record

    file = fleet_options.read_fleet(args)
    api = fleet_options.open_connection(env, "the scope read_api is enough")
    last_plan = tonights_plan.read_last_plan(api, Path.cwd(), fleet_options.read_control_job(env))
    if last_plan.note:
        options.write_note(last_plan.note)
    switches = NOTHING_OFF
    if issue := file.settings.dashboard:
        switches = read_switches(fleet_options.open_control_project(env), issue)
    fleet_plan = tonights_plan.plan_fleet(api, file, last_plan, datetime.now(UTC), switches)
    write_record(Path.cwd() / tonights_plan.PLAN_FILE, fleet_plan)
    for line in tonights_plan.format_plan(fleet_plan):
        options.write_result(f"{line}\n")
    return 0


def run(args: argparse.Namespace, env: Env) -> int:
    """Start the nights that are due; the exit status is 13 if some could not be started."""
    from collections import Counter
    from datetime import UTC, datetime
    from pathlib import Path

    from gitlab_nightshift.errors import Code
    from gitlab_nightshift.fleet.switch import is_off
    from gitlab_nightshift.fleet.tonights_plan import start_nights
    from gitlab_nightshift.gitlab.fleet_switch import ENABLED_VARIABLE
    from gitlab_nightshift.records.fleet_records import FleetPlan
    from gitlab_nightshift.records.storage import read_record

    # The group of the control project is stopped, so every night would be skipped.
    if is_off(env.get(ENABLED_VARIABLE)):
        print(f"nothing is started: {ENABLED_VARIABLE} is {env[ENABLED_VARIABLE]}")
        return 0
    fleet_plan = read_record(FleetPlan, Path(args.plan))
    shard = _read_shard(env)
    api = fleet_options.open_connection(env, "a token with the scope api is needed")
    counts = Counter[str]()
    for result in start_nights(api, fleet_plan, shard, datetime.now(UTC)):
        counts[result.outcome] += 1
        print(f"{result.outcome:7} {result.path}  {result.text}", flush=True)
    shard_text = f", shard {shard.index} of {shard.total}" if shard.total > 1 else ""
    print(
        f"night of {fleet_plan.night}{shard_text}: {counts['started']} started,"
        f" {counts['already']} already, {counts['own']} with a schedule of their own,"
        f" {counts['failed']} not started"
    )
    return Code.INCOMPLETE.exit_status if counts["failed"] else 0


def _read_shard(env: Env) -> "Shard":
    """The part of the plan that this job starts."""
    from gitlab_nightshift.errors import build_config_error
    from gitlab_nightshift.fleet.tonights_plan import Shard

    # GitLab sets both variables in jobs with `parallel:` (docs.gitlab.com/ci/variables).
    index, total = env.get("CI_NODE_INDEX") or "1", env.get("CI_NODE_TOTAL") or "1"
    if not (index.isdecimal() and total.isdecimal() and 1 <= int(index) <= int(total)):
        raise build_config_error(f"CI_NODE_INDEX {index!r} of CI_NODE_TOTAL {total!r}: no shard")
    return Shard(int(index), int(total))


def report(args: argparse.Namespace, env: Env) -> int:
    """Write page, JSON and metrics, then notify people."""
    from pathlib import Path

    from gitlab_nightshift.commands.history_reading import find_first_day
    from gitlab_nightshift.fleet.fleet_history import build_message, make_report

    settings, since = fleet_options.read_fleet(args).settings, find_first_day(args.days)
    api = fleet_options.open_connection(env, REPORT_RIGHTS)
    control_job = fleet_options.read_control_job(env)
    figures = make_report(api, settings, since, Path(args.output), control_job)
    message = build_message(figures, env.get("CI_JOB_URL", ""))
    print(message.body)
    return 0 if args.quiet else _notify_people(settings, figures, message, env)


def _notify_people(
    settings: "FleetSettings", figures: "HistoryFigures", message: "Notification", env: Env
) -> int:
    """Send the message and write the dashboard; returns the exit status, 13 if either failed."""
    import os

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
        options.write_note(f"warning: {line}")
    return Code.INCOMPLETE.exit_status if warnings else 0


def stop(args: argparse.Namespace, env: Env) -> int:
    """Stop the nights; the exit status is 13 if that failed somewhere."""
    from gitlab_nightshift.fleet.switch import stop_nights

    groups = fleet_options.find_groups(args)
    api = fleet_options.open_connection(env, SWITCH_RIGHTS)
    return fleet_options.print_switch_lines(stop_nights(api, groups, running=args.running))


def start(args: argparse.Namespace, env: Env) -> int:
    """Let nights start again; the exit status is 13 if that failed somewhere."""
    from gitlab_nightshift.fleet.switch import start_nights

    groups = fleet_options.find_groups(args)
    api = fleet_options.open_connection(env, SWITCH_RIGHTS)
    return fleet_options.print_switch_lines(start_nights(api, groups))


def rotate(args: argparse.Namespace, env: Env) -> int:
    """Rotate the tokens that are due; the exit status is 13 if a project failed."""
    from collections import Counter
    from datetime import UTC, datetime

    from gitlab_nightshift.errors import Code, NightshiftError
    from gitlab_nightshift.fleet.discovery import discover_all
    from gitlab_nightshift.fleet.rotation import describe_own_expiry, rotate_token
    from gitlab_nightshift.gitlab.project import open_project

    file = fleet_options.read_fleet(args)
    api = fleet_options.open_connection(env, fleet_options.MAINTAINER_RIGHTS)
    today = datetime.now(UTC).date()
    token, server = env["GITLAB_TOKEN"].strip(), env["CI_SERVER_URL"].strip()
    paths = [each.path for each in discover_all(api, file).projects if each.set_up]

    def rotate_one(path: str) -> tuple[str, str, str]:
        # A connection for each thread: a session of requests is not thread-safe.
        project = open_project(server, path, token)
        try:
            rotation = rotate_token(project, today, dry_run=args.dry_run)
        except NightshiftError as error:
            return path, "failed", error.message
        return path, rotation.state, rotation.text

    counts: Counter[str] = Counter()
    for path, state, text in api.map_concurrently(rotate_one, paths):
        counts[state] += 1
        if state != "kept" or args.dry_run:
            print(f"{state:<10} {path}: {text}", flush=True)
    print(", ".join(f"{count} {state}" for state, count in counts.most_common()) or "no projects")
    if text := describe_own_expiry(api.client, today):
        print(text)
    return Code.INCOMPLETE.exit_status if counts["failed"] else 0
