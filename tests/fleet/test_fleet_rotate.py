"""``fleet rotate`` over many projects, by the real command; killed and failing ones too."""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gitlab_nightshift.onboarding.gitlab_steps import NAME, describe_token
from tests.support.fleet_standin import FleetStandin
from tests.support.setup_endpoints import ProjectSettings
from tests.support.standin_records import as_full

TOKEN = "glpat-MaintainerOfTheFleet1"
PROJECTS = 12


@pytest.fixture(autouse=True)
def _fleet(gitlab: FleetStandin, tmp_path: Path) -> None:
    gitlab.add_fleet("acme", PROJECTS)
    account = gitlab.add_user("service_account_1", "Fleet")
    ends = f"{datetime.now(UTC) + timedelta(days=3):%Y-%m-%d}"
    gitlab.add_token(TOKEN, account, access_level=40, expires_at=ends)
    (tmp_path / "fleet.yaml").write_text("groups: [acme]\nbudget: {night_usd: 10}\n")


@pytest.fixture
def made(gitlab: FleetStandin, _fleet: None) -> ProjectSettings:
    """Every project has a token that ends in ten days."""
    settings = gitlab.project_settings
    ends = datetime.now(UTC).date() + timedelta(days=10)
    for number, project in enumerate(map(as_full, gitlab.projects), 1):
        value = f"glpat-OldTokenOfProject{number:04}"
        bot = gitlab.add_user(f"project_{project.id}_bot", NAME, bot=True)
        gitlab.add_token(value, bot, expires_at=str(ends))
        row = {"id": number, "name": NAME, "expires_at": str(ends), "value": value}
        settings.held[project.path] = [row | {"active": True, "revoked": False}]
        settings.tokens.append({})
        settings.values[project.path, "GITLAB_TOKEN"] = value
        words = describe_token(number, ends)
        shown = {"key": "GITLAB_TOKEN", "environment_scope": "*", "description": words}
        project.variables.append(shown)
    return settings


def start(gitlab: FleetStandin, folder: Path, *args: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-P", "-m", "gitlab_nightshift", "fleet", "rotate", *args]
    env = {"PATH": os.environ["PATH"], "CI_SERVER_URL": gitlab.url, "GITLAB_TOKEN": TOKEN}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True)


def rotate(gitlab: FleetStandin, folder: Path, *args: str) -> tuple[int, str]:
    with start(gitlab, folder, *args) as process:
        out, err = process.communicate(timeout=120)
    assert err == ""
    return process.returncode, out


def list_broken(made: ProjectSettings) -> list[str]:
    """Projects whose variable holds a token that does not work."""
    working = {row["value"] for rows in made.held.values() for row in rows if row["active"]}
    return [path for (path, _), value in made.values.items() if value not in working]


def count_working(made: ProjectSettings) -> int:
    return sum(row["active"] for rows in made.held.values() for row in rows)


def test_tokens_that_end_soon_are_replaced_and_the_own_one_is_named(
    gitlab: FleetStandin, made: ProjectSettings, tmp_path: Path
) -> None:
    status, out = rotate(gitlab, tmp_path, "--dry-run")
    assert (status, out.count("would be rotated"), len(made.tokens)) == (0, PROJECTS, PROJECTS)
    status, out = rotate(gitlab, tmp_path)
    assert (status, out.count("rotated    acme/")) == (0, PROJECTS)
    assert "This command's own GITLAB_TOKEN ends on " in out
    assert (list_broken(made), count_working(made)) == ([], PROJECTS)
    assert rotate(gitlab, tmp_path)[1].startswith(f"{PROJECTS} kept\n")


def test_a_project_that_fails_is_named_and_keeps_its_token(
    gitlab: FleetStandin, made: ProjectSettings, tmp_path: Path
) -> None:
    gitlab.fail_next("POST", "/access_tokens$", 400, {"message": "Access token limit reached"})
    status, out = rotate(gitlab, tmp_path)
    assert (status, out.count("failed     acme/")) == (13, 1)
    assert (list_broken(made), count_working(made)) == ([], PROJECTS)


@pytest.mark.parametrize("requests", [20, 45, 70])
def test_a_kill_anywhere_leaves_every_project_a_working_token(
    gitlab: FleetStandin, made: ProjectSettings, tmp_path: Path, requests: int
) -> None:
    gitlab.delay_s = 0.01
    process = start(gitlab, tmp_path)
    until = time.monotonic() + 60
    with process:
        while len(gitlab.requests) < requests and time.monotonic() < until:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, "it was still at work"
    assert list_broken(made) == []
    status, _ = rotate(gitlab, tmp_path)
    assert (status, list_broken(made), count_working(made)) == (0, [], PROJECTS)
