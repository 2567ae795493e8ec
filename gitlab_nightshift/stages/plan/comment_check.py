"""Reads a comment from GitLab with its thread, issue or diff, and judges whether it is a request
that may be taken up."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.gitlab.accounts import DEVELOPER
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.resources import NIGHT_LABEL, MergeRequest
from gitlab_nightshift.gitlab.threads import Comment, Noteable, Thread, read_reply_marker
from gitlab_nightshift.records.request import CommentAddress, DiffSpot, TaskRequest
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.plan.quotes import (
    drop_hidden_comments,
    format_job,
    format_thread,
    quote_texts,
)
from gitlab_nightshift.stages.plan.trigger import (
    DeclinedRequest,
    IgnoredTrigger,
    build_test_command,
    is_command,
    parse_command,
)

Redact = Callable[[str], str]
_UNSEEN = IgnoredTrigger("GitLab has no such comment, or the token may not see it")
_MOST_OPEN_THREADS = 5
_Parts = list[tuple[str, str]]
"""Titled texts, the most important one first."""


def read_request(
    place: CommentAddress, project: Project, settings: Settings, run_id: str, redact: Redact
) -> TaskRequest | DeclinedRequest | IgnoredTrigger:
    """The comment at ``place``, judged. Everything is read from GitLab, nothing from the webhook.

    Cheap checks come first: nearly all comments are not meant for this program.
    """
    comment = _read_command_comment(place, project)
    if isinstance(comment, IgnoredTrigger):
        return comment
    threads = project.threads
    noteable, thread = threads.find_noteable(place), threads.find_thread(place)
    if noteable is None or thread is None:
        return _UNSEEN
    if (noteable.confidential or comment.internal) and not settings.policy.confidential_issues:
        return IgnoredTrigger("it is confidential, and policy.confidential_issues is false")
    if run := _find_earlier_run(thread, place, project.threads.read_own_id(), run_id):
        return IgnoredTrigger(f"the comment has already been handled, by pipeline {run}")
    found = _authorize_request(
        comment, noteable, replace(place, thread=thread.id), project, settings
    )
    if not isinstance(found, TaskRequest):
        return found
    found = replace(found, spot=_find_spot(found, thread, project))
    parts = _collect_context(found, comment, thread, noteable, project, settings)
    return replace(found, context=quote_texts([(name, redact(text)) for name, text in parts]))


def find_other_run(request: TaskRequest, project: Project, run_id: str) -> str:
    """The run that has taken up the comment since it was read; "" if none has."""
    if not request.place.note or (thread := project.threads.find_thread(request.place)) is None:
        return ""
    return _find_earlier_run(thread, request.place, project.threads.read_own_id(), run_id)


def _read_command_comment(place: CommentAddress, project: Project) -> Comment | IgnoredTrigger:
    comment = project.threads.find_comment(place)
    if comment is None:
        return _UNSEEN
    if comment.system or not is_command(comment.body):
        return IgnoredTrigger("there is no /nightshift in the comment")
    own_id = comment.author_id == project.threads.read_own_id()
    if own_id or project.threads.is_bot(comment.author_id):
        return IgnoredTrigger("the comment is a bot's")
    return comment


def _find_earlier_run(thread: Thread, place: CommentAddress, own_id: int, run_id: str) -> str:
    """The run that took up the comment, by this program's own replies; "" if none has, or if it was
    this run and failed."""
    replies = (read_reply_marker(each.body) for each in thread.comments if each.author_id == own_id)
    for reply in replies:
        if reply is None or reply.note != place.note or reply.status == "declined":
            continue
        if reply.status == "done" or reply.run_id != run_id:
            return reply.run_id
    return ""


def _authorize_request(
    comment: Comment,
    noteable: Noteable,
    place: CommentAddress,
    project: Project,
    settings: Settings,
) -> TaskRequest | DeclinedRequest | IgnoredTrigger:
    """The request, if its author may make it. Members below Developer get a reply that they may
    not, other people none."""
    level = project.threads.read_level(comment.author_id)
    if not level:
        return IgnoredTrigger("the comment's author is not a member of the project")
    if level < DEVELOPER:
        return DeclinedRequest("only Developers and above may ask for a task", place)
    try:
        request = _build_request(comment, noteable, place, settings)
        return request if place.where == "issues" else _add_branch(request, project, settings)
    except NightshiftError as error:
        return DeclinedRequest(error.message, place)


def _build_request(
    comment: Comment, noteable: Noteable, place: CommentAddress, settings: Settings
) -> TaskRequest:
    command = parse_command(comment.body)
    return TaskRequest(
        place=place,
        task=command.task,
        author=comment.author_name,
        url=f"{noteable.web_url}#note_{comment.id}",
        provider=command.provider,
        model=command.model,
        dry_run=command.dry_run,
        test=build_test_command(command, settings.policy.test_commands),
    )


def _add_branch(request: TaskRequest, project: Project, settings: Settings) -> TaskRequest:
    """The request with the branch to work on. Raises ``E_CONFIG`` unless the merge request is an
    open one of this program, or ``policy.on_peoples_mrs`` allows others."""
    found = project.merge_requests.find(request.place.iid)
    if found is None:
        raise build_config_error("its branch is in another project")
    why, allowed = _describe_foreign(found, settings), settings.policy.on_peoples_mrs
    if why and not allowed:
        raise build_config_error(why)
    if found.state != "opened":
        raise build_config_error(f"this merge request is {found.state}")
    return replace(
        request,
        branch=found.source_branch,
        head=found.sha,
        failed_pipeline=project.reviews.read_state(found.iid).failed_pipeline,
        suggest=bool(why) and allowed == "suggest",
    )


def _describe_foreign(found: MergeRequest, settings: Settings) -> str:
    """Why a merge request is not this program's; "" if it is."""
    prefix = settings.branch_prefix
    if not found.source_branch.startswith(prefix):
        return f"its branch does not begin with {prefix}, and policy.on_peoples_mrs is false"
    if not found.marker and NIGHT_LABEL not in found.labels:
        return "this merge request is not one of the night shift's"
    return ""


def _find_spot(request: TaskRequest, thread: Thread, project: Project) -> DiffSpot | None:
    """A thread's place in the diff, and the lines there; None for a thread elsewhere, or on an
    older diff."""
    at = thread.comments[0].at
    if not request.suggest or at is None or at.head != request.head:
        return None
    shown = project.reviews.find_hunk_lines(request.place.iid, at.path, at.line)
    return DiffSpot(at.path, at.line, *shown) if shown else None


def _collect_context(
    request: TaskRequest,
    comment: Comment,
    thread: Thread,
    noteable: Noteable,
    project: Project,
    settings: Settings,
) -> _Parts:
    """The texts that the task is about. Raises ApiError.

    Internal comments are for members only: they are included only if ``policy.confidential_issues``
    allows it.
    """
    parts: _Parts = []
    with_internal = settings.policy.confidential_issues
    if len(thread.comments) > 1 or comment.spot:
        parts.append(format_thread(thread, 1, internal=with_internal))
    kind = "issue" if request.place.where == "issues" else "merge request"
    title = " ".join(noteable.title.split())
    text = drop_hidden_comments(f"{title}\n\n{noteable.description}")
    parts.append((f"{kind} {request.place.iid}", text))
    if request.branch:
        parts += _collect_merge_request(request, thread, project, with_internal=with_internal)
    return parts


def _collect_merge_request(
    request: TaskRequest, thread: Thread, project: Project, *, with_internal: bool
) -> Iterator[tuple[str, str]]:
    iid = request.place.iid
    pipeline = request.failed_pipeline
    for job in project.reviews.read_failed_jobs(pipeline) if pipeline else ():
        yield format_job(job)
    others = project.threads.list_threads("merge_requests", iid) or ()
    waiting = [each for each in others if each.open and each.id != thread.id]
    for each in waiting[:_MOST_OPEN_THREADS]:
        yield format_thread(each, internal=with_internal)
    if diff := project.reviews.read_diff(iid):
        yield f"the diff of merge request {iid}", diff
