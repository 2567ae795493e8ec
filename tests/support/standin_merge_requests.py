"""The stand-in's merge requests as only tests ask for them: changed, commented on, rebased."""

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
from gitlab_nightshift.demo.standin_endpoints import (
    check_conflict,
    create_merge_request,
    list_merge_requests,
    set_fields,
)
from gitlab_nightshift.demo.standin_json import Json, build_merge_request_json, build_user_json
from gitlab_nightshift.demo.standin_repository import find_merge_base, read_diffs, read_heads
from gitlab_nightshift.demo.standin_state import (
    DEVELOPER,
    REPORTER,
    StandinAnswer,
    StandinMergeRequest,
    StandinNote,
    StandinProject,
    State,
    User,
    build_timestamp,
)
from tests.support.standin_records import (
    FullProject,
    build_note_json,
    build_pipeline_json,
    get_project,
)
from tests.support.standin_repositories import has_conflict, rebase

EVENTS = {"close": "closed", "reopen": "opened"}
CHANGEABLE = (
    "title description target_branch labels add_labels remove_labels reviewer_ids assignee_ids"
    " assignee_id state_event remove_source_branch squash"
).split()
NO_REBASE = "Rebase failed: Rebase locally, resolve all conflicts, then push the branch."


def list_and_refresh(call: StandinCall) -> StandinAnswer:
    """GET merge_requests."""
    refresh(call.state, get_project(call))
    return list_merge_requests(call)


def create_and_refresh(call: StandinCall) -> StandinAnswer:
    """POST merge_requests."""
    refresh(call.state, get_project(call))
    return create_merge_request(call)


def refresh(state: State, project: FullProject) -> None:
    """Open merge requests follow their source branch; a system note says who has pushed."""
    branches = read_heads(project.bare_repository)
    for request in project.merge_requests:
        head = branches.get(request.source_branch, request.sha)
        if request.state != "opened" or head == request.sha:
            continue
        if request.sha:
            pushed = [each.user for each in project.pushes if each.new == head]
            note_commit(state, request, find_pusher(state, pushed[-1] if pushed else ""))
        request.sha = head


def note_commit(state: State, request: StandinMergeRequest, user: User) -> None:
    """GitLab's own comment on a commit that somebody has added."""
    number = state.allocate_id("note")
    body = "added 1 commit\n\n<ul><li>0000000 - a commit</li></ul>"
    request.notes.append(StandinNote(number, body, user, build_timestamp(), system=True))


def find_pusher(state: State, login: str) -> User:
    """Who has pushed; GitLab's ghost for an account that is not known."""
    known = (each for each in state.users if each.username == login)
    return next(known, User(1, "ghost", "Ghost User"))


def build_merge_state(project: FullProject, request: StandinMergeRequest) -> Json:
    """What a list does not say: whether it can be merged, and its newest pipeline."""
    git, bare = project.git, project.bare_repository
    target = read_heads(bare).get(request.target_branch, request.sha)
    opened = request.state == "opened"
    ends = (target, request.sha)
    checked = not opened or project.checked.get(request.iid) == ends
    project.checked[request.iid] = ends
    conflict = opened and checked and has_conflict(git, bare, *ends)
    pipelines = [each for each in project.pipelines if each.sha == request.sha]
    head = pipelines[-1] if pipelines else None
    return {
        "has_conflicts": conflict,
        "detailed_merge_status": _name_merge_status(request, checked=checked, conflict=conflict),
        "rebase_in_progress": request.iid in project.rebasing,
        "merge_error": request.merge_error,
        "head_pipeline": head and build_pipeline_json(head, project),
    }


def _name_merge_status(request: StandinMergeRequest, *, checked: bool, conflict: bool) -> str:
    """GitLab looks later: who asks first, after either branch has moved, only makes it look."""
    if request.state != "opened":
        return "not_open"
    return ("conflict" if conflict else "mergeable") if checked else "unchecked"


def show_merge_request(call: StandinCall) -> StandinAnswer:
    """GET merge_requests/:iid."""
    refresh(call.state, get_project(call))
    request, project = find(call), get_project(call)
    shown = _build_json(call, request) | build_merge_state(project, request)
    project.rebasing.discard(request.iid)
    return StandinAnswer(200, shown)


def update_merge_request(call: StandinCall) -> StandinAnswer:
    """PUT merge_requests/:iid."""
    request, body = find(call), require_fields(call.request.body)
    if not set(body) & set(CHANGEABLE):
        names = ", ".join(CHANGEABLE)
        raise StandinApiError(
            400, {"error": f"{names} are missing, at least one parameter is required"}
        )
    set_fields(call, request, body)
    _set_state(request, call.project, body.get("state_event"))
    request.updated_at = build_timestamp()
    refresh(call.state, get_project(call))
    return StandinAnswer(200, _build_json(call, request))


def show_changes(call: StandinCall) -> StandinAnswer:
    """GET merge_requests/:iid/changes."""
    refresh(call.state, get_project(call))
    request = find(call)
    return StandinAnswer(
        200,
        {**_build_json(call, request), "changes": read_merge_request_diffs(call.project, request)},
    )


def list_diffs(call: StandinCall) -> StandinAnswer:
    """GET merge_requests/:iid/diffs."""
    refresh(call.state, get_project(call))
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


def find(call: StandinCall) -> StandinMergeRequest:
    """The merge request of the path; 404 where there is none."""
    for request in call.project.merge_requests:
        if str(request.iid) == call.values["iid"]:
            return request
    raise StandinApiError(404, {"message": "404 Not found"})


def _set_state(request: StandinMergeRequest, project: StandinProject, event: str | None) -> None:
    if event is None:
        return
    if event not in EVENTS:
        raise StandinApiError(400, {"error": "state_event does not have a valid value"})
    if request.state == "merged":
        return
    if event == "reopen":
        check_conflict(request, project)
    request.change_state("closed" if event == "close" else "opened")


def read_merge_request_diffs(project: StandinProject, request: StandinMergeRequest) -> list[Json]:
    """What a merge request changes; it is known after its branch has gone, too."""
    git, bare = project.git, project.bare_repository
    target = read_heads(bare).get(request.target_branch)
    if target is None:
        raise build_not_found("Branch")
    return read_diffs(git, bare, find_merge_base(git, bare, target, request.sha), request.sha)


def _build_json(call: StandinCall, request: StandinMergeRequest) -> Json:
    return build_merge_request_json(request, call.project, call.state.url)


def _show_approvals(call: StandinCall) -> StandinAnswer:
    request = find(call)
    given = [{"user": build_user_json(user, call.state.url)} for user in request.approved_by]
    return StandinAnswer(200, {"iid": request.iid, "approved": bool(given), "approved_by": given})


def _rebase(call: StandinCall) -> StandinAnswer:
    """PUT rebase: whoever asks next is told that it goes on."""
    project, request = get_project(call), find(call)
    refresh(call.state, project)
    git, bare = project.git, project.bare_repository
    target = read_heads(bare)[request.target_branch]
    made = rebase(git, bare, request.source_branch, target, call.caller.user.username)
    request.merge_error = None if made else NO_REBASE
    if made and made != request.sha:
        request.sha = made
        note_commit(call.state, request, call.caller.user)
    project.rebasing.add(request.iid)
    return StandinAnswer(202, {"rebase_in_progress": True})


MERGE_REQUESTS = "projects/{id}/merge_requests"
ONE = f"{MERGE_REQUESTS}/{{iid}}"
ENDPOINTS = (
    Endpoint("GET", MERGE_REQUESTS, list_and_refresh, REPORTER, job_token=True),
    Endpoint("POST", MERGE_REQUESTS, create_and_refresh, DEVELOPER, WRITE),
    Endpoint("GET", ONE, show_merge_request, REPORTER, job_token=True),
    Endpoint("PUT", ONE, update_merge_request, DEVELOPER, WRITE),
    Endpoint("GET", f"{ONE}/changes", show_changes, REPORTER),
    Endpoint("GET", f"{ONE}/diffs", list_diffs, REPORTER),
    Endpoint("GET", f"{ONE}/notes", list_notes, REPORTER, job_token=True),
    Endpoint("POST", f"{ONE}/notes", add_note, REPORTER, WRITE),
    Endpoint("GET", f"{ONE}/approvals", _show_approvals, REPORTER),
    Endpoint("PUT", f"{ONE}/rebase", _rebase, DEVELOPER, WRITE),
)
