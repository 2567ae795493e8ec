"""The stand-in's REST side, driven by the real python-gitlab."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import requests
from gitlab.exceptions import GitlabAuthenticationError, GitlabError, GitlabHttpError

from gitlab_nightshift.demo.standin_state import User
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject

from .conftest import (
    GUEST_TOKEN,
    JOB,
    MAINTAINER_TOKEN,
    READER,
    REPORTER_TOKEN,
    TOKEN,
    Connect,
    Git,
)


def refusal(error: pytest.ExceptionInfo[GitlabError]) -> tuple[int | None, Any]:
    body = error.value.response_body
    assert body is not None
    return error.value.response_code, json.loads(body)


def mr_of(branch: str, **more: Any) -> dict[str, Any]:
    return {"source_branch": branch, "target_branch": "main", "title": "A change", **more}


def test_the_end_waits_for_no_client_and_leaves_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = threading.active_count()
    with FullStandin(tmp_path) as gitlab:
        session = requests.Session()
        assert session.get(f"{gitlab.url}/api/v4/version", timeout=60).status_code == 401
        assert session.get(f"{gitlab.url}/nothing", timeout=60).status_code == 404
    session.close()
    assert threading.active_count() == before
    assert capfd.readouterr() == ("", "")
    with pytest.raises(requests.ConnectionError):
        requests.get(gitlab.url, timeout=60)


def test_who_am_i(gitlab: FullStandin, connect: Connect) -> None:
    client = connect()
    client.auth()
    assert client.user is not None
    assert (client.user.username, client.user.bot) == ("night-bot", True)
    token = client.personal_access_tokens.get("self")
    assert (token.scopes, token.active) == (["api", "write_repository"], True)
    assert client.version()[0].startswith("18.")


def test_a_bearer_token_works_too(gitlab: FullStandin, connect: Connect) -> None:
    client = connect(oauth_token=TOKEN)
    client.auth()
    assert gitlab.credentials_seen[-1].kind == "bearer"
    assert gitlab.credentials_seen[-1].secret == TOKEN


def test_a_wrong_token_is_401(gitlab: FullStandin, connect: Connect) -> None:
    with pytest.raises(GitlabAuthenticationError) as error:
        connect("glpat-wrong").auth()
    assert refusal(error) == (401, {"message": "401 Unauthorized"})
    assert [seen.secret for seen in gitlab.credentials_seen] == ["glpat-wrong"]
    assert "glpat-wrong" not in repr(gitlab.requests)


def test_any_scope_may_ask_about_itself(gitlab: FullStandin, connect: Connect) -> None:
    user = gitlab.users[0]
    gitlab.add_token("glpat-git-only", user, ("write_repository",), 30)
    client = connect("glpat-git-only")
    assert client.personal_access_tokens.get("self").scopes == ["write_repository"]
    with pytest.raises(GitlabHttpError) as error:
        client.http_get("/user")
    status, body = refusal(error)
    assert (status, body["error"]) == (403, "insufficient_scope")


@pytest.mark.parametrize("by_path", [True, False])
def test_project(project: FullProject, connect: Connect, by_path: bool) -> None:
    shown = connect().projects.get(project.path if by_path else project.id)
    assert shown.id == project.id
    assert shown.default_branch == "main"
    assert shown.visibility == "private"
    assert shown.path_with_namespace == "team/sub/app"
    assert shown.http_url_to_repo == project.http_url == f"{shown.web_url}.git"
    assert shown.permissions["project_access"] == {"access_level": 30}
    assert "forked_from_project" not in shown.attributes


def test_a_project_that_may_not_be_seen_is_404(
    gitlab: FullStandin, project: FullProject, connect: Connect
) -> None:
    gitlab.add_token("glpat-stranger", gitlab.users[0], access_level=0)
    for token, name in ((TOKEN, "no/such"), ("glpat-stranger", project.path), (None, project.path)):
        with pytest.raises(GitlabError) as error:
            connect(token).projects.get(name)
        assert refusal(error) == (404, {"message": "404 Project Not Found"})


def test_a_public_project_is_read_by_all_and_written_by_none(
    gitlab: FullStandin, connect: Connect
) -> None:
    public = gitlab.add_project("open/source", visibility="public")
    shown = connect(None).projects.get(public.path)
    assert "permissions" not in shown.attributes
    gitlab.add_token("glpat-stranger", gitlab.users[0], access_level=0)
    for token, status in ((None, 401), ("glpat-stranger", 403)):
        with pytest.raises(GitlabError) as error:
            connect(token).projects.get(public.id, lazy=True).labels.create(
                {"name": "x", "color": "#000000"}
            )
        assert error.value.response_code == status


def test_users(gitlab: FullStandin, reviewer: User, connect: Connect) -> None:
    client = connect()
    assert [user.id for user in client.users.list(username="Grace")] == [reviewer.id]
    assert client.users.list(username="nobody") == []
    assert [user.username for user in client.users.list(search="hopper")] == ["grace"]


def test_labels(project: FullProject, connect: Connect) -> None:
    labels = connect().projects.get(project.id, lazy=True).labels
    made = labels.create({"name": "night shift", "color": "#123456", "description": "ours"})
    assert labels.get("night shift").id == made.id
    assert [(label.name, label.color) for label in labels.list(get_all=True)] == [
        ("night shift", "#123456")
    ]
    assert project.labels[0].description == "ours"
    with pytest.raises(GitlabError) as error:
        labels.create({"name": "night shift", "color": "#123456"})
    assert refusal(error) == (409, {"message": "Label already exists"})
    with pytest.raises(GitlabError) as error:
        labels.gitlab.http_post(f"/projects/{project.id}/labels", post_data={"name": "x"})
    assert refusal(error) == (400, {"error": "color is missing"})


def test_roles_and_scopes(project: FullProject, branch: str, connect: Connect) -> None:
    with pytest.raises(GitlabError) as error:
        connect(READER).projects.get(project.id).mergerequests.create(mr_of(branch))
    assert refusal(error) == (
        403,
        {
            "error": "insufficient_scope",
            "error_description": "The request requires higher privileges than provided by the "
            "access token.",
            "scope": "api",
        },
    )
    with pytest.raises(GitlabError) as error:
        connect(REPORTER_TOKEN).projects.get(project.id).mergerequests.create(mr_of(branch))
    assert refusal(error) == (403, {"message": "403 Forbidden"})
    assert project.merge_requests == []
    with pytest.raises(GitlabError) as error:
        connect(GUEST_TOKEN).projects.get(project.id).labels.create({"name": "x", "color": "#0"})
    assert error.value.response_code == 403


def test_a_job_token_reads_merge_requests_and_writes_nothing(
    project: FullProject, branch: str, connect: Connect
) -> None:
    connect().projects.get(project.id).mergerequests.create(mr_of(branch))
    requests_of_job = connect(job_token=JOB).projects.get(project.id, lazy=True).mergerequests
    assert [each.iid for each in requests_of_job.list(get_all=True)] == [1]
    with pytest.raises(GitlabError) as error:
        requests_of_job.create(mr_of(branch))
    assert error.value.response_code == 401
    with pytest.raises(GitlabError):
        connect(JOB).projects.get(project.id)


def test_protected_branches(gitlab: FullStandin, connect: Connect) -> None:
    project = gitlab.add_project("a/b", protected_branches=("main", "release/*"))
    found = connect().projects.get(project.id).protectedbranches
    assert [each.name for each in found.list(get_all=True)] == ["main", "release/*"]
    assert found.get("release/*").push_access_levels[0]["access_level"] == 40
    assert project.is_protected("release/1/2")
    assert not project.is_protected("xrelease/1")


def test_branch_and_commit(project: FullProject, branch: str, connect: Connect) -> None:
    shown = connect().projects.get(project.id)
    found = shown.branches.get(branch)
    assert (found.name, found.protected, found.default, found.can_push) == (
        branch,
        False,
        False,
        True,
    )
    commit = shown.commits.get(found.commit["id"])
    assert commit.message == "Improve it\n\nBecause.\n"
    assert commit.title == "Improve it"
    assert commit.author_email == "ada@example.invalid"
    main = shown.branches.get("main")
    assert (main.protected, main.default, main.can_push) == (True, True, False)
    assert commit.parent_ids == [main.commit["id"]]
    for missing, text in (
        ("branches", "404 Branch Not Found"),
        ("commits", "404 Commit Not Found"),
    ):
        with pytest.raises(GitlabError) as error:
            getattr(shown, missing).get("no/such")
        assert refusal(error) == (404, {"message": text})


def test_compare(project: FullProject, branch: str, connect: Connect) -> None:
    shown = connect().projects.get(project.id)
    found = shown.repository_compare("main", branch)
    assert isinstance(found, dict)
    assert [commit["title"] for commit in found["commits"]] == ["Improve it"]
    assert {(d["old_path"], d["new_path"]) for d in found["diffs"]} == {
        ("first.txt", "first.txt"),
        ("new.bin", "new.bin"),
        ("second.txt", "zweite Ümlaut.txt"),
    }
    changed = {d["new_path"]: d for d in found["diffs"]}
    assert changed["first.txt"]["diff"] == "@@ -1 +1 @@\n-first\n+changed\n"
    assert changed["new.bin"]["new_file"] is True
    assert changed["zweite Ümlaut.txt"]["renamed_file"] is True
    nothing = shown.repository_compare(branch, "main")
    assert isinstance(nothing, dict)
    assert (nothing["commits"], nothing["diffs"], nothing["commit"]) == ([], [], None)
    with pytest.raises(GitlabError) as error:
        shown.repository_compare("main", "gone")
    assert error.value.response_code == 404


def test_merge_request_from_birth_to_end(
    project: FullProject, branch: str, reviewer: User, connect: Connect
) -> None:
    manager = connect().projects.get(project.id).mergerequests
    made = manager.create(
        mr_of(
            branch,
            title="Draft: [night-shift/tests] x",
            description="why",
            labels=["night-shift", "tests"],
            reviewer_ids=[reviewer.id, 999999],
            assignee_ids=[reviewer.id],
            remove_source_branch=True,
            target_project_id=project.id,
        )
    )
    shown = manager.get(made.iid)
    assert shown.iid == 1
    assert shown.id != shown.iid
    assert shown.web_url == f"{project.web_url}/-/merge_requests/1"
    assert shown.draft is True
    assert shown.description == "why"
    assert shown.labels == ["night-shift", "tests"]
    assert [user["username"] for user in shown.reviewers] == ["grace"]
    assert [user["username"] for user in shown.assignees] == ["grace"]
    assert shown.author["username"] == "night-bot"
    assert shown.force_remove_source_branch is True
    assert shown.sha == manager.gitlab.projects.get(project.id).branches.get(branch).commit["id"]
    assert shown.source_project_id == shown.target_project_id == shown.project_id == project.id
    assert {label.name for label in project.labels} == {"night-shift", "tests"}

    manager.update(1, {"title": "Ready", "labels": ["tests"], "reviewer_ids": []})
    again = manager.get(1)
    assert (again.draft, again.labels, again.reviewers) == (False, ["tests"], [])
    assert again.description == "why"
    manager.update(1, {"state_event": "close"})
    closed = manager.get(1)
    assert (closed.state, closed.closed_at is not None, closed.merged_at) == ("closed", True, None)
    project.merge_requests[0].change_state("merged")
    assert manager.get(1).merged_at is not None
    with pytest.raises(GitlabError) as error:
        manager.get(2)
    assert error.value.response_code == 404


def test_the_sha_follows_pushes(
    project: FullProject, branch: str, work: Path, git: Git, connect: Connect
) -> None:
    manager = connect().projects.get(project.id).mergerequests
    manager.create(mr_of(branch))
    git("commit", "--quiet", "--allow-empty", "-m", "more", cwd=work)
    git("push", "--quiet", project.bare_repository, "HEAD", cwd=work)
    assert manager.get(1).sha == git("rev-parse", "HEAD", cwd=work).stdout.strip()


def test_merge_request_refusals(project: FullProject, branch: str, connect: Connect) -> None:
    manager = connect().projects.get(project.id).mergerequests

    def refused(**fields: Any) -> tuple[int | None, Any]:
        with pytest.raises(GitlabError) as error:
            manager.gitlab.http_post(
                f"/projects/{project.id}/merge_requests", post_data=mr_of(branch, **fields)
            )
        return refusal(error)

    assert refused(source_branch="gone") == (
        400,
        {"message": {"source_branch": ["does not exist"]}},
    )
    assert refused(title=None, source_branch=None) == (
        400,
        {"error": "title is missing, source_branch is missing"},
    )
    assert refused(source_branch="main")[0] == 422
    assert refused(target_project_id=1)[0] == 422
    assert refused(title="x" * 256)[0] == 400
    assert project.merge_requests == []

    manager.create(mr_of(branch))
    assert refused() == (
        409,
        {"message": ["Another open merge request already exists for this source branch: !1"]},
    )
    project.merge_requests[0].change_state("closed")
    assert manager.create(mr_of(branch)).iid == 2
    first = manager.get(1)
    first.state_event = "reopen"
    with pytest.raises(GitlabError) as error:
        first.save()
    assert error.value.response_code == 409


def test_lists_filter_and_page(
    project: FullProject, branch: str, work: Path, git: Git, connect: Connect
) -> None:
    manager = connect().projects.get(project.id).mergerequests
    for number in range(5):
        git("push", "--quiet", project.bare_repository, f"HEAD:refs/heads/b{number}", cwd=work)
        labels = ["night-shift", "tests" if number % 2 else "docs"]
        manager.create(mr_of(f"b{number}", title=f"Change {number}", labels=labels))
    project.merge_requests[0].change_state("merged")
    project.merge_requests[1].change_state("closed")
    project.merge_requests[1].updated_at = "2100-01-01T00:00:00.000Z"  # in no other's millisecond

    def iids(**filters: Any) -> list[int]:
        return [each.iid for each in manager.list(get_all=True, **filters)]

    assert iids() == [5, 4, 3, 2, 1]
    assert iids(per_page=2, sort="asc") == [1, 2, 3, 4, 5]
    assert [each.iid for each in manager.list(iterator=True, per_page=2)] == [5, 4, 3, 2, 1]
    assert iids(state="opened") == [5, 4, 3]
    assert (iids(state="closed"), iids(state="merged")) == ([2], [1])
    assert iids(state="opened", source_branch="b3") == [4]
    assert iids(target_branch="elsewhere") == []
    assert iids(labels=["night-shift", "docs"]) == [5, 3, 1]
    assert iids(labels="None") == []
    assert iids(search="change 2") == [3]
    assert iids(order_by="updated_at", state="merged") == [1]
    assert iids(order_by="updated_at")[0] == 2, "closed last"
    assert iids(iids=[2, 4]) == [4, 2]
    assert iids(author_username="night-bot", state="merged") == [1]
    assert [each.iid for each in manager.list(per_page=2, page=2, get_all=False)] == [3, 2]
    pages = manager.list(per_page=2, iterator=True)
    assert not isinstance(pages, list)
    assert (pages.total, pages.total_pages, pages.current_page) == (5, 3, 1)
    assert (pages.next_page, pages.prev_page, pages.per_page) == (2, None, 2)
    with pytest.raises(GitlabError) as error:
        manager.list(milestone="x", get_all=True)
    assert error.value.response_code == 501


def test_changes_and_notes(project: FullProject, branch: str, connect: Connect) -> None:
    request = connect().projects.get(project.id).mergerequests.create(mr_of(branch))
    changes = request.changes()
    assert isinstance(changes, dict)
    assert sorted(each["new_path"] for each in changes["changes"]) == [
        "first.txt",
        "new.bin",
        "zweite Ümlaut.txt",
    ]
    for text in ("one", "two"):
        request.notes.create({"body": text})
    assert [note.body for note in request.notes.list(get_all=True)] == ["two", "one"]
    assert [note.body for note in request.notes.list(get_all=True, sort="asc")] == ["one", "two"]
    assert [note.author.username for note in project.merge_requests[0].notes] == ["night-bot"] * 2


def test_the_free_tier_keeps_one_reviewer(tmp_path: Path, git: Git, work: Path) -> None:
    with FullStandin(tmp_path / "free") as gitlab:
        gitlab.paid_tier = False
        people = [gitlab.add_user(name, name) for name in ("one", "two")]
        gitlab.add_token(TOKEN, people[0])
        project = gitlab.add_project("a/b")
        git("push", "--quiet", project.bare_repository, "main", "main:refs/heads/x", cwd=work)
        answer = requests.post(
            f"{gitlab.url}/api/v4/projects/{project.id}/merge_requests",
            json=mr_of("x", reviewer_ids=[user.id for user in people]),
            headers={"PRIVATE-TOKEN": TOKEN},
            timeout=60,
        )
        assert [user["username"] for user in answer.json()["reviewers"]] == ["one"]


def test_what_is_not_built_is_told(project: FullProject, connect: Connect) -> None:
    client = connect(MAINTAINER_TOKEN)
    for path, status in (("/projects", 404), (f"/projects/{project.id}/labels", 405)):
        with pytest.raises(GitlabError) as error:
            client.http_delete(path)
        assert error.value.response_code == status


def test_requests_are_recorded_without_tokens(
    gitlab: FullStandin, project: FullProject, connect: Connect
) -> None:
    client = connect()
    client.projects.get(project.path, lazy=True).labels.create({"name": "x", "color": "#000000"})
    client.http_get("/users", query_data={"private_token": TOKEN, "search": "1"})
    created, asked = gitlab.requests
    assert (created.method, created.status) == ("POST", 201)
    assert created.path == "/api/v4/projects/team%2Fsub%2Fapp/labels"
    assert created.body == {"name": "x", "color": "#000000"}
    assert asked.query == {"search": "1"}
    assert TOKEN not in repr(gitlab.requests)


def test_fail_next_answers_instead(
    gitlab: FullStandin, project: FullProject, connect: Connect
) -> None:
    client = connect()
    labels = client.projects.get(project.id, lazy=True).labels
    gitlab.fail_next("POST", r"/labels$", 502, "<html>Bad gateway</html>", times=2)
    gitlab.fail_next("GET", r"/user$", 429, {"message": "slow down"}, {"Retry-After": "7"})
    for _ in range(2):
        with pytest.raises(GitlabError) as error:
            labels.create({"name": "x", "color": "#000000"})
        assert error.value.response_code == 502
    assert project.labels == []
    assert labels.create({"name": "x", "color": "#000000"}).name == "x"
    answer = client.http_request("get", "/version", obey_rate_limit=False)
    assert answer.status_code == 200
    with pytest.raises(GitlabHttpError) as limited:
        client.http_request("get", "/user", obey_rate_limit=False)
    assert refusal(limited) == (429, {"message": "slow down"})
    assert gitlab.faults == []


def test_drop_next_works_but_does_not_answer(
    gitlab: FullStandin, project: FullProject, branch: str, connect: Connect
) -> None:
    manager = connect().projects.get(project.id, lazy=True).mergerequests
    gitlab.drop_next("POST", r"/merge_requests$")
    with pytest.raises(requests.ConnectionError):
        manager.create(mr_of(branch))
    assert [each.source_branch for each in project.merge_requests] == [branch]
    with pytest.raises(GitlabError) as error:
        manager.create(mr_of(branch))
    assert error.value.response_code == 409


def test_a_fault_of_its_own_is_told(
    gitlab: FullStandin, project: FullProject, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "labels", None)
    with pytest.raises(GitlabError) as error:
        connect().projects.get(project.id, lazy=True).labels.list(get_all=True)
    assert error.value.response_code == 500
    assert len(gitlab.errors) == 1
    gitlab.errors.clear()
