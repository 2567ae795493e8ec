"""The stand-in's merge requests: listed, created, shown, changed, commented on."""

from collections.abc import Callable
from typing import Any

from gitlab_nightshift.demo.standin_api import (
    StandinApiError,
    StandinCall,
    build_not_found,
    build_page,
    check_filters,
    require_fields,
)
from gitlab_nightshift.demo.standin_comments import StandinNote
from gitlab_nightshift.demo.standin_json import (
    Json,
    build_merge_request_json,
    build_note_json,
)
from gitlab_nightshift.demo.standin_merge_state import build_merge_state, refresh
from gitlab_nightshift.demo.standin_repository import find_merge_base, read_diffs, read_heads
from gitlab_nightshift.demo.standin_requests import StandinAnswer
from gitlab_nightshift.demo.standin_state import (
    StandinLabel,
    StandinMergeRequest,
    StandinProject,
    User,
    build_timestamp,
)

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
EVENTS = {"close": "closed", "reopen": "opened"}
CHANGEABLE = (
    "title description target_branch labels add_labels remove_labels reviewer_ids assignee_ids"
    " assignee_id state_event remove_source_branch squash"
).split()


def list_merge_requests(call: StandinCall) -> StandinAnswer:
    """GET merge_requests: newest first."""
    query = check_filters(call.request, *FILTERS, *AUTHORS)
    if query.get("state", "all") not in STATES:
        raise StandinApiError(400, {"error": "state does not have a valid value"})
    refresh(call.state, call.project)
    found = [each for each in call.project.merge_requests if _matches(each, query)]
    moment = "updated_at" if query.get("order_by") == "updated_at" else "created_at"
    found.sort(
        key=lambda each: (getattr(each, moment), each.iid),
        reverse=query.get("sort", "desc") == "desc",
    )
    return build_page(call, found, lambda each: _build_json(call, each))


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
    _check_conflict(request, project)
    _change(call, request, body)
    project.merge_requests.append(request)
    refresh(state, project)
    return StandinAnswer(201, _build_json(call, request))


def show_merge_request(call: StandinCall) -> StandinAnswer:
    """GET merge_requests/:iid."""
    refresh(call.state, call.project)
    request = find(call)
    return StandinAnswer(200, _build_json(call, request) | build_merge_state(call.project, request))


def update_merge_request(call: StandinCall) -> StandinAnswer:
    """PUT merge_requests/:iid."""
    request, body = find(call), require_fields(call.request.body)
    if not set(body) & set(CHANGEABLE):
        names = ", ".join(CHANGEABLE)
        raise StandinApiError(
            400, {"error": f"{names} are missing, at least one parameter is required"}
        )
    _change(call, request, body)
    _set_state(request, call.project, body.get("state_event"))
    request.updated_at = build_timestamp()
    refresh(call.state, call.project)
    return StandinAnswer(200, _build_json(call, request))


def show_changes(call: StandinCall) -> StandinAnswer:
    """GET merge_requests/:iid/changes."""
    refresh(call.state, call.project)
    request = find(call)
    return StandinAnswer(
        200,
        {**_build_json(call, request), "changes": read_merge_request_diffs(call.project, request)},
    )


def list_diffs(call: StandinCall) -> StandinAnswer:
    """GET merge_requests/:iid/diffs."""
    refresh(call.state, call.project)
    return build_page(call, read_merge_request_diffs(call.project, find(call)), lambda diff: diff)


def list_notes(call: StandinCall) -> StandinAnswer:
    """GET merge_requests/:iid/notes: newest first."""
    query, request = check_filters(call.request), find(call)
    newest_first = query.get("sort", "desc") == "desc"
    found = request.notes[::-1] if newest_first else request.notes
    return build_page(call, found, lambda note: build_note_json(note, request, call.state.url))


def add_note(call: StandinCall) -> StandinAnswer:
    """POST merge_requests/:iid/notes."""
    body, request = require_fields(call.request.body, "body"), find(call)
    note = StandinNote(
        call.state.allocate_id("note"), body["body"], call.caller.user, build_timestamp()
    )
    request.notes.append(note)
    return StandinAnswer(201, build_note_json(note, request, call.state.url))


def _build_json(call: StandinCall, request: StandinMergeRequest) -> Json:
    return build_merge_request_json(request, call.project, call.state.url)


def find(call: StandinCall) -> StandinMergeRequest:
    """The merge request of the path; 404 where there is none."""
    for request in call.project.merge_requests:
        if str(request.iid) == call.values["iid"]:
            return request
    raise StandinApiError(404, {"message": "404 Not found"})


def _matches(request: StandinMergeRequest, query: dict[str, str]) -> bool:
    text = f"{request.title}\n{request.description or ''}".lower()
    tests: dict[str, Callable[[str], bool]] = {
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
    return all(tests[name](query[name]) for name in tests if name in query)


def _has_labels(request: StandinMergeRequest, wanted: str) -> bool:
    if wanted.lower() in ("none", "any"):
        return bool(request.labels) == (wanted.lower() == "any")
    return set(_split_names(wanted)) <= set(request.labels)


def _check_target_project(project: StandinProject, body: Json) -> None:
    if str(body.get("target_project_id", project.id)) != str(project.id):
        message = "Source project is not a fork of the target project"
        raise StandinApiError(422, {"message": [message]})


def _check_branches(request: StandinMergeRequest, project: StandinProject) -> None:
    if request.source_branch == request.target_branch:
        message = "You can't use same project/branch for source and target"
        raise StandinApiError(422, {"message": [message]})
    branches = read_heads(project.bare_repository)
    ends = {"source_branch": request.source_branch, "target_branch": request.target_branch}
    missing = {name: ["does not exist"] for name, branch in ends.items() if branch not in branches}
    if missing:
        raise StandinApiError(400, {"message": missing})


def _check_conflict(request: StandinMergeRequest, project: StandinProject) -> None:
    ends = (request.source_branch, request.target_branch)
    for other in project.merge_requests:
        open_twin = other.state == "opened" and other is not request
        if open_twin and (other.source_branch, other.target_branch) == ends:
            message = "Another open merge request already exists for this source branch"
            raise StandinApiError(409, {"message": [f"{message}: !{other.iid}"]})


def _set_state(request: StandinMergeRequest, project: StandinProject, event: str | None) -> None:
    if event is None:
        return
    if event not in EVENTS:
        raise StandinApiError(400, {"error": "state_event does not have a valid value"})
    if request.state == "merged":
        return
    if event == "reopen":
        _check_conflict(request, project)
    request.settle("closed" if event == "close" else "opened")


def _change(call: StandinCall, request: StandinMergeRequest, body: Json) -> None:
    title = body.get("title", request.title)
    if not title.strip():
        raise StandinApiError(400, {"message": {"title": ["can't be blank"]}})
    if len(title) > LONGEST_TITLE:
        problem = f"is too long (maximum is {LONGEST_TITLE} characters)"
        raise StandinApiError(400, {"message": {"title": [problem]}})
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
    """The accounts of these ids; GitLab drops unknown ones, and all but one on the free tier."""
    wanted = {str(each) for each in _split_names(ids)}
    found = [user for user in call.state.users if str(user.id) in wanted]
    return found if call.state.paid_tier else found[:1]


def _change_labels(call: StandinCall, request: StandinMergeRequest, body: Json) -> None:
    """Set, add, remove; a label that does not exist is made, as GitLab does."""
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
    """A list, given as such or separated by commas."""
    parts = value if isinstance(value, list) else str(value or "").split(",")
    return [text for part in parts if (text := str(part).strip())]


def read_merge_request_diffs(project: StandinProject, request: StandinMergeRequest) -> list[Json]:
    """What a merge request changes; it is known after its branch has gone, too."""
    git, bare = project.git, project.bare_repository
    target = read_heads(bare).get(request.target_branch)
    if target is None:
        raise build_not_found("Branch")
    return read_diffs(git, bare, find_merge_base(git, bare, target, request.sha), request.sha)
