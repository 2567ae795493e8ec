"""``nightshift fleet rotate``: new tokens for projects whose nights' token ends soon."""

import argparse
from typing import TYPE_CHECKING

from gitlab_nightshift.commands import fleet_options, options
from gitlab_nightshift.commands.options import Env

if TYPE_CHECKING:
    from collections.abc import Callable

    from gitlab_nightshift.fleet.rotation import Rotation

REQUIRED = "a Maintainer's token, scope api: a person's or a service account's"


def register(commands: "options.Commands") -> None:
    """Add the command to the command line."""
    text = "replace the nights' tokens that end within two weeks"
    parser = options.add_command(commands, "rotate", text, run)
    fleet_options.add_fleet_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="change nothing, show what is due")


def run(args: argparse.Namespace, env: Env) -> int:
    """Rotate the tokens that are due; the exit status is 13 if a project failed."""
    from collections import Counter
    from datetime import UTC, datetime
    from functools import partial

    from gitlab_nightshift.errors import Code
    from gitlab_nightshift.fleet.discovery import discover_all
    from gitlab_nightshift.fleet.rotation import describe_own_end, rotate_token
    from gitlab_nightshift.gitlab.project import open_project

    file, api = fleet_options.read_fleet(args), fleet_options.open_connection(env, REQUIRED)
    today = datetime.now(UTC).date()
    token, server = env["GITLAB_TOKEN"].strip(), env["CI_SERVER_URL"].strip()
    paths = [each.path for each in discover_all(api, file).projects if each.set_up]

    def rotate(path: str) -> "tuple[str, Rotation | str]":
        project = open_project(server, path, token)
        return path, _try_act(partial(rotate_token, project, today, dry_run=args.dry_run))

    counts: Counter[str] = Counter()
    for path, done in api.map_concurrently(rotate, paths):
        state, text = ("failed", done) if isinstance(done, str) else (done.state, done.text)
        counts[state] += 1
        if state != "kept" or args.dry_run:
            print(f"{state:<10} {path}: {text}", flush=True)
    print(", ".join(f"{count} {state}" for state, count in counts.most_common()) or "no projects")
    if text := describe_own_end(api.client, today):
        print(text)
    return Code.INCOMPLETE.exit_status if counts["failed"] else 0


def _try_act(act: "Callable[[], Rotation]") -> "Rotation | str":
    from gitlab_nightshift.errors import NightshiftError

    try:
        return act()
    except NightshiftError as error:
        return error.message
