"""The stand-in's endpoints: accounts, projects, labels, branches, commits, merge requests."""

from collections.abc import Callable
from typing import Any

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
    Json,
    build_branch_json,
    build_label_json,
    build_merge_request_json,
    build_own_user_json,
    build_project_json,
    build_protected_branch_json,
    build_token_json,
    build_user_json,
)
from gitlab_nightshift.demo.standin_repository import read_commits, read_heads
from gitlab_nightshift.demo.standin_state import (
    DEVELOPER,
    GUEST,
    REPORTER,
    StandinAnswer,
    StandinLabel,
    StandinMergeRequest,
    StandinProject,
    User,
    build_timestamp,
)

READ_USER = ("api", "read_api", "read_user")
STATES = ("opened", "closed", "merged", "all", "locked")
FILTERS = (
    "state",
    "source_branch",
    "target_branch",
    "labels",
    "search",
    "in",
    "iids",
    "scope",
    "created_after",
)
AUTHORS = ("author_id", "author_username")
NEW_LABEL_COLOR = "#428BCA"
LONGEST_TITLE = 255


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
    numbered = enumerate(call.project.protected_branches, 1)
    matching = [(name, number) for number, name in numbered if search in name]
    return build_page(call, matching, lambda branch: build_protected_branch_json(*branch))


def _show_branch(call: StandinCall) -> StandinAnswer:
    project, name = call.project, call.values["name"]
    sha = read_heads(project.bare_repository).get(name)
    if sha is None:
        raise build_not_found("Branch")
    level = call.token.access_level if call.token else 0
    commit = build_commit_json(project, sha)
    return StandinAnswer(200, build_branch_json(project, name, commit, level))


def build_commit_json(project: StandinProject, sha: str) -> dict[str, Any]:
    """A commit as the API shows it."""
    commit = read_commits(project.git, project.bare_repository, "-1", sha)[0]
    return {**commit, "web_url": f"{project.web_url}/-/commit/{sha}"}


def _list_users(call: StandinCall) -> StandinAnswer:
    query = check_filters(call.request, "username", "search", "active")
    name, search = query.get("username", "").lower(), query.get("search", "").lower()
    users = [
        user
        for user in call.state.users
        if name in ("", user.username.lower()) and search in f"{user.username}\n{user.name}".lower()
    ]
    return build_page(call, users, lambda user: build_account_json(call, user))


def build_account_json(call: StandinCall, user: User) -> dict[str, Any]:
    """An account as in lists of members."""
    state = "blocked" if user.id in call.state.blocked else "active"
    return {**build_user_json(user, call.state.url), "state": state}


def _show_status(call: StandinCall) -> StandinAnswer:
    for user in call.state.users:
        if call.values["user"] in (str(user.id), user.username):
            status = "busy" if user.id in call.state.busy else None
            body = {"emoji": None, "message": None, "availability": status, "message_html": ""}
            return StandinAnswer(200, {**body, "clear_status_at": None})
    raise build_not_found("User")


# --- merge requests -------------------------------------------------------------------------------


def list_merge_requests(call: StandinCall) -> StandinAnswer:
    """GET merge_requests: the newest first by default."""
    query = check_filters(call.request, *FILTERS, *AUTHORS)
    if query.get("state", "all") not in STATES:
        raise StandinApiError(400, {"error": "state does not have a valid value"})
    refresh(call.project)  # pushes since the last request have moved the branches
    matching = [each for each in call.project.merge_requests if _matches(each, query)]
    order = "updated_at" if query.get("order_by") == "updated_at" else "created_at"
    matching.sort(
        key=lambda each: (getattr(each, order), each.iid),
        reverse=query.get("sort", "desc") == "desc",
    )
    return build_page(call, matching, lambda each: _build_json(call, each))


def create_merge_request(call: StandinCall) -> StandinAnswer:
    """POST merge_requests."""
    body = require_fields(call.request.body, "title", "source_branch", "target_branch")
    project, state, now = call.project, call.state, build_timestamp()
    _check_target_project(project, body)
    iid = len(project.merge_requests) + 1
    request = StandinMergeRequest(
        id=state.allocate_id("merge_request"),
        iid=iid,
        web_url=f"{project.web_url}/-/merge_requests/{iid}",
        author=call.caller.user,
        source_branch=body["source_branch"],
        target_branch=body["target_branch"],
        title=body["title"],
        created_at=now,
        updated_at=now,
    )
    _check_branches(request, project)
    check_conflict(request, project)
    set_fields(call, request, body)
    project.merge_requests.append(request)
    refresh(project)
    return StandinAnswer(201, _build_json(call, request))


def refresh(project: StandinProject) -> None:
    """Update open merge requests to the newest commit of their source branch, if it exists."""
    branches = read_heads(project.bare_repository)
    for request in project.merge_requests:
        if request.state == "opened":
            request.sha = branches.get(request.source_branch, request.sha)


def _build_json(call: StandinCall, request: StandinMergeRequest) -> Json:
    return build_merge_request_json(request, call.project, call.state.url)


def _matches(request: StandinMergeRequest, query: dict[str, str]) -> bool:
    text = f"{request.title}\n{request.description or ''}".lower()
    filters: dict[str, Callable[[str], bool]] = {
        "state": lambda value: value in ("all", request.state),
        "source_branch": lambda value: value == request.source_branch,
        "target_branch": lambda value: value == request.target_branch,
        "labels": lambda value: _has_labels(request, value),
        "search": lambda value: value.lower() in text,
        "created_after": lambda value: request.created_at >= value,
        "iids": lambda value: str(request.iid) in value.split(","),
        "author_id": lambda value: value == str(request.author.id),
        "author_username": lambda value: value == request.author.username,
    }
    return all(matches(query[name]) for name, matches in filters.items() if name in query)


def _has_labels(request: StandinMergeRequest, labels: str) -> bool:
    if labels.lower() == "none":
        return not request.labels
    if labels.lower() == "any":
        return bool(request.labels)
    return set(_split_names(labels)) <= set(request.labels)


def _check_target_project(project: StandinProject, body: Json) -> None:
    if str(body.get("target_project_id", project.id)) != str(project.id):
        message = "Source project is not a fork of the target project"
        raise StandinApiError(422, {"message": [message]})


def _check_branches(request: StandinMergeRequest, project: StandinProject) -> None:
    if request.source_branch == request.target_branch:
        message = "You can't use same project/branch for source and target"
        raise StandinApiError(422, {"message": [message]})
    heads = read_heads(project.bare_repository)
    named = {"source_branch": request.source_branch, "target_branch": request.target_branch}
    missing = {field: ["does not exist"] for field, name in named.items() if name not in heads}
    if missing:
        raise StandinApiError(400, {"message": missing})


def check_conflict(request: StandinMergeRequest, project: StandinProject) -> None:
    """409 if another merge request is open for the same branches."""
    branches = (request.source_branch, request.target_branch)
    for other in project.merge_requests:
        is_open = other.state == "opened" and other is not request
        if is_open and (other.source_branch, other.target_branch) == branches:
            message = "Another open merge request already exists for this source branch"
            raise StandinApiError(409, {"message": [f"{message}: !{other.iid}"]})


def set_fields(call: StandinCall, request: StandinMergeRequest, body: Json) -> None:
    """Set the fields that the body names."""
    title = body.get("title", request.title)
    if not title.strip():
        raise StandinApiError(400, {"message": {"title": ["can't be blank"]}})
    if len(title) > LONGEST_TITLE:
        text = f"is too long (maximum is {LONGEST_TITLE} characters)"
        raise StandinApiError(400, {"message": {"title": [text]}})
    request.title = title
    request.description = body.get("description", request.description)
    request.target_branch = body.get("target_branch", request.target_branch)
    request.squash = body.get("squash", request.squash)
    request.remove_source_branch = body.get("remove_source_branch", request.remove_source_branch)
    _change_people(call, request, body)
    _change_labels(call, request, body)


def _change_people(call: StandinCall, request: StandinMergeRequest, body: Json) -> None:
    if "reviewer_ids" in body:
        request.reviewers = _find_people(call, body["reviewer_ids"])
    if "assignee_id" in body:
        request.assignees = _find_people(call, [body["assignee_id"]])
    if "assignee_ids" in body:
        request.assignees = _find_people(call, body["assignee_ids"])


def _find_people(call: StandinCall, ids: Any) -> list[User]:
    """The accounts with these ids; GitLab drops unknown ones, and all but one on the free tier."""
    names = set(_split_names(ids))
    users = [user for user in call.state.users if str(user.id) in names]
    return users if call.state.paid_tier else users[:1]


def _change_labels(call: StandinCall, request: StandinMergeRequest, body: Json) -> None:
    """Set, add and remove labels; missing ones are created, as in GitLab."""
    labels = _split_names(body["labels"]) if "labels" in body else list(request.labels)
    labels += _split_names(body.get("add_labels"))
    removed = _split_names(body.get("remove_labels"))
    request.labels = [name for name in dict.fromkeys(labels) if name not in removed]
    existing = {label.name for label in call.project.labels}
    for name in request.labels:
        if name not in existing:
            label = StandinLabel(call.state.allocate_id("label"), name, NEW_LABEL_COLOR)
            call.project.labels.append(label)


def _split_names(value: Any) -> list[str]:
    """The names in a list, from JSON or separated by commas."""
    parts = value if isinstance(value, list) else str(value or "").split(",")
    return list(filter(None, (str(part).strip() for part in parts)))


PROJECT = "projects/{id}"
MERGE_REQUESTS = f"{PROJECT}/merge_requests"
REPOSITORY = f"{PROJECT}/repository"

# Roles and job tokens: GitLab's permissions, from lib/api/*.rb and "CI/CD job token" in its manual.
# In new versions a Reporter may read the protected branches, in older ones only a Maintainer.
ENDPOINTS = (
    Endpoint("GET", "user", _show_user, scopes=READ_USER),
    Endpoint("GET", "personal_access_tokens/self", _show_own_token, scopes=None),
    Endpoint("GET", PROJECT, _show_project, GUEST),
    Endpoint("POST", f"{PROJECT}/labels", _create_label, REPORTER, WRITE),
    Endpoint("GET", f"{PROJECT}/protected_branches", _list_protected_branches, REPORTER),
    Endpoint("GET", f"{REPOSITORY}/branches/{{name}}", _show_branch, REPORTER, job_token=True),
    Endpoint("GET", MERGE_REQUESTS, list_merge_requests, REPORTER, job_token=True),
    Endpoint("POST", MERGE_REQUESTS, create_merge_request, DEVELOPER, WRITE),
    Endpoint("GET", "users", _list_users, scopes=READ_USER),
    Endpoint("GET", "users/{user}/status", _show_status, scopes=READ_USER),
)
