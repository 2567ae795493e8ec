"""Publishes to an open merge request: one more commit on its branch, only as a fast-forward, or a
suggestion if the branch belongs to people."""

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.resources import MergeRequest
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.records.products import Outcome, Publication
from gitlab_nightshift.records.request import TaskRequest
from gitlab_nightshift.repository.private_repository import Repository, read_diff_text
from gitlab_nightshift.stages.publish.branch_push import push_fast_forward
from gitlab_nightshift.stages.publish.publish_context import PublishContext
from gitlab_nightshift.stages.publish.suggestion import MOST_LINES, render_suggestion


def add_commit(
    repository: Repository, commit: str, run_id: str, request: TaskRequest, context: PublishContext
) -> Publication:
    """Push a commit made on the branch's head; ``SKIPPED`` if people have pushed since.

    Raises ``E_PUBLISH`` if GitLab refuses, or the merge request is gone.
    """
    found = context.project.merge_requests.find(request.place.iid)
    if found is None or found.source_branch != request.branch:
        raise NightshiftError(Code.PUBLISH, "the merge request is gone")
    head = context.project.find_branch_head(request.branch)
    if head == commit:
        return _build_added_publication(found, commit, run_id)
    if found.state != "opened":
        return _build_skipped_publication(run_id, f"merge request !{found.iid} is {found.state}")
    if request.upkeep and (why := _find_takeover(request, context)):
        return _build_skipped_publication(run_id, why)
    if head != context.base or not push_fast_forward(repository, commit, request.branch, context):
        return _build_skipped_publication(
            run_id, f"branch {request.branch} has moved since work began"
        )
    context.session.emit(Note(f"Branch {request.branch} has one more commit ({commit[:12]})."))
    return _build_added_publication(found, commit, run_id)


def suggest_change(
    repository: Repository, tree: str, run_id: str, request: TaskRequest, context: PublishContext
) -> Publication:
    """The change for the reply to the comment; nothing is pushed."""
    found = context.project.merge_requests.find(request.place.iid)
    if found is None or found.state != "opened" or found.sha != context.base:
        return _build_skipped_publication(
            run_id, "the merge request has moved or was closed since work began"
        )
    patch, wide = (read_diff_text(repository, context.base, tree, n) for n in (3, MOST_LINES))
    return Publication(
        run_id=run_id,
        outcome=Outcome.MR_READY,
        reason=f"suggested in merge request !{found.iid}",
        mr_url=found.web_url,
        mr_iid=found.iid,
        title=found.title,
        suggestion=context.session.redact(render_suggestion(patch, wide, request.spot)),
    )


def _find_takeover(request: TaskRequest, context: PublishContext) -> str:
    """Why people have taken the merge request over meanwhile; "" if they have not."""
    reviews, iid = context.project.reviews, request.place.iid
    if reviews.is_approved(iid):
        return f"merge request !{iid} has been approved in the meantime"
    return f"merge request !{iid} is set to merge" if reviews.read_state(iid).auto_merge else ""


def _build_skipped_publication(run_id: str, why: str) -> Publication:
    return Publication(run_id, Outcome.SKIPPED, why)


def _build_added_publication(found: MergeRequest, commit: str, run_id: str) -> Publication:
    return Publication(
        run_id=run_id,
        outcome=Outcome.MR_CREATED,
        reason=f"one commit was added to merge request !{found.iid}",
        mr_url=found.web_url,
        mr_iid=found.iid,
        branch=found.source_branch,
        commit_sha=commit,
        title=found.title,
    )
