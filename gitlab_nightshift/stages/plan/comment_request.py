"""A comment that asks for a task: parses the webhook that reports it and the command in it, reads
it from GitLab with its context, and decides whether to accept the request.

Anyone who knows the trigger's URL can send any body, so only ids are taken from a webhook;
everything else is read from GitLab.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.gitlab.accounts import DEVELOPER
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.resources import NIGHT_LABEL, MergeRequest
from gitlab_nightshift.gitlab.threads import Comment, Noteable, Thread, read_reply_marker
from gitlab_nightshift.records.request import (
    CommentAddress,
    DiffSpot,
    NoteableKind,
    TaskCommand,
    TaskRequest,
    parse_task_command,
)
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.setting_groups import TestCommand
from gitlab_nightshift.stages.plan.quotes import (
    drop_hidden_comments,
    format_job,
    format_thread,
    quote_texts,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

COMMAND = "/nightshift"
LONGEST_TASK = 8_000
"""Characters."""
_NOTEABLES: Mapping[str, tuple[NoteableKind, str]] = {
    "Issue": ("issues", "issue"),
    "MergeRequest": ("merge_requests", "merge_request"),
}
_ISSUE_KINDS = ("issue", "work_item")
"""Some versions of GitLab send the second name for an issue that was edited as a work item."""
# GitLab's ids are signed 64-bit integers (PostgreSQL's bigint).
_ID_LIMIT = 2**63
# Not within a word or a URL, such as https://example.com/nightshift.
_COMMAND_WORD = compile_lazily(rf"(?:^|(?<=\s)){COMMAND}(?=\s|$)")
# Fenced code blocks, block quotes and code spans (spec.commonmark.org, 4.5, 5.1, 6.1).
_QUOTED = compile_lazily(
    r"(?ms)^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)|^ {0,3}>[^\n]*|(?<!`)(`+)(?!`)[^`\n]+\2(?!`)"
)
_MODEL = compile_lazily(r"[A-Za-z0-9][\w.:/@\[\]-]{0,199}", re.ASCII)
# Editors and phones turn "--" into an en or em dash, so the flag would be read as text.
_LONG_DASH = compile_lazily(r"(?:^|\s)[\u2013\u2014]+(?:provider|model|dry-run|test)(?:\s|=|$)")


@dataclass(frozen=True)
class IgnoredTrigger:
    """A trigger without anything to do; only the log says why."""

    why: str


@dataclass(frozen=True)
class DeclinedRequest:
    """A request that is declined with a reply."""

    why: str
    place: CommentAddress


@dataclass(frozen=True)
class EditedIssue:
    """An issue whose description was edited: perhaps somebody ticked a box on the dashboard."""

    iid: int


def read_webhook(
    body: bytes, project_id: str
) -> CommentAddress | EditedIssue | IgnoredTrigger | None:
    """The address of the comment that a webhook reports, or the edited issue.

    None for a body that is not from a webhook: anybody may call a trigger's URL with any body.
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return IgnoredTrigger("the body of the trigger is not JSON")
    if not isinstance(data, dict):
        return IgnoredTrigger("the body of the trigger is not a JSON object")
    if not {"object_kind", "event_name", "event_type"} & set(data):
        return None
    if data.get("object_kind") in _ISSUE_KINDS:
        return _parse_edit(data, project_id)
    if data.get("object_kind") != "note":
        return IgnoredTrigger("the webhook's event is not a comment")
    return _parse_comment(data, project_id)


def _parse_comment(data: Mapping[str, Any], project_id: str) -> CommentAddress | IgnoredTrigger:
    note = _read_object(data, "object_attributes")
    noteable = note.get("noteable_type")
    if not isinstance(noteable, str) or noteable not in _NOTEABLES:
        return IgnoredTrigger("the comment is not on an issue or merge request")
    if str(_read_number(data, "project_id")) != project_id:
        return IgnoredTrigger("the comment is on another project")
    where, key = _NOTEABLES[noteable]
    iid, note_id = _read_number(_read_object(data, key), "iid"), _read_number(note, "id")
    if iid is None or note_id is None:
        return IgnoredTrigger("the webhook does not name a comment")
    thread = note.get("discussion_id")
    is_id = isinstance(thread, str) and re.fullmatch(r"[0-9a-f]{8,64}", thread)
    return CommentAddress(where, iid, note_id, str(thread) if is_id else "")


def _parse_edit(data: Mapping[str, Any], project_id: str) -> EditedIssue | IgnoredTrigger:
    iid = _read_number(_read_object(data, "object_attributes"), "iid")
    if iid is None or str(_read_number(_read_object(data, "project"), "id")) != project_id:
        return IgnoredTrigger("the issue is on another project")
    if "description" not in _read_object(data, "changes"):
        return IgnoredTrigger("the text of the issue was not edited")
    return EditedIssue(iid)


def _read_object(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def _read_number(data: Mapping[str, Any], name: str) -> int | None:
    value = data.get(name)
    # Not isinstance: in Python, True is an int.
    return value if type(value) is int and 0 < value < _ID_LIMIT else None


# --- the comment's text -----------------------------------------------------------------------


def is_command(text: str) -> bool:
    """True if a comment is addressed to this program."""
    return _find_command(text) is not None


def _find_command(text: str) -> re.Match[str] | None:
    """The first ``/nightshift`` outside code and quotes."""
    # Quotes are replaced by as many characters, so that positions in the text stay the same.
    return _COMMAND_WORD.search(_QUOTED.sub(lambda match: "`" * len(match[0]), text))


def parse_command(text: str) -> TaskCommand:
    """The task in a comment with ``/nightshift``: the words after it, or else those before it.

    Raises ``E_CONFIG`` for an invalid command.
    """
    match = _find_command(text)
    before, after = (text[: match.start()], text[match.end() :]) if match else (text, "")
    words = after.strip() or before.strip()
    if len(words) > LONGEST_TASK:
        raise build_config_error(f"the task has more than {LONGEST_TASK} characters")
    if _LONG_DASH.search(words.partition("\n")[0]):
        raise build_config_error("a flag begins with two hyphens (--), not with a dash")
    command = parse_task_command(words)
    if command.model and not _MODEL.fullmatch(command.model):
        raise build_config_error("--model: expected the id of a model")
    return command


def build_test_command(command: TaskCommand, allowed: Mapping[str, TestCommand]) -> str:
    """The command that ``--test`` names, "" without ``--test``. Raises ``E_CONFIG`` for an id or an
    argument that is not in ``allowed`` (``policy.test_commands``)."""
    if not command.test_id:
        return ""
    if command.test_id not in allowed:
        ids = ", ".join(sorted(allowed)) or "none; list them in policy.test_commands"
        raise build_config_error(f"--test {command.test_id}: no such test; known are: {ids}")
    test = allowed[command.test_id]
    for argument in command.test_args:
        if argument not in test.args:
            arguments = ", ".join(test.args) or "none"
            raise build_config_error(
                f"--test {command.test_id}: the argument {argument} is not on its list (allowed: "
                f"{arguments}); write --test and its arguments last, or -- behind them"
            )
    return shlex.join([*test.command, *command.test_args])


# --- the comment in GitLab ------------------------------------------------------------------------


Redact = Callable[[str], str]
_NOT_FOUND = IgnoredTrigger("GitLab has no such comment, or the token may not see it")
_MOST_OPEN_THREADS = 5
_TitledTexts = list[tuple[str, str]]
"""Pairs of title and text, the most important one first."""


def read_request(
    place: CommentAddress, project: Project, settings: Settings, run_id: str, redact: Redact
) -> TaskRequest | DeclinedRequest | IgnoredTrigger:
    """Decide what to do about the comment at ``place``.

    ``redact`` is applied to the request's context, which goes into a prompt. Raises ApiError.
    """
    # The cheapest check first: most comments are not meant for this program.
    comment = _read_command_comment(place, project)
    if isinstance(comment, IgnoredTrigger):
        return comment
    threads = project.threads
    noteable, thread = threads.find_noteable(place), threads.find_thread(place)
    if noteable is None or thread is None:
        return _NOT_FOUND
    # Its text would go to a model, and from there into a merge request that more people see.
    if (noteable.confidential or comment.internal) and not settings.policy.confidential_issues:
        return IgnoredTrigger("it is confidential, and policy.confidential_issues is false")
    if run := _find_handling_run(thread, place, project.threads.read_own_id(), run_id):
        return IgnoredTrigger(f"the comment has already been handled, by pipeline {run}")
    request = _authorize_request(
        comment, noteable, replace(place, thread=thread.id), project, settings
    )
    if not isinstance(request, TaskRequest):
        return request
    request = replace(request, spot=_find_spot(request, thread, project))
    texts = _collect_context(request, comment, thread, noteable, project, settings)
    return replace(request, context=quote_texts([(title, redact(text)) for title, text in texts]))


def find_other_run(request: TaskRequest, project: Project, run_id: str) -> str:
    """The id of another run that has taken up the comment since it was read; "" if none has, or if
    no comment asked for the run."""
    thread = project.threads.find_thread(request.place) if request.place.note else None
    if thread is None:
        return ""
    return _find_handling_run(thread, request.place, project.threads.read_own_id(), run_id)


def _read_command_comment(place: CommentAddress, project: Project) -> Comment | IgnoredTrigger:
    comment = project.threads.find_comment(place)
    if comment is None:
        return _NOT_FOUND
    if comment.system or not is_command(comment.body):
        return IgnoredTrigger("there is no /nightshift in the comment")
    is_own = comment.author_id == project.threads.read_own_id()
    if is_own or project.threads.is_bot(comment.author_id):
        return IgnoredTrigger("the comment is a bot's")
    return comment


def _find_handling_run(thread: Thread, place: CommentAddress, own_id: int, run_id: str) -> str:
    """The id of the run that took up the comment, by the markers in this program's own replies; ""
    if none has. An earlier try of this run counts only if it is done."""
    for comment in thread.comments:
        marker = read_reply_marker(comment.body) if comment.author_id == own_id else None
        if marker is None or marker.note_id != place.note or marker.status == "declined":
            continue
        if marker.status == "done" or marker.run_id != run_id:
            return marker.run_id
    return ""


def _authorize_request(
    comment: Comment,
    noteable: Noteable,
    place: CommentAddress,
    project: Project,
    settings: Settings,
) -> TaskRequest | DeclinedRequest | IgnoredTrigger:
    """The request, if its author may make it. A member below Developer, or an invalid command, is
    declined with a reply; people outside the project get no reply."""
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
    """The request with the branch to work on. Raises ``E_CONFIG`` unless the merge request is open,
    and this program's own or allowed by ``policy.on_peoples_mrs``."""
    merge_request = project.merge_requests.find(request.place.iid)
    if merge_request is None:
        raise build_config_error("its branch is in another project")
    foreign, allowed = _explain_foreign(merge_request, settings), settings.policy.on_peoples_mrs
    if foreign and not allowed:
        raise build_config_error(foreign)
    if merge_request.state != "opened":
        raise build_config_error(f"this merge request is {merge_request.state}")
    return replace(
        request,
        branch=merge_request.source_branch,
        head=merge_request.sha,
        failed_pipeline=project.reviews.read_state(merge_request.iid).failed_pipeline,
        suggest=bool(foreign) and allowed == "suggest",
    )


def _explain_foreign(merge_request: MergeRequest, settings: Settings) -> str:
    """Why a merge request is not this program's; "" if it is."""
    prefix = settings.branch_prefix
    if not merge_request.source_branch.startswith(prefix):
        return f"its branch does not begin with {prefix}, and policy.on_peoples_mrs is false"
    if not merge_request.marker and NIGHT_LABEL not in merge_request.labels:
        return "this merge request is not one of the night shift's"
    return ""


def _find_spot(request: TaskRequest, thread: Thread, project: Project) -> DiffSpot | None:
    """The line of the diff that the thread is on, with the first and last line that GitLab shows
    around it. None for a thread elsewhere or on an older diff, or if no suggestion is wanted."""
    line = thread.comments[0].last_line
    if not request.suggest or line is None or line.head != request.head:
        return None
    hunk_lines = project.reviews.find_hunk_lines(request.place.iid, line.path, line.line)
    return DiffSpot(line.path, line.line, *hunk_lines) if hunk_lines else None


def _collect_context(
    request: TaskRequest,
    comment: Comment,
    thread: Thread,
    noteable: Noteable,
    project: Project,
    settings: Settings,
) -> _TitledTexts:
    """The texts that the task is about. Raises ApiError.

    Internal comments are for members only: they are included only if ``policy.confidential_issues``
    allows it.
    """
    texts: _TitledTexts = []
    with_internal = settings.policy.confidential_issues
    if len(thread.comments) > 1 or comment.position:
        texts.append(format_thread(thread, 1, internal=with_internal))
    kind = "issue" if request.place.where == "issues" else "merge request"
    title = " ".join(noteable.title.split())
    text = drop_hidden_comments(f"{title}\n\n{noteable.description}")
    texts.append((f"{kind} {request.place.iid}", text))
    if request.branch:
        texts += _collect_merge_request(request, thread, project, with_internal=with_internal)
    return texts


def _collect_merge_request(
    request: TaskRequest, thread: Thread, project: Project, *, with_internal: bool
) -> Iterator[tuple[str, str]]:
    iid = request.place.iid
    pipeline = request.failed_pipeline
    for job in project.reviews.read_failed_jobs(pipeline) if pipeline else ():
        yield format_job(job)
    threads = project.threads.list_threads("merge_requests", iid) or ()
    other_threads = [each for each in threads if each.open and each.id != thread.id]
    for other in other_threads[:_MOST_OPEN_THREADS]:
        yield format_thread(other, internal=with_internal)
    if diff := project.reviews.read_diff(iid):
        yield f"the diff of merge request {iid}", diff
