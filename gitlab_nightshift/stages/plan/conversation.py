"""The context of a comment with a task: its thread, issue or diff. All of it is data."""

from collections.abc import Iterator

from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.threads import Comment, Noteable, Thread
from gitlab_nightshift.records.request import TaskRequest
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.plan.quotes import drop_hidden_comments, format_job, format_thread

MOST_OPEN_THREADS = 5
Parts = list[tuple[str, str]]
"""Titled texts, the most important one first."""


def collect_context(
    request: TaskRequest,
    comment: Comment,
    thread: Thread,
    noteable: Noteable,
    project: Project,
    settings: Settings,
) -> Parts:
    """The texts that the task is about. Raises ApiError.

    Internal comments are for members only: they are included only if ``policy.confidential_issues``
    allows it.
    """
    parts: Parts = []
    inside = settings.policy.confidential_issues
    if len(thread.comments) > 1 or comment.spot:
        parts.append(format_thread(thread, 1, internal=inside))
    kind = "issue" if request.place.where == "issues" else "merge request"
    title = " ".join(noteable.title.split())
    text = drop_hidden_comments(f"{title}\n\n{noteable.description}")
    parts.append((f"{kind} {request.place.iid}", text))
    if request.branch:
        parts += _collect_of_merge_request(request, thread, project, inside=inside)
    return parts


def _collect_of_merge_request(
    request: TaskRequest, thread: Thread, project: Project, *, inside: bool
) -> Iterator[tuple[str, str]]:
    iid = request.place.iid
    pipeline = request.failed_pipeline
    for job in project.reviews.read_failed_jobs(pipeline) if pipeline else ():
        yield format_job(job)
    others = project.threads.list_threads("merge_requests", iid) or ()
    waiting = [each for each in others if each.open and each.id != thread.id]
    for each in waiting[:MOST_OPEN_THREADS]:
        yield format_thread(each, internal=inside)
    if diff := project.reviews.read_diff(iid):
        yield f"the diff of merge request {iid}", diff
