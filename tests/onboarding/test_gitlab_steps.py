"""Interrupted steps of the setup leave nothing behind."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from gitlab_nightshift.errors import Code, Interruption
from gitlab_nightshift.gitlab.client import Client
from gitlab_nightshift.gitlab.project import Project, open_project
from gitlab_nightshift.gitlab.project_settings import ProjectSetup
from gitlab_nightshift.onboarding.gitlab_steps import SetupRequest, list_steps
from gitlab_nightshift.onboarding.pipeline_rules import NightMarks
from tests.support.setup_endpoints import ProjectSettings, add_setup
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject

TOKEN = "glpat-TheMaintainersToken01"
REQUEST = SetupRequest(
    scope="*",
    source="team/app",
    branch="main",
    days=(),
    timezone="UTC",
    today=date(2026, 11, 26),
    marks=NightMarks(),
)


@pytest.fixture
def gitlab(tmp_path: Path) -> Iterator[FullStandin]:
    with FullStandin(tmp_path / "gitlab") as standin:
        standin.add_token(TOKEN, standin.add_user("rita", "Rita"), access_level=40)
        yield standin
        assert standin.errors == []


@pytest.fixture
def setup(gitlab: FullStandin) -> ProjectSettings:
    return add_setup(gitlab)


@pytest.fixture
def app(gitlab: FullStandin) -> FullProject:
    return gitlab.add_project("team/app")


@pytest.fixture
def project(gitlab: FullStandin, app: FullProject) -> Project:
    return open_project(gitlab.url, app.path, TOKEN)


def interrupt(*_args: object, **_kwargs: object) -> None:
    raise Interruption(Code.TERMINATED)


def take_step(project: Project, name: str) -> None:
    step = next(each for each in list_steps(project, REQUEST) if each.name == name)
    assert step.act
    step.act()


def test_a_signal_before_the_variable_is_created_deletes_the_schedule(
    setup: ProjectSettings,
    app: FullProject,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Client, "http_put", interrupt)
    with pytest.raises(Interruption):
        take_step(project, "schedule")
    assert app.schedules == []


def test_a_signal_before_the_token_is_stored_revokes_it(
    setup: ProjectSettings, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProjectSetup, "create_secret", interrupt)
    with pytest.raises(Interruption):
        take_step(project, "token")
    assert (len(setup.tokens), setup.revoked) == (1, ["1"])
