"""``nightshift fleet init``: an onboarding merge request for each project, a few at a time."""

import argparse

from gitlab_nightshift.commands import fleet_options, options
from gitlab_nightshift.commands.options import Env

TYPE_CHECKING = False  # instead of typing's, whose import takes 6 ms
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gitlab_nightshift.fleet.onboarding import OnboardingRow
    from gitlab_nightshift.records.fleet_records import FleetProject

EXAMPLES = """\
examples:
  nightshift fleet init                      show which projects would be asked, and why others not
  nightshift fleet init --yes                ask them
  nightshift fleet init --yes --model-key ANTHROPIC_API_KEY   where no group holds the key"""
STATES_TO_SET_UP = ("ask", "complete")
"""States of the projects that ``--yes`` sets up."""
CONTROL_JOB_PREFIXES = ("CI", "GITLAB_", "NIGHTSHIFT_")
"""Prefixes of variables that describe the control project's job, or are settings of it: the setup
of another project must not see them."""


def register(commands: "options.Commands") -> None:
    summary = "set up projects: a merge request for each, and what GitLab needs"
    parser = options.add_command(commands, "init", summary, run, examples=EXAMPLES)
    fleet_options.add_fleet_option(parser)
    parser.add_argument("--yes", action="store_true", help="do it; without this it is only shown")
    parser.add_argument("--source", metavar="PROJECT", help="as for nightshift init")
    parser.add_argument(
        "--model-key", metavar="NAME", help="store this variable in projects that inherit no key"
    )


def run(args: argparse.Namespace, env: Env) -> int:
    """Print the table; with ``--yes`` set the projects up. The exit status is 13 if one failed."""
    from gitlab_nightshift.errors import Code, NightshiftError
    from gitlab_nightshift.fleet.discovery import discover_all
    from gitlab_nightshift.fleet.onboarding import choose_projects, read_requests

    options.require_linux()
    file = fleet_options.read_fleet(args)
    api = fleet_options.open_connection(env, fleet_options.MAINTAINER_RIGHTS)
    projects = discover_all(api, file).projects
    requests = read_requests(api, [each for each in projects if not each.set_up])
    rows = choose_projects(projects, requests, file.settings)
    for line in _format_rows(rows):
        print(line, flush=True)
    if not args.yes:
        print("\nNothing was changed. To set up these projects: nightshift fleet init --yes")
        return 0
    status = 0
    for row in rows:
        if row.state not in STATES_TO_SET_UP:
            continue
        try:
            for line in _set_up(args, env, row.project):
                print(f"{row.project.path}: {line}", flush=True)
        except NightshiftError as error:
            print(f"{row.project.path}: failed       {error.message}", flush=True)
            status = Code.INCOMPLETE.exit_status
    return status


def _format_rows(rows: "Sequence[OnboardingRow]") -> "Iterator[str]":
    from collections import Counter

    yield from (f"{row.state:<10} {row.project.path}  {row.why}".rstrip() for row in rows)
    counts = Counter(row.state for row in rows)
    yield ", ".join(f"{count} {state}" for state, count in counts.most_common()) or "no projects"


def _set_up(args: argparse.Namespace, env: Env, project: "FleetProject") -> "Iterator[str]":
    """Set the project up as ``init`` does, in a clone of its default branch; yields the lines that
    ``init`` prints. No code of the project runs: its files are read as data, and git runs no
    filters. Raises NightshiftError."""
    import tempfile
    from pathlib import Path

    from gitlab_nightshift.commands.init_records import InitRequest
    from gitlab_nightshift.commands.project_init import set_up_project
    from gitlab_nightshift.run_folder import Invocation

    request = InitRequest(
        source=args.source or "",
        merge_request=True,
        model_key=args.model_key or "",
        dashboard=False,
        by_fleet=True,
    )
    with tempfile.TemporaryDirectory(prefix="nightshift-fleet-") as folder:
        checkout = Path(folder) / "checkout"
        _fetch_project(env, project, checkout)
        call = Invocation(_build_env(env, project), checkout, None, {}, False)
        yield from set_up_project(call, request)


def _fetch_project(env: Env, project: "FleetProject", checkout: "Path") -> None:
    from gitlab_nightshift.errors import Code, NightshiftError
    from gitlab_nightshift.repository.git import build_isolated_git
    from gitlab_nightshift.repository.private_repository import Repository
    from gitlab_nightshift.repository.remote import GitServer, fetch
    from gitlab_nightshift.system.environment import build_search_path

    checkout.mkdir()
    git = build_isolated_git(checkout.parent / "git", build_search_path(env, checkout))
    git.run("init", "--quiet", f"--initial-branch={project.branch}", cwd=checkout)
    url = f"{env['CI_SERVER_URL'].rstrip('/')}/{project.path}.git"
    server = GitServer(url, env["GITLAB_TOKEN"].strip(), env=env)
    fetched = fetch(Repository(git, checkout / ".git"), server, project.branch)
    if not fetched.ok:
        raise NightshiftError(Code.PUBLISH, f"cannot fetch {project.branch}: {fetched.message}")
    git.run("reset", "--quiet", "--hard", fetched.commit, cwd=checkout)


def _build_env(env: Env, project: "FleetProject") -> dict[str, str]:
    """The environment as a job of the project would have it."""
    shared = {name: text for name, text in env.items() if not name.startswith(CONTROL_JOB_PREFIXES)}
    server = env["CI_SERVER_URL"]
    return shared | {
        "GITLAB_TOKEN": env["GITLAB_TOKEN"],
        "CI_SERVER_URL": server,
        "CI_PROJECT_ID": str(project.id),
        "CI_PROJECT_PATH": project.path,
        "CI_PROJECT_URL": f"{server.rstrip('/')}/{project.path}",
        "CI_DEFAULT_BRANCH": project.branch,
    }
