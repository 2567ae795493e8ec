"""A token's user and rights, by the stand-in and the real python-gitlab."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import responses

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.accounts import Access
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.project import Project, open_project
from tests.support.standin import FullStandin

from .conftest import API, PROJECT, TOKEN


@pytest.fixture
def gitlab(tmp_path: Path) -> Iterator[FullStandin]:
    with FullStandin(tmp_path / "gitlab") as standin:
        standin.add_user("night-bot", "Night Shift", bot=True)
        yield standin
        assert standin.errors == []


def opened(
    gitlab: FullStandin,
    scopes: tuple[str, ...] = ("api", "write_repository"),
    level: int = 30,
    *,
    kind: str = "personal",
    visibility: str = "private",
) -> Project:
    name = f"team/app-{len(gitlab.projects)}"
    gitlab.add_token(TOKEN, gitlab.users[0], scopes, level, kind=kind)  # type: ignore[arg-type]
    gitlab.add_project(name, visibility=visibility)  # type: ignore[arg-type]
    return open_project(gitlab.url, name, TOKEN)


def refused(project: Project) -> str:
    with pytest.raises(NightshiftError) as raised:
        project.check_access()
    assert raised.value.code is Code.CONFIG
    assert TOKEN not in raised.value.message
    assert "\n" not in raised.value.message
    return raised.value.message


@pytest.mark.parametrize("level", [30, 40])
def test_a_good_token_has_a_user_a_level_and_scopes(gitlab: FullStandin, level: int) -> None:
    access = opened(gitlab, level=level).check_access()
    assert (access.login, access.name) == ("night-bot", "Night Shift")
    assert access.email == "night-bot@noreply.gitlab.invalid"
    assert (access.level, access.scopes) == (level, ("api", "write_repository"))


def test_an_unknown_token_is_rejected(gitlab: FullStandin) -> None:
    project = opened(gitlab)
    gitlab.tokens.clear()
    assert "rejects GITLAB_TOKEN" in refused(project)


@pytest.mark.parametrize("ended", ["expired", "revoked"])
def test_the_message_says_that_a_token_has_expired_or_was_revoked(
    gitlab: FullStandin, ended: str
) -> None:
    project = opened(gitlab)
    gitlab.tokens[0] = replace(gitlab.tokens[0], ended=ended)  # type: ignore[arg-type]
    text = refused(project)
    assert ended in text
    assert "mistyped" not in text


@pytest.mark.parametrize(
    ("login", "scopes", "kind"),
    [
        ("project_17_bot_0a1b", ("api",), "project access token"),
        ("group_4_bot_0a1b", ("api",), "group access token"),
        ("service_account_group_4_0a1b", ("api",), "access token of a service account"),
        ("rita", ("api",), "personal access token"),
        ("rita", None, "neither a personal nor a project or group"),
    ],
)
def test_the_kind_of_a_token_follows_from_its_user(
    login: str, scopes: tuple[str, ...] | None, kind: str
) -> None:
    assert Access(1, login, login, "", 30, scopes).kind.startswith(kind)


def test_a_job_token_is_refused(gitlab: FullStandin) -> None:
    assert "job token" in refused(opened(gitlab, (), kind="job"))


GRANULAR = ("granular",)


def open_fine_grained(gitlab: FullStandin, *lacking: str) -> Project:
    project = opened(gitlab, GRANULAR)
    gitlab.tokens[0] = replace(gitlab.tokens[0], lacking=frozenset(lacking))
    return project


def test_a_fine_grained_token_needs_no_scope_api(gitlab: FullStandin) -> None:
    access = open_fine_grained(gitlab).check_access()
    assert (access.fine_grained, access.kind, access.level) == (True, "fine-grained token", 30)


@pytest.mark.parametrize(
    "lacking",
    [
        "GET user",
        "GET projects/{id}",
        "GET projects/{id}/merge_requests",
        "GET projects/{id}/labels",
        "GET projects/{id}/members/all",
        "GET projects/{id}/repository/branches",
    ],
)
def test_a_missing_permission_of_a_fine_grained_token_is_named_as_gitlab_does(
    gitlab: FullStandin, lacking: str
) -> None:
    text = refused(open_fine_grained(gitlab, lacking))
    assert text == (
        f"GitLab at {urlsplit(gitlab.url).netloc} refuses GITLAB_TOKEN: Your fine-grained token"
        f" lacks the permission for {lacking}: give the token the permission that GitLab names"
    )


def test_a_fine_grained_token_that_may_not_even_describe_itself(gitlab: FullStandin) -> None:
    assert open_fine_grained(gitlab, "GET personal_access_tokens/self").check_access().fine_grained


@pytest.mark.parametrize(
    ("body", "explanation"),
    [
        (
            {"message": "403 Forbidden - Your password expired. Please access GitLab from a web"},
            "Your password expired. Please access GitLab from a web: have somebody sign in to"
            " GitLab as the token's user and set a new one, or use a project access token",
        ),
        (
            {"message": "403 Forbidden - You (@b) must accept the Terms of Service in order to"},
            "must accept the Terms of Service in order to: have somebody sign in to GitLab as the"
            " token's user and accept them",
        ),
        (
            {"message": "403 Forbidden - Your account has been blocked."},
            "Your account has been blocked: an administrator has to unblock the token's user",
        ),
        (
            {"message": "You cannot perform write operations on a read-only instance"},
            "read-only instance: GitLab accepts changes again when an administrator ends that",
        ),
        ({"message": "403 Forbidden - Odd."}, "Odd: ask an administrator of this GitLab"),
    ],
)
def test_a_403_is_explained_by_its_body_and_not_as_a_missing_scope(
    gitlab: FullStandin, body: dict[str, str], explanation: str
) -> None:
    project = opened(gitlab)
    gitlab.fail_next("GET", "/user$", 403, body)
    text = refused(project)
    assert explanation in text
    assert "scope" not in text


@pytest.mark.parametrize(
    ("prefix", "kind"),
    [
        ("glcbt-64_", "a job token"),
        ("gldt-", "a deploy token"),
        ("glrt-", "a runner's token"),
        ("glptt-", "a pipeline trigger token"),
    ],
)
def test_a_token_of_a_kind_that_opens_no_merge_request(
    gitlab: FullStandin, prefix: str, kind: str
) -> None:
    text = refused(open_project(gitlab.url, PROJECT, f"{prefix}a-secret"))
    assert f"rejects GITLAB_TOKEN: it is {kind}, which cannot open merge requests. Make" in text
    assert "a-secret" not in text


@pytest.mark.parametrize(
    "scopes", [("read_api",), ("read_user",), ("write_repository",), ("read_repository",)]
)
def test_a_token_without_the_scope_api_is_refused(
    gitlab: FullStandin, scopes: tuple[str, ...]
) -> None:
    assert "lacks the scope api" in refused(opened(gitlab, scopes))


@pytest.mark.parametrize(("level", "visibility"), [(10, "private"), (20, "private"), (0, "public")])
def test_a_role_below_developer_is_refused(
    gitlab: FullStandin, level: int, visibility: str
) -> None:
    project = opened(gitlab, level=level, visibility=visibility)
    assert "a role below Developer" in refused(project)


def test_an_invisible_or_missing_project_is_refused(gitlab: FullStandin) -> None:
    assert "cannot see project team/app-0" in refused(opened(gitlab, level=0))
    assert "cannot see project no/such" in refused(open_project(gitlab.url, "no/such", TOKEN))


# --- answers that the stand-in cannot give ----------------------------------------------------

USER = {"id": 9, "username": "bot", "name": "", "email": "b@example.invalid"}


@pytest.fixture
def http() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock() as mock:
        yield mock


def answers(http: responses.RequestsMock, permissions: object, **user: object) -> None:
    http.get(f"{API}/personal_access_tokens/self", status=400, json={"message": "no PAT"})
    http.get(f"{API}/user", json={**USER, **user})
    http.get(PROJECT, json={"id": 7, "permissions": permissions})


def test_scopes_may_be_unknown_and_the_role_come_from_a_group(
    http: responses.RequestsMock, project: Project
) -> None:
    answers(http, {"project_access": None, "group_access": {"access_level": 30}})
    access = project.check_access()
    assert access.scopes is None
    assert access.level == 30
    assert access.name == "bot"
    assert access.email == "b@example.invalid"


def test_the_role_may_come_from_an_invited_group(
    http: responses.RequestsMock, project: Project
) -> None:
    answers(http, {"project_access": None, "group_access": None})
    http.get(f"{PROJECT}/members/all/9", json={"id": 9, "access_level": 40})
    assert project.check_access().level == 40


def test_an_administrator_needs_no_role(http: responses.RequestsMock, project: Project) -> None:
    answers(http, {"project_access": None, "group_access": None}, is_admin=True)
    http.get(f"{PROJECT}/members/all/9", status=404, json={"message": "404"})
    assert project.check_access().level is None


def test_a_server_error_is_not_reported_as_a_configuration_error(
    http: responses.RequestsMock, project: Project
) -> None:
    http.get(f"{API}/personal_access_tokens/self", status=503, json={"message": "down"})
    with pytest.raises(ApiError) as raised:
        project.check_access()
    assert raised.value.code is Code.PUBLISH
