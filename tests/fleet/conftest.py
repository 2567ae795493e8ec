"""A stand-in of many projects, connections to it, and commands that run in this process."""

from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from gitlab_nightshift import cli
from gitlab_nightshift.gitlab.fleet_api import PATIENCE_S, FleetApi, open_fleet
from gitlab_nightshift.system.retry import Clock
from tests.support.fleet_standin import PLAN_TOKEN, FleetStandin, build_env
from tests.support.standin_records import FullProject, as_full


@pytest.fixture
def gitlab(tmp_path: Path) -> Iterator[FleetStandin]:
    with FleetStandin(tmp_path / "gitlab") as standin:
        yield standin
        assert standin.errors == []


def connect(gitlab: FleetStandin, patience_s: float = PATIENCE_S) -> FleetApi:
    """With the plan's token; nothing is waited for or printed."""
    clock = Clock(sleep=lambda _: None)
    return open_fleet(
        gitlab.url, PLAN_TOKEN, patience_s=patience_s, clock=clock, tell=lambda _: None
    )


def get_project(gitlab: FleetStandin, number: int) -> FullProject:
    return as_full(gitlab.projects[number])


def run_command(gitlab: FleetStandin, token: str, *args: str, **env: str) -> tuple[int, str, str]:
    """The exit status of ``nightshift fleet``, and what it printed."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        parsed = cli.build_parser(["fleet", *args]).parse_args(["fleet", *args])
        status = int(parsed.run(parsed, {**build_env(gitlab.url, token), **env}))
    return status, out.getvalue(), err.getvalue()
