"""A night's token is replaced before it ends, and whatever is killed leaves a working one."""

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from gitlab_nightshift.errors import Code, Interruption, NightshiftError
from gitlab_nightshift.fleet import rotation
from gitlab_nightshift.fleet.rotation import Rotation, rotate_token
from gitlab_nightshift.gitlab.client import Client
from gitlab_nightshift.gitlab.project import Project, open_project
from gitlab_nightshift.gitlab.project_settings import NewSecret, ProjectSetup
from gitlab_nightshift.onboarding.gitlab_steps import NAME, describe_token
from tests.support.graphql_api import GRAPHQL
from tests.support.setup_endpoints import ProjectSettings, add_setup
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject, PipelineJob

MAINTAINER_TOKEN = "glpat-TheMaintainersToken01"
TODAY = date(2026, 11, 26)
SOON = TODAY + timedelta(days=14)


@pytest.fixture
def gitlab(tmp_path: Path) -> Iterator[FullStandin]:
    with FullStandin(tmp_path / "gitlab") as standin:
        standin.more_endpoints.append(GRAPHQL)
        standin.add_token(MAINTAINER_TOKEN, standin.add_user("rita", "Rita"), access_level=40)
        yield standin
        assert standin.errors == []


@pytest.fixture
def made(gitlab: FullStandin) -> ProjectSettings:
    return add_setup(gitlab)


@pytest.fixture
def app(gitlab: FullStandin) -> FullProject:
    return gitlab.add_project("team/app")


@pytest.fixture
def project(gitlab: FullStandin, app: FullProject) -> Project:
    return open_project(gitlab.url, app.path, MAINTAINER_TOKEN)


def hold_token(project: Project, ends: date, *, described: bool = True) -> int:
    """A project that was set up earlier, and the number of its token."""
    new = project.setup.create_token(NAME, ends)
    words = describe_token(new.id, ends) if described else ""
    project.setup.create_secret(NewSecret("GITLAB_TOKEN", new.value, "*", words))
    return new.id


def list_working(made: ProjectSettings, app: FullProject) -> list[int]:
    return [row["id"] for row in made.held[app.path] if row["active"]]


def find_stored(made: ProjectSettings, app: FullProject) -> int:
    """The number of the token that the variable really holds."""
    value = made.values[app.path, "GITLAB_TOKEN"]
    return int(next(row["id"] for row in made.held[app.path] if row["value"] == value))


def test_a_token_that_ends_within_two_weeks_is_replaced_and_revoked(
    made: ProjectSettings, app: FullProject, project: Project
) -> None:
    hold_token(project, SOON)
    done = rotate_token(project, TODAY)
    assert done == Rotation("rotated", "until 2027-11-25; 1 older revoked")
    assert (list_working(made, app), find_stored(made, app)) == ([2], 2)
    assert app.variables[0]["description"] == "access token 2, until 2027-11-25"
    assert made.tokens[1] == made.tokens[0] | {"expires_at": "2027-11-25"}


def test_a_token_that_ends_later_is_kept(
    made: ProjectSettings, app: FullProject, project: Project
) -> None:
    hold_token(project, SOON + timedelta(days=1))
    assert rotate_token(project, TODAY).state == "kept"
    assert len(made.tokens) == 1


def test_a_token_that_has_ended_is_replaced(
    made: ProjectSettings, app: FullProject, project: Project
) -> None:
    hold_token(project, TODAY - timedelta(days=1))
    made.held[app.path][0]["active"] = False
    assert rotate_token(project, TODAY) == Rotation(
        "rotated", "until 2027-11-25; the older one had ended"
    )


def test_a_token_of_another_kind_is_left_alone(
    made: ProjectSettings, app: FullProject, project: Project
) -> None:
    assert rotate_token(project, TODAY).state == "not ours"
    project.setup.create_secret(NewSecret("GITLAB_TOKEN", "glpat-OfAServiceAccount", "*"))
    assert rotate_token(project, TODAY).state == "not ours"
    assert made.tokens == []


def test_a_dry_run_changes_nothing(
    made: ProjectSettings, app: FullProject, project: Project
) -> None:
    hold_token(project, SOON)
    assert rotate_token(project, TODAY, dry_run=True).text == "would be rotated"
    assert len(made.tokens) == 1


@pytest.mark.parametrize("status", ["created", "pending", "running"])
def test_a_running_night_keeps_its_token(
    made: ProjectSettings, app: FullProject, project: Project, tmp_path: Path, status: str
) -> None:
    hold_token(project, SOON)
    app.jobs.append(PipelineJob(1, 1, "nightshift:work", tmp_path, status=status))
    assert rotate_token(project, TODAY) == Rotation("waits", "a night is running")
    app.jobs[0] = PipelineJob(1, 1, "nightshift:work", tmp_path, status="success")
    app.jobs.append(PipelineJob(2, 1, "build", tmp_path, status=status))
    assert rotate_token(project, TODAY).state == "rotated", "another job is no night"


def test_a_night_that_starts_meanwhile_keeps_the_old_token_until_the_next_run(
    made: ProjectSettings,
    app: FullProject,
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hold_token(project, SOON)
    store = ProjectSetup.replace_secret

    def start_night(setup: ProjectSetup, new: NewSecret) -> None:
        app.jobs.append(PipelineJob(1, 1, "nightshift", tmp_path, status="running"))
        store(setup, new)

    monkeypatch.setattr(ProjectSetup, "replace_secret", start_night)
    assert rotate_token(project, TODAY).state == "rotated"
    assert list_working(made, app) == [1, 2]
    assert rotate_token(project, TODAY).state == "waits"
    app.jobs.clear()
    assert rotate_token(project, TODAY) == Rotation("revoked", "1 older revoked")
    assert (list_working(made, app), find_stored(made, app)) == ([2], 2)


def interrupt(*_args: object, **_kwargs: object) -> None:
    raise Interruption(Code.TERMINATED)


def fail(*_args: object, **_kwargs: object) -> None:
    raise SystemExit  # as a kill, after which no handler acts


CUTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "after creating": lambda patch: patch.setattr(rotation, "NewSecret", fail),
    "before storing": lambda patch: patch.setattr(ProjectSetup, "replace_secret", fail),
    "after storing": lambda patch: patch.setattr(rotation, "_verify_stored", fail),
    "before revoking": lambda patch: patch.setattr(rotation, "_revoke", fail),
}


@pytest.mark.parametrize("described", [True, False])
@pytest.mark.parametrize("cut", list(CUTS))
def test_a_run_that_is_killed_anywhere_leaves_a_working_token_and_is_continued(
    made: ProjectSettings,
    app: FullProject,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    cut: str,
    described: bool,
) -> None:
    hold_token(project, SOON, described=described)
    with monkeypatch.context() as patch:
        CUTS[cut](patch)
        with pytest.raises(SystemExit):
            rotate_token(project, TODAY)
    assert find_stored(made, app) in list_working(made, app)
    rotate_token(project, TODAY)
    assert list_working(made, app) == [find_stored(made, app)]
    row = next(row for row in made.held[app.path] if row["active"])
    assert row["expires_at"] == "2027-11-25"


def test_revoking_first_would_leave_a_project_without_a_token(
    made: ProjectSettings, app: FullProject, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GitLab's own rotation revokes at once: killed before storing, no night could run."""
    hold_token(project, SOON)
    create = ProjectSetup.create_token

    def rotate(setup: ProjectSetup, name: str, ends: date) -> object:
        setup.revoke_token(1)
        return create(setup, name, ends)

    monkeypatch.setattr(ProjectSetup, "create_token", rotate)
    monkeypatch.setattr(ProjectSetup, "replace_secret", fail)
    with pytest.raises(SystemExit):
        rotate_token(project, TODAY)
    assert find_stored(made, app) not in list_working(made, app)


def test_a_new_token_that_does_not_work_is_revoked(
    made: ProjectSettings, app: FullProject, project: Project, gitlab: FullStandin
) -> None:
    hold_token(project, SOON)
    gitlab.fail_next("GET", "/user$", 403, {"message": "403 Forbidden"})
    with pytest.raises(NightshiftError):
        rotate_token(project, TODAY)
    assert (list_working(made, app), find_stored(made, app)) == ([1], 1)


def test_a_signal_before_storing_revokes_the_new_token(
    made: ProjectSettings, app: FullProject, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_token(project, SOON)
    monkeypatch.setattr(Project, "with_token", interrupt)
    with pytest.raises(Interruption):
        rotate_token(project, TODAY)
    assert list_working(made, app) == [1]


def test_a_lost_answer_is_asked_for_again(
    made: ProjectSettings, app: FullProject, project: Project, gitlab: FullStandin
) -> None:
    hold_token(project, SOON)
    gitlab.drop_next("PUT", "/variables/GITLAB_TOKEN$")
    gitlab.drop_next("DELETE", "/access_tokens/1$")
    assert rotate_token(project, TODAY).state == "rotated"
    assert list_working(made, app) == [find_stored(made, app)] == [2]


def test_a_value_that_was_not_stored_revokes_nothing(
    made: ProjectSettings, app: FullProject, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_token(project, SOON)
    monkeypatch.setattr(Client, "http_put", lambda *_args, **_kwargs: {})
    with pytest.raises(NightshiftError) as caught:
        rotate_token(project, TODAY)
    assert caught.value.message == "GITLAB_TOKEN was not stored: the old token stays"
    assert list_working(made, app) == [1, 2]


def test_the_user_of_an_access_token_cannot_create_one(
    made: ProjectSettings, app: FullProject, project: Project, gitlab: FullStandin
) -> None:
    hold_token(project, SOON)
    bot = gitlab.add_user("group_7_bot_1", "Fleet", bot=True)
    gitlab.add_token("glpat-OfTheGroup", bot, access_level=40)
    with pytest.raises(NightshiftError) as caught:
        rotate_token(project.with_token("glpat-OfTheGroup"), TODAY)
    assert "does not have permission to create project access token" in caught.value.message
