"""The stand-in's issues and threads: read, and answered."""

from itertools import groupby

from gitlab_nightshift.demo import standin_merge_requests as merge_requests
from gitlab_nightshift.demo.standin_api import (
    WRITE,
    ApiError,
    Call,
    Endpoint,
    known_filters,
    one_page,
    required,
)
from gitlab_nightshift.demo.standin_comments import Commented, Issue, Note
from gitlab_nightshift.demo.standin_json import Json, issue_json, note_json, user_json
from gitlab_nightshift.demo.standin_state import (
    GUEST,
    REPORTER,
    Answer,
    Project,
    State,
    User,
    timestamp,
)


def add_issue(
    state: State,
    project: Project,
    author: User,
    title: str,
    description: str = "",
    *,
    confidential: bool = False,
) -> Issue:
    """A new issue of a project."""
    iid = len(project.issues) + 1
    address = f"{project.web_url}/-/issues/{iid}"
    number = state.next_id("issue")
    issue = Issue(number, iid, address, author, title, description, confidential)
    project.issues.append(issue)
    return issue


def comment(
    state: State,
    on: Commented,
    author: User,
    body: str,
    *,
    system: bool = False,
    internal: bool = False,
) -> Note:
    """A new comment, in a thread of its own."""
    note = Note(state.next_id("note"), body, author, timestamp(), system, internal)
    on.notes.append(note)
    return note


def _issue(call: Call) -> Answer:
    return Answer(200, issue_json(_found_issue(call), call.project, call.state.url))


def _found_issue(call: Call) -> Issue:
    """The issue of the path; a confidential one is none to those below Reporter."""
    level = call.token.access_level if call.token else 0
    for issue in call.project.issues:
        hidden = issue.confidential and level < REPORTER
        if str(issue.iid) == call.values["iid"] and not hidden:
            return issue
    raise ApiError(404, {"message": "404 Not found"})


def _commented(call: Call) -> Commented:
    if "/merge_requests/" in call.request.path:
        return merge_requests.find(call)
    return _found_issue(call)


def _notes(call: Call) -> list[Note]:
    level = call.token.access_level if call.token else 0
    return [n for n in _commented(call).notes if level >= REPORTER or not n.internal]


def _note(call: Call) -> Answer:
    for note in _notes(call):
        if str(note.id) == call.values["note"]:
            return Answer(200, note_json(note, _commented(call), call.state.url))
    raise ApiError(404, {"message": "404 Not found"})


def _threads(call: Call) -> list[Json]:
    """Threads by their first comment, each with its comments in order."""
    begun = {note.thread: number for number, note in reversed(list(enumerate(_notes(call))))}
    ordered = sorted(_notes(call), key=lambda note: begun[note.thread])
    on, url = _commented(call), call.state.url
    rows = []
    for thread, group in groupby(ordered, key=lambda note: note.thread):
        notes = [note_json(note, on, url) for note in group]
        rows.append({"id": thread, "individual_note": len(notes) == 1, "notes": notes})
    return rows


def _listed(call: Call) -> Answer:
    known_filters(call.request)
    return one_page(call, _threads(call), lambda thread: thread)


def _thread(call: Call) -> Answer:
    for thread in _threads(call):
        if thread["id"] == call.values["thread"]:
            return Answer(200, thread)
    raise ApiError(404, {"message": "404 Discussion Not Found"})


def _answered(call: Call) -> Answer:
    """POST discussions/:id/notes: an answer to an internal comment is internal, too."""
    body = required(call.request.body, "body")["body"]
    if not body.strip():
        raise ApiError(400, {"message": {"note": ["can't be blank"]}})
    thread = [note for note in _notes(call) if note.thread == call.values["thread"]]
    if not thread:
        raise ApiError(404, {"message": "404 Discussion Not Found"})
    number, on = call.state.next_id("note"), _commented(call)
    first = thread[0]
    made = Note(number, body, call.caller.user, timestamp(), False, first.internal, first.thread)
    on.notes.append(made)
    return Answer(201, note_json(made, on, call.state.url))


def _user(call: Call) -> Answer:
    for user in call.state.users:
        if str(user.id) == call.values["user"]:
            return Answer(200, {**user_json(user, call.state.url), "bot": user.bot})
    raise ApiError(404, {"message": "404 User Not Found"})


def _of(where: str) -> tuple[Endpoint, ...]:
    one = f"projects/{{id}}/{where}/{{iid}}"
    return (
        Endpoint("GET", f"{one}/notes/{{note}}", _note, GUEST),
        Endpoint("GET", f"{one}/discussions", _listed, GUEST),
        Endpoint("GET", f"{one}/discussions/{{thread}}", _thread, GUEST),
        Endpoint("POST", f"{one}/discussions/{{thread}}/notes", _answered, GUEST, WRITE),
    )


ENDPOINTS = (
    Endpoint("GET", "users/{user}", _user, scopes=("api", "read_api", "read_user")),
    Endpoint("GET", "projects/{id}/issues/{iid}", _issue, GUEST),
    *_of("issues"),
    *_of("merge_requests"),
)
