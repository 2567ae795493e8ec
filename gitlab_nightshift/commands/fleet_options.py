"""Helpers of the fleet's commands: their options, fleet.yaml, the connection to GitLab."""

import argparse

from gitlab_nightshift.commands.options import Env

TYPE_CHECKING = False  # instead of typing's, whose import takes 6 ms
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gitlab_nightshift.fleet.fleet_settings import FleetFile
    from gitlab_nightshift.fleet.switch import SwitchLine
    from gitlab_nightshift.gitlab.fleet_api import ControlJob, FleetApi
    from gitlab_nightshift.gitlab.project import Project

FLEET_FILE = "fleet.yaml"
MAINTAINER_RIGHTS = "a Maintainer's token, scope api: a person's or a service account's"
"""The token that a command needs, in words, for ``open_connection``."""


def add_fleet_option(parser: "argparse._ActionsContainer") -> None:
    """``--fleet``, for a command that reads fleet.yaml."""
    parser.add_argument(
        "--fleet", metavar="FILE", default=FLEET_FILE, help=f"default: {FLEET_FILE}"
    )


def open_control_project(env: Env) -> "Project":
    """This job's project, which has fleet.yaml. Raises ``E_CONFIG``."""
    from gitlab_nightshift.gitlab.project import open_project

    return open_project(
        env.get("CI_SERVER_URL", "").strip(),
        env.get("CI_PROJECT_ID") or env.get("CI_PROJECT_PATH", ""),
        env.get("GITLAB_TOKEN", "").strip(),
    )


def add_group_options(parser: argparse.ArgumentParser) -> None:
    """``--fleet`` and ``--group``, for a command that acts on whole groups."""
    source = parser.add_mutually_exclusive_group()
    add_fleet_option(source)
    source.add_argument(
        "--group", action="append", metavar="PATH", help="default: fleet.yaml's top-level groups"
    )


def find_groups(args: argparse.Namespace) -> tuple[str, ...]:
    """The groups that the command acts on. Raises ``E_CONFIG``."""
    from gitlab_nightshift.fleet.switch import find_top_groups

    if args.group:
        return tuple(dict.fromkeys(each.strip("/") for each in args.group))
    settings = read_fleet(args).settings
    return find_top_groups([*settings.groups, *settings.projects])


def print_switch_lines(lines: "Iterable[SwitchLine]") -> int:
    """Print each line as soon as it is known; returns the exit status, 13 if one failed."""
    from gitlab_nightshift.errors import Code

    status = 0
    for line in lines:
        print(f"{line.word:<12} {line.text}", flush=True)
        if line.failed:
            status = Code.INCOMPLETE.exit_status
    return status


def read_fleet(args: argparse.Namespace) -> "FleetFile":
    """The settings in fleet.yaml. Raises ``E_CONFIG`` with every mistake."""
    from pathlib import Path

    from gitlab_nightshift.fleet.fleet_settings import read_fleet_file

    return read_fleet_file(Path(args.fleet))


def open_connection(env: Env, needed: str) -> "FleetApi":
    """The job's GitLab, with its GITLAB_TOKEN; ``needed`` says in words which token the command
    needs. Raises ``E_CONFIG``."""
    from gitlab_nightshift.errors import build_config_error
    from gitlab_nightshift.gitlab.fleet_api import open_fleet

    token, server = env.get("GITLAB_TOKEN", "").strip(), env.get("CI_SERVER_URL", "").strip()
    if not token:
        raise build_config_error(f"GITLAB_TOKEN is not set: {needed}")
    if not server:
        raise build_config_error("CI_SERVER_URL is not set: outside a job, set it to your GitLab")
    return open_fleet(server, token)


def read_control_job(env: Env) -> "ControlJob | None":
    """The control project's job, which this process runs in; None outside a pipeline."""
    from gitlab_nightshift.gitlab.fleet_api import ControlJob

    names = ("CI_PROJECT_ID", "CI_COMMIT_REF_NAME", "CI_PIPELINE_ID")
    project, ref, pipeline = (env.get(name, "") for name in names)
    return ControlJob(project, ref, pipeline) if project and ref else None
