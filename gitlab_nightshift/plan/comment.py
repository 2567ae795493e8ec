"""A comment, read again at GitLab and judged: a request, or why there is none."""

from dataclasses import replace

from gitlab_nightshift.errors import NightshiftError, config_error
from gitlab_nightshift.gitlab import DEVELOPER, NIGHT_LABEL, Project
from gitlab_nightshift.gitlab.threads import Comment, Noteable, Thread, read_reply_marker
from gitlab_nightshift.plan.trigger import (
    Declined,
    Ignored,
    asked_in,
    is_command,
    quoted,
    test_command,
)
from gitlab_nightshift.records import Place, Request
from gitlab_nightshift.settings import Settings

_KINDS = {"issues": "issue", "merge_requests": "merge request"}


def read_request(
    place: Place, project: Project, settings: Settings, run_id: str
) -> Request | Declined | Ignored:
    """What the comment at a place asks for. Everything is GitLab's own word, nothing the webhook's.

    Cheap questions come first: nearly all comments are none for this program.
    """
    comment = _meant_for_us(place, project)
    if isinstance(comment, Ignored):
        return comment
    threads = project.threads
    noteable, thread = threads.noteable(place), threads.thread(place)
    if noteable is None or thread is None:
        return _UNSEEN
    if (noteable.confidential or comment.internal) and not settings.policy.confidential_issues:
        return Ignored("it is confidential, and policy.confidential_issues is false")
    if run := _taken_up(thread, place, project.threads.own_id(), run_id):
        return Ignored(f"the comment was taken up before, by pipeline {run}")
    return _allowed(comment, noteable, replace(place, thread=thread.id), project, settings)


_UNSEEN = Ignored("GitLab has no such comment, or the token may not see it")


def _meant_for_us(place: Place, project: Project) -> Comment | Ignored:
    comment = project.threads.comment(place)
    if comment is None:
        return _UNSEEN
    if comment.system or not is_command(comment.body):
        return Ignored("the comment does not begin with /nightshift")
    own = comment.author_id == project.threads.own_id()
    if own or project.threads.is_bot(comment.author_id):
        return Ignored("the comment is a bot's")
    return comment


def _taken_up(thread: Thread, place: Place, own: int, run_id: str) -> str:
    """The run that took the comment up, by this program's own replies; "" where it may be done: a
    run that failed may be started again, another may not."""
    replies = (read_reply_marker(each.body) for each in thread.comments if each.author_id == own)
    for reply in replies:
        if reply is None or reply.note != place.note or reply.said == "declined":
            continue
        if reply.said == "done" or reply.run_id != run_id:
            return reply.run_id
    return ""


def _allowed(
    comment: Comment, noteable: Noteable, place: Place, project: Project, settings: Settings
) -> Request | Declined | Ignored:
    """Strangers get no answer, members below Developer get one."""
    level = project.threads.level(comment.author_id)
    if not level:
        return Ignored("the comment's author is no member of the project")
    if level < DEVELOPER:
        return Declined("only members from Developer up may ask for a task", place)
    try:
        request = _request(comment, noteable, place, settings)
        return request if place.where == "issues" else _follow_up(request, project, settings)
    except NightshiftError as error:
        return Declined(error.message, place)


def _request(comment: Comment, noteable: Noteable, place: Place, settings: Settings) -> Request:
    asked = asked_in(comment.body)
    return Request(
        place=place,
        task=asked.task,
        context=quoted(_KINDS[place.where], place.iid, noteable.title, noteable.description),
        author=comment.author_name,
        url=f"{noteable.web_url}#note_{comment.id}",
        provider=asked.provider,
        model=asked.model,
        dry_run=asked.dry_run,
        test=test_command(asked, settings.policy.test_commands),
    )


def _follow_up(request: Request, project: Project, settings: Settings) -> Request:
    """The request with the branch to work on. Raises ``E_CONFIG`` for another merge request than
    an open one of this program: a branch of people is never written to."""
    found = project.merge_request(request.place.iid)
    if found is None or not found.source_branch.startswith(settings.branch_prefix):
        raise config_error(f"its branch does not begin with {settings.branch_prefix}")
    if not found.marker and NIGHT_LABEL not in found.labels:
        raise config_error("this merge request is not one of the night shift's")
    if found.state != "opened":
        raise config_error(f"this merge request is {found.state}")
    return replace(request, branch=found.source_branch, head=found.sha)
