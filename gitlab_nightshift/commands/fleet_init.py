"""``nightshift fleet init``: an onboarding merge request for each project, a few at a time."""

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gitlab_nightshift.commands import fleet_options, options
from gitlab_nightshift.commands.options import Env

if TYPE_CHECKING:
    from gitlab_nightshift.fleet.onboarding import OnboardingRow

EXAMPLES = """\
examples:
  nightshift fleet init                      show which projects would be asked, and why others not
  nightshift fleet init --yes                ask them
  nightshift fleet init --yes --model-key ANTHROPIC_API_KEY   where no group holds the key"""
SCOPE = "a Maintainer's token, scope api: a person's or a service account's"
ACTED = ("ask", "complete")


def register(commands: "options.Commands") -> None:
    """Add the command to the command line."""
    text = "set up projects: a merge request for each, and what GitLab needs"
    parser = options.add_command(commands, "init", text, run, examples=EXAMPLES)
    fleet_options.add_fleet_option(parser)
    parser.add_argument("--yes", action="store_true", help="do it; without this it is only shown")
    parser.add_argument("--source", metavar="PROJECT", help="as for nightshift init")
    parser.add_argument(
        "--model-key", metavar="NAME", help="store this variable in projects that inherit no key"
    )


def run(args: argparse.Namespace, env: Env) -> int:
    """Show the table, act on it; the exit status is 13 where a project could not be set up."""
    from gitlab_nightshift.errors import Code, NightshiftError
    from gitlab_nightshift.fleet.discovery import discover_all
    from gitlab_nightshift.fleet.onboarding import choose_projects, read_requests

    options.check_linux()
    file, api = fleet_options.read_fleet(args), fleet_options.open_connection(env, SCOPE)
    found = discover_all(api, file).projects
    asked = [each for each in found if not each.set_up]
    rows = choose_projects(found, read_requests(api, asked), file.settings)
    for line in _format_rows(rows):
        print(line, flush=True)
    if not args.yes:
        print("\nNothing was changed. To set up these projects: nightshift fleet init --yes")
        return 0
    status = 0
    for row in rows:
        try:
            for line in _set_up(args, env, row) if row.state in ACTED else ():
                print(f"{row.project.path}: {line}", flush=True)
        except NightshiftError as error:
            print(f"{row.project.path}: failed       {error.message}", flush=True)
            status = Code.INCOMPLETE.exit_status
    return status


def _format_rows(rows: "Iterable[OnboardingRow]") -> Iterator[str]:
    from collections import Counter

    rows = list(rows)
    yield from (f"{row.state:<10} {row.project.path}  {row.why}".rstrip() for row in rows)
    counts = Counter(row.state for row in rows)
    yield ", ".join(f"{count} {state}" for state, count in counts.most_common()) or "no projects"


def _set_up(args: argparse.Namespace, env: Env, row: "OnboardingRow") -> Iterator[str]:
    from gitlab_nightshift.commands.fleet_onboarding import set_up_by_fleet
    from gitlab_nightshift.commands.init_records import InitRequest

    asked = InitRequest(
        source=args.source or "",
        merge_request=True,
        model_key=args.model_key or "",
        dashboard=False,
        by_fleet=True,
    )
    return set_up_by_fleet(env, row.project, asked)
