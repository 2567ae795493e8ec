"""The stand-in's approvals and rebases of merge requests."""

from gitlab_nightshift.demo import standin_merge_requests as merge_requests
from gitlab_nightshift.demo.standin_api import WRITE, Endpoint, StandinCall
from gitlab_nightshift.demo.standin_json import build_user_json
from gitlab_nightshift.demo.standin_merge_state import note_commit, refresh
from gitlab_nightshift.demo.standin_repository import read_heads, rebase
from gitlab_nightshift.demo.standin_requests import StandinAnswer
from gitlab_nightshift.demo.standin_state import DEVELOPER, REPORTER

NO_REBASE = "Rebase failed: Rebase locally, resolve all conflicts, then push the branch."


def _show_approvals(call: StandinCall) -> StandinAnswer:
    request = merge_requests.find(call)
    given = [{"user": build_user_json(user, call.state.url)} for user in request.approved_by]
    return StandinAnswer(200, {"iid": request.iid, "approved": bool(given), "approved_by": given})


def _rebase(call: StandinCall) -> StandinAnswer:
    """PUT rebase: done at once, by GitLab a little later."""
    project, request = call.project, merge_requests.find(call)
    refresh(call.state, project)
    git, bare = project.git, project.bare_repository
    target = read_heads(bare)[request.target_branch]
    made = rebase(git, bare, request.source_branch, target, call.caller.user.username)
    request.merge_error = None if made else NO_REBASE
    if made and made != request.sha:
        request.sha = made
        note_commit(call.state, request, call.caller.user)
    return StandinAnswer(202, {"rebase_in_progress": True})


ONE = "projects/{id}/merge_requests/{iid}"
ENDPOINTS = (
    Endpoint("GET", f"{ONE}/approvals", _show_approvals, REPORTER),
    Endpoint("PUT", f"{ONE}/rebase", _rebase, DEVELOPER, WRITE),
)
