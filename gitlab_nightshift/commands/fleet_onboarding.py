"""A project's onboarding by a fleet: ``nightshift init`` on a copy of its default branch."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from gitlab_nightshift.commands.init_records import InitRequest
from gitlab_nightshift.commands.project_init import set_up_project
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.fleet_records import FleetProject
from gitlab_nightshift.repository.git import build_isolated_git
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.remote import GitServer, fetch
from gitlab_nightshift.run_folder import Invocation
from gitlab_nightshift.system.environment import build_search_path

LEFT_OUT = ("CI", "GITLAB_", "NIGHTSHIFT_")
"""What the control project's job says of itself, and settings meant for it."""


def set_up_by_fleet(
    env: Mapping[str, str], project: FleetProject, request: InitRequest
) -> Iterator[str]:
    """The lines of ``init``. Nothing of the project is run here: its files are data, git knows no
    filters. Raises NightshiftError."""
    with tempfile.TemporaryDirectory(prefix="nightshift-fleet-") as folder:
        checkout = Path(folder) / "checkout"
        _fetch_copy(env, project, checkout)
        call = Invocation(_build_env(env, project), checkout, None, {}, False)
        yield from set_up_project(call, request)


def _fetch_copy(env: Mapping[str, str], project: FleetProject, checkout: Path) -> None:
    checkout.mkdir()
    git = build_isolated_git(checkout.parent / "git", build_search_path(env, checkout))
    git.run("init", "--quiet", f"--initial-branch={project.branch}", cwd=checkout)
    url = f"{env['CI_SERVER_URL'].rstrip('/')}/{project.path}.git"
    server = GitServer(url, env["GITLAB_TOKEN"].strip(), env=env)
    done = fetch(Repository(git, checkout / ".git"), server, project.branch)
    if not done.ok:
        raise NightshiftError(Code.PUBLISH, f"cannot fetch {project.branch}: {done.message}")
    git.run("reset", "--quiet", "--hard", done.commit, cwd=checkout)


def _build_env(env: Mapping[str, str], project: FleetProject) -> dict[str, str]:
    kept = {name: value for name, value in env.items() if not name.startswith(LEFT_OUT)}
    server = env["CI_SERVER_URL"]
    return kept | {
        "GITLAB_TOKEN": env["GITLAB_TOKEN"],
        "CI_SERVER_URL": server,
        "CI_PROJECT_ID": str(project.id),
        "CI_PROJECT_PATH": project.path,
        "CI_PROJECT_URL": f"{server.rstrip('/')}/{project.path}",
        "CI_DEFAULT_BRANCH": project.branch,
    }
