"""The stand-in's endpoints: accounts, projects, labels, branches and commits."""

from typing import Any

from gitlab_nightshift.demo import standin_merge_requests as merge_requests
from gitlab_nightshift.demo import standin_people as people
from gitlab_nightshift.demo.standin_api import (
    WRITE,
    Endpoint,
    StandinApiError,
    StandinCall,
    build_not_found,
    build_page,
    check_filters,
    require_fields,
)
from gitlab_nightshift.demo.standin_json import (
    build_branch_json,
    build_label_json,
    build_own_user_json,
    build_project_json,
    build_protected_branch_json,
    build_token_json,
)
from gitlab_nightshift.demo.standin_repository import (
    read_commits,
    read_heads,
)
from gitlab_nightshift.demo.standin_requests import StandinAnswer
from gitlab_nightshift.demo.standin_state import (
    DEVELOPER,
    GUEST,
    REPORTER,
    StandinLabel,
    StandinProject,
)


def _show_user(call: StandinCall) -> StandinAnswer:
    return StandinAnswer(200, build_own_user_json(call.caller.user, call.state.url))


def _show_own_token(call: StandinCall) -> StandinAnswer:
    return StandinAnswer(200, build_token_json(call.caller))


def _show_project(call: StandinCall) -> StandinAnswer:
    return StandinAnswer(200, build_project_json(call.project, call.token))


def _create_label(call: StandinCall) -> StandinAnswer:
    body, project = require_fields(call.request.body, "name", "color"), call.project
    if any(label.name == body["name"] for label in project.labels):
        raise StandinApiError(409, {"message": "Label already exists"})
    number = call.state.allocate_id("label")
    label = StandinLabel(number, body["name"], body["color"], body.get("description"))
    project.labels.append(label)
    return StandinAnswer(201, build_label_json(label))


def _list_protected_branches(call: StandinCall) -> StandinAnswer:
    search = check_filters(call.request, "search").get("search", "")
    found = [name for name in call.project.protected_branches if search in name]
    return build_page(
        call, found, lambda name: build_protected_branch_json(name, _compute_rank(call, name))
    )


def _compute_rank(call: StandinCall, name: str) -> int:
    return call.project.protected_branches.index(name) + 1


def _show_branch(call: StandinCall) -> StandinAnswer:
    project, name = call.project, call.values["name"]
    sha = read_heads(project.bare_repository).get(name)
    if sha is None:
        raise build_not_found("Branch")
    level = call.token.access_level if call.token else 0
    return StandinAnswer(
        200, build_branch_json(project, name, build_commit_json(project, sha), level)
    )


def build_commit_json(project: StandinProject, sha: str) -> dict[str, Any]:
    """A commit as the API shows it."""
    commit = read_commits(project.git, project.bare_repository, "-1", sha)[0]
    return {**commit, "web_url": f"{project.web_url}/-/commit/{sha}"}


PROJECT = "projects/{id}"
MERGE_REQUESTS = f"{PROJECT}/merge_requests"
REPOSITORY = f"{PROJECT}/repository"

# Roles and job tokens: GitLab's permissions, from lib/api/*.rb and "CI/CD job token" in its manual.
# Protected branches are readable from Reporter up in new versions, older ones need a Maintainer.
ENDPOINTS = (
    Endpoint("GET", "user", _show_user, scopes=("api", "read_api", "read_user")),
    Endpoint("GET", "personal_access_tokens/self", _show_own_token, scopes=None),
    Endpoint("GET", PROJECT, _show_project, GUEST),
    Endpoint("POST", f"{PROJECT}/labels", _create_label, REPORTER, WRITE),
    Endpoint("GET", f"{PROJECT}/protected_branches", _list_protected_branches, REPORTER),
    Endpoint("GET", f"{REPOSITORY}/branches/{{name}}", _show_branch, REPORTER, job_token=True),
    Endpoint("GET", MERGE_REQUESTS, merge_requests.list_merge_requests, REPORTER, job_token=True),
    Endpoint("POST", MERGE_REQUESTS, merge_requests.create_merge_request, DEVELOPER, WRITE),
    *people.ENDPOINTS,
)
