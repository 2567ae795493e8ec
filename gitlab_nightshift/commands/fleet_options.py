"""What the fleet's commands share: their options, the file, the connection."""

import argparse
from typing import TYPE_CHECKING

from gitlab_nightshift.commands.options import Env

if TYPE_CHECKING:
    from gitlab_nightshift.fleet.fleet_settings import FleetFile
    from gitlab_nightshift.gitlab.fleet_api import ControlJob, FleetApi

FLEET_FILE = "fleet.yaml"


def add_fleet_option(parser: argparse.ArgumentParser) -> None:
    """``--fleet``, for a command that reads fleet.yaml."""
    parser.add_argument(
        "--fleet", metavar="FILE", default=FLEET_FILE, help=f"default: {FLEET_FILE}"
    )


def read_fleet(args: argparse.Namespace) -> "FleetFile":
    """The fleet's settings. Raises ``E_CONFIG`` with every mistake."""
    from pathlib import Path

    from gitlab_nightshift.fleet.fleet_settings import read_fleet_file

    return read_fleet_file(Path(args.fleet))


def open_connection(env: Env, scope: str) -> "FleetApi":
    """The job's GitLab by its GITLAB_TOKEN; ``scope`` is what the command needs of it. Raises
    ``E_CONFIG``."""
    from gitlab_nightshift.errors import build_config_error
    from gitlab_nightshift.gitlab.fleet_api import open_fleet

    token, server = env.get("GITLAB_TOKEN", "").strip(), env.get("CI_SERVER_URL", "").strip()
    if not token:
        raise build_config_error(f"GITLAB_TOKEN is not set: {scope}")
    if not server:
        raise build_config_error("CI_SERVER_URL is not set: outside a job, set it to your GitLab")
    return open_fleet(server, token)


def read_control_job(env: Env) -> "ControlJob | None":
    """The job of the control project that this runs in; None outside a pipeline."""
    from gitlab_nightshift.gitlab.fleet_api import ControlJob

    names = ("CI_PROJECT_ID", "CI_COMMIT_REF_NAME", "CI_PIPELINE_ID")
    project, ref, pipeline = (env.get(name, "") for name in names)
    return ControlJob(project, ref, pipeline) if project and ref else None
