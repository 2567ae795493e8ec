"""The stand-in's issues and threads: read, and answered."""

import re
from dataclasses import replace
from itertools import groupby
from typing import Any

from gitlab_nightshift.demo.standin_api import (
    WRITE,
    Endpoint,
    StandinApiError,
    StandinCall,
    build_page,
    check_filters,
    require_fields,
)
from gitlab_nightshift.demo.standin_json import Json, build_user_json
from gitlab_nightshift.demo.standin_state import (
    GUEST,
    REPORTER,
    StandinAnswer,
    StandinNote,
    State,
    User,
    build_timestamp,
)
from tests.support.standin_merge_requests import find
from tests.support.standin_records import (
    FullProject,
    Issue,
    StandinNoteable,
    build_issue_json,
    build_note_json,
    get_project,
)

LONGEST_DESCRIPTION = 1_048_576
"""Characters."""
_TASK = re.compile(r"^- \[([ xX])\] (.*?)\s*$", re.MULTILINE)


def add_issue(
    state: State,
    project: FullProject,
    author: User,
    title: str,
    description: str = "",
    *,
    confidential: bool = False,
) -> Issue:
    """A new issue of a project."""
    iid = len(project.issues) + 1
    address = f"{project.web_url}/-/issues/{iid}"
    number = state.allocate_id("issue")
    issue = Issue(number, iid, address, author, title, description, confidential)
    project.issues.append(issue)
    return issue


def add_comment(
    state: State,
    on: StandinNoteable,
    author: User,
    body: str,
    **more: Any,
) -> StandinNote:
    """A new comment, in a thread of its own; ``more`` as :class:`StandinNote` has it."""
    note = StandinNote(state.allocate_id("note"), body, author, build_timestamp(), **more)
    on.notes.append(note)
    return note


def _show_issue(call: StandinCall) -> StandinAnswer:
    return StandinAnswer(200, build_issue_json(_find_issue(call), call.project, call.state.url))


def _list_issues(call: StandinCall) -> StandinAnswer:
    """GET issues: newest first; confidential ones from Reporter up."""
    query = check_filters(call.request, "author_id", "state")
    level = call.token.access_level if call.token else 0
    found = [
        each
        for each in get_project(call).issues
        if (level >= REPORTER or not each.confidential)
        and query.get("author_id", str(each.author.id)) == str(each.author.id)
        and query.get("state", "all") in ("all", each.state)
    ]
    ordered = found if query.get("sort") == "asc" else found[::-1]
    return build_page(
        call, ordered, lambda each: build_issue_json(each, call.project, call.state.url)
    )


def _create_issue(call: StandinCall) -> StandinAnswer:
    body = require_fields(call.request.body, "title")
    made = add_issue(
        call.state,
        get_project(call),
        call.caller.user,
        body["title"],
        _check_description(body),
        confidential=bool(body.get("confidential")),
    )
    return StandinAnswer(201, build_issue_json(made, call.project, call.state.url))


def _check_description(body: Json) -> str:
    text = str(body.get("description") or "")
    if len(text) > LONGEST_DESCRIPTION:
        why = f"is too long (maximum is {LONGEST_DESCRIPTION} characters)"
        raise StandinApiError(400, {"message": {"description": [why]}})
    return text


def _edit_issue(call: StandinCall) -> StandinAnswer:
    """PUT issues/:iid: its author, and Reporters and up, may."""
    issue, body = _find_issue(call), call.request.body or {}
    if "description" in body:
        edit_description(call.state, issue, call.caller.user, _check_description(body))
    return StandinAnswer(200, build_issue_json(issue, call.project, call.state.url))


def edit_description(state: State, issue: Issue, author: User, text: str) -> None:
    """Replace it. As in GitLab, boxes at the same place whose text stays have a system note."""
    before, after = (_TASK.findall(each or "") for each in (issue.description, text))
    issue.description = text
    for (old_mark, old), (mark, item) in zip(before, after, strict=False):
        if old == item and old_mark.lower() != mark.lower():
            word = "incomplete" if mark == " " else "completed"
            body = f"marked the checklist item **{item}** as {word}"
            add_comment(state, issue, author, body, system=True)


def tick_box(state: State, issue: Issue, author: User, text: str) -> None:
    """Tick the box of this text, as a click does."""
    before = issue.description or ""
    edit_description(state, issue, author, before.replace(f"- [ ] {text}", f"- [x] {text}", 1))


def _list_notes(call: StandinCall) -> StandinAnswer:
    """GET issues/:iid/notes: newest first."""
    query, issue = check_filters(call.request), _find_issue(call)
    found = _list_visible_notes(call)
    ordered = found if query.get("sort") == "asc" else found[::-1]
    return build_page(call, ordered, lambda note: build_note_json(note, issue, call.state.url))


def _find_issue(call: StandinCall) -> Issue:
    """The issue of the path; a confidential one is none to those below Reporter."""
    level = call.token.access_level if call.token else 0
    for issue in get_project(call).issues:
        hidden = issue.confidential and level < REPORTER
        if str(issue.iid) == call.values["iid"] and not hidden:
            return issue
    raise StandinApiError(404, {"message": "404 Not found"})


def _find_noteable(call: StandinCall) -> StandinNoteable:
    if "/merge_requests/" in call.request.path:
        return find(call)
    return _find_issue(call)


def _list_visible_notes(call: StandinCall) -> list[StandinNote]:
    level = call.token.access_level if call.token else 0
    return [n for n in _find_noteable(call).notes if level >= REPORTER or not n.internal]


def _show_note(call: StandinCall) -> StandinAnswer:
    for note in _list_visible_notes(call):
        if str(note.id) == call.values["note"]:
            return StandinAnswer(200, build_note_json(note, _find_noteable(call), call.state.url))
    raise StandinApiError(404, {"message": "404 Not found"})


def _build_threads(call: StandinCall) -> list[Json]:
    """Threads by their first comment, each with its comments in order."""
    begun = {
        note.thread: number for number, note in reversed(list(enumerate(_list_visible_notes(call))))
    }
    ordered = sorted(_list_visible_notes(call), key=lambda note: begun[note.thread])
    on, url = _find_noteable(call), call.state.url
    rows = []
    for thread, group in groupby(ordered, key=lambda note: note.thread):
        notes = [build_note_json(note, on, url) for note in group]
        rows.append({"id": thread, "individual_note": len(notes) == 1, "notes": notes})
    return rows


def _list_threads(call: StandinCall) -> StandinAnswer:
    check_filters(call.request)
    return build_page(call, _build_threads(call), lambda thread: thread)


def _show_thread(call: StandinCall) -> StandinAnswer:
    for thread in _build_threads(call):
        if thread["id"] == call.values["thread"]:
            return StandinAnswer(200, thread)
    raise StandinApiError(404, {"message": "404 Discussion Not Found"})


def _answer_thread(call: StandinCall) -> StandinAnswer:
    """POST discussions/:id/notes: an answer to an internal comment is internal, too."""
    body = require_fields(call.request.body, "body")["body"]
    if not body.strip():
        raise StandinApiError(400, {"message": {"note": ["can't be blank"]}})
    thread = [note for note in _list_visible_notes(call) if note.thread == call.values["thread"]]
    if not thread:
        raise StandinApiError(404, {"message": "404 Discussion Not Found"})
    number, on = call.state.allocate_id("note"), _find_noteable(call)
    first = thread[0]
    made = replace(
        first, id=number, body=body, author=call.caller.user, created_at=build_timestamp()
    )
    on.notes.append(made)
    return StandinAnswer(201, build_note_json(made, on, call.state.url))


def _edit_note(call: StandinCall) -> StandinAnswer:
    """PUT notes/:id: an author's own comment."""
    body, on = require_fields(call.request.body, "body")["body"], _find_noteable(call)
    for number, note in enumerate(on.notes):
        if str(note.id) == call.values["note"]:
            if note.author != call.caller.user:
                raise StandinApiError(403, {"message": "403 Forbidden"})
            on.notes[number] = replace(note, body=body)
            return StandinAnswer(200, build_note_json(on.notes[number], on, call.state.url))
    raise StandinApiError(404, {"message": "404 Not found"})


def _show_user(call: StandinCall) -> StandinAnswer:
    for user in call.state.users:
        if str(user.id) == call.values["user"]:
            return StandinAnswer(200, {**build_user_json(user, call.state.url), "bot": user.bot})
    raise StandinApiError(404, {"message": "404 User Not Found"})


def _build_endpoints(where: str) -> tuple[Endpoint, ...]:
    one = f"projects/{{id}}/{where}/{{iid}}"
    return (
        Endpoint("GET", f"{one}/notes/{{note}}", _show_note, GUEST),
        Endpoint("PUT", f"{one}/notes/{{note}}", _edit_note, GUEST, WRITE),
        Endpoint("GET", f"{one}/discussions", _list_threads, GUEST),
        Endpoint("GET", f"{one}/discussions/{{thread}}", _show_thread, GUEST),
        Endpoint("POST", f"{one}/discussions/{{thread}}/notes", _answer_thread, GUEST, WRITE),
    )


ENDPOINTS = (
    Endpoint("GET", "users/{user}", _show_user, scopes=("api", "read_api", "read_user")),
    Endpoint("GET", "projects/{id}/issues", _list_issues, GUEST),
    Endpoint("POST", "projects/{id}/issues", _create_issue, GUEST, WRITE),
    Endpoint("GET", "projects/{id}/issues/{iid}", _show_issue, GUEST),
    Endpoint("PUT", "projects/{id}/issues/{iid}", _edit_issue, REPORTER, WRITE),
    Endpoint("GET", "projects/{id}/issues/{iid}/notes", _list_notes, GUEST),
    *_build_endpoints("issues"),
    *_build_endpoints("merge_requests"),
)
