"""What follows in the stand-in from a merge request's branches: its head, conflicts, pipeline."""

from gitlab_nightshift.demo.standin_comments import StandinNote
from gitlab_nightshift.demo.standin_json import Json, build_pipeline_json
from gitlab_nightshift.demo.standin_repository import has_conflict, read_heads
from gitlab_nightshift.demo.standin_state import (
    StandinMergeRequest,
    StandinProject,
    State,
    User,
    build_timestamp,
)


def refresh(state: State, project: StandinProject) -> None:
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


def build_merge_state(project: StandinProject, request: StandinMergeRequest) -> Json:
    """What a list does not say: whether it can be merged, and its newest pipeline."""
    git, bare = project.git, project.bare_repository
    target = read_heads(bare).get(request.target_branch, request.sha)
    opened = request.state == "opened"
    conflict = opened and has_conflict(git, bare, target, request.sha)
    pipelines = [each for each in project.pipelines if each.sha == request.sha]
    head = pipelines[-1] if pipelines else None
    return {
        "has_conflicts": conflict,
        "detailed_merge_status": "conflict" if conflict else "mergeable",
        "rebase_in_progress": False,
        "merge_error": request.merge_error,
        "head_pipeline": head and build_pipeline_json(head, project),
    }
