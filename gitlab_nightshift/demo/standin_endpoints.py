"""The stand-in's endpoints: accounts, projects, labels, branches and commits."""

from typing import Any

from gitlab_nightshift.demo import standin_merge_requests as merge_requests
from gitlab_nightshift.demo import standin_pipelines as pipelines
from gitlab_nightshift.demo import standin_threads as threads
from gitlab_nightshift.demo.standin_api import (
    WRITE,
    ApiError,
    Call,
    Endpoint,
    known_filters,
    not_found,
    one_page,
    required,
)
from gitlab_nightshift.demo.standin_json import (
    branch_json,
    job_json,
    label_json,
    own_user_json,
    project_json,
    protected_branch_json,
    token_json,
    user_json,
)
from gitlab_nightshift.demo.standin_repository import commits, diffs, heads, merge_base, resolve
from gitlab_nightshift.demo.standin_state import (
    DEVELOPER,
    GUEST,
    REPORTER,
    Answer,
    Label,
    Project,
)

VERSION = {"version": "18.6.0", "revision": "standin", "enterprise": False}


def _user(call: Call) -> Answer:
    return Answer(200, own_user_json(call.caller.user, call.state.url))


def _own_token(call: Call) -> Answer:
    return Answer(200, token_json(call.caller))


def _version(_call: Call) -> Answer:
    return Answer(200, VERSION)


def _users(call: Call) -> Answer:
    query = known_filters(call.request, "username", "search", "active")
    name, part = query.get("username", "").lower(), query.get("search", "").lower()
    found = [
        user
        for user in call.state.users
        if name in ("", user.username.lower()) and part in f"{user.username}\n{user.name}".lower()
    ]
    return one_page(call, found, lambda user: user_json(user, call.state.url))


def _project(call: Call) -> Answer:
    return Answer(200, project_json(call.project, call.token))


def _labels(call: Call) -> Answer:
    search = known_filters(call.request, "search").get("search", "").lower()
    found = [label for label in call.project.labels if search in label.name.lower()]
    return one_page(call, sorted(found, key=lambda label: label.name), label_json)


def _label(call: Call) -> Answer:
    for label in call.project.labels:
        if call.values["label"] in (label.name, str(label.id)):
            return Answer(200, label_json(label))
    raise not_found("Label")


def _create_label(call: Call) -> Answer:
    body, project = required(call.request.body, "name", "color"), call.project
    if any(label.name == body["name"] for label in project.labels):
        raise ApiError(409, {"message": "Label already exists"})
    number = call.state.next_id("label")
    label = Label(number, body["name"], body["color"], body.get("description"))
    project.labels.append(label)
    return Answer(201, label_json(label))


def _protected_branches(call: Call) -> Answer:
    search = known_filters(call.request, "search").get("search", "")
    found = [name for name in call.project.protected_branches if search in name]
    return one_page(call, found, lambda name: protected_branch_json(name, _rank(call, name)))


def _protected_branch(call: Call) -> Answer:
    name = call.values["name"]
    if name not in call.project.protected_branches:
        raise ApiError(404, {"message": "404 Not found"})
    return Answer(200, protected_branch_json(name, _rank(call, name)))


def _rank(call: Call, name: str) -> int:
    return call.project.protected_branches.index(name) + 1


def _branch(call: Call) -> Answer:
    project, name = call.project, call.values["name"]
    sha = heads(project.git, project.bare_repository).get(name)
    if sha is None:
        raise not_found("Branch")
    level = call.token.access_level if call.token else 0
    return Answer(200, branch_json(project, name, _commit_json(project, sha), level))


def _commit(call: Call) -> Answer:
    return Answer(200, _commit_json(call.project, _resolved(call.project, call.values["sha"])))


def _commit_json(project: Project, sha: str) -> dict[str, Any]:
    commit = commits(project.git, project.bare_repository, "-1", sha)[0]
    return {**commit, "web_url": f"{project.web_url}/-/commit/{sha}"}


def _resolved(project: Project, ref: str, what: str = "Commit") -> str:
    sha = resolve(project.git, project.bare_repository, ref)
    if sha is None:
        raise not_found(what)
    return sha


def _compare(call: Call) -> Answer:
    query, project = required(dict(call.request.query), "from", "to"), call.project
    old, new = (_resolved(project, query[end], "Ref") for end in ("from", "to"))
    git, bare = project.git, project.bare_repository
    found = commits(git, bare, f"{old}..{new}")
    start = old if query.get("straight") == "true" else merge_base(git, bare, old, new)
    body = {
        "commit": found[-1] if found else None,
        "commits": found,
        "diffs": diffs(git, bare, start, new),
        "compare_timeout": False,
        "compare_same_ref": query["from"] == query["to"],
        "web_url": f"{project.web_url}/-/compare/{old}...{new}",
    }
    return Answer(200, body)


def _pipeline_jobs(call: Call) -> Answer:
    known_filters(call.request)
    found = [job for job in call.project.jobs if str(job.pipeline) == call.values["pipeline"]]
    return one_page(call, found, lambda job: job_json(job, call.state.url))


def _job(call: Call) -> Answer:
    for job in call.project.jobs:
        if str(job.id) == call.values["job"]:
            return Answer(200, job_json(job, call.state.url))
    raise ApiError(404, {"message": "404 Not found"})


def _member(call: Call) -> Answer:
    for number, level in call.project.members.items():
        if str(number) == call.values["user"]:
            return Answer(200, {"id": number, "state": "active", "access_level": level})
    raise ApiError(404, {"message": "404 Not found"})


def _artifact(call: Call) -> Answer:
    """A file out of a job's artifacts; a link is shown as what the archive holds, its target."""
    for job in call.project.jobs:
        path = job.artifacts / call.values["path"]
        if str(job.id) == call.values["job"] and ".." not in path.parts:
            if path.is_symlink():
                return Answer(200, str(path.readlink()).encode())
            if path.is_file():
                return Answer(200, path.read_bytes())
    raise ApiError(404, {"message": "404 Not found"})


PROJECT = "projects/{id}"
MERGE_REQUESTS = f"{PROJECT}/merge_requests"
ONE = f"{MERGE_REQUESTS}/{{iid}}"
REPOSITORY = f"{PROJECT}/repository"

# Roles and job tokens: GitLab's permissions, from lib/api/*.rb and "CI/CD job token" in its manual.
# Protected branches are readable from Reporter up in new versions, older ones want a Maintainer.
ENDPOINTS = (
    Endpoint("GET", "user", _user, scopes=("api", "read_api", "read_user")),
    Endpoint("GET", "users", _users, scopes=("api", "read_api", "read_user")),
    Endpoint("GET", "version", _version, scopes=("api", "read_api", "read_user")),
    Endpoint("GET", "personal_access_tokens/self", _own_token, scopes=None),
    Endpoint("GET", PROJECT, _project, GUEST),
    Endpoint("GET", f"{PROJECT}/labels", _labels, GUEST),
    Endpoint("POST", f"{PROJECT}/labels", _create_label, REPORTER, WRITE),
    Endpoint("GET", f"{PROJECT}/labels/{{label}}", _label, GUEST),
    Endpoint("GET", f"{PROJECT}/protected_branches", _protected_branches, REPORTER),
    Endpoint("GET", f"{PROJECT}/protected_branches/{{name}}", _protected_branch, REPORTER),
    Endpoint("GET", f"{REPOSITORY}/branches/{{name}}", _branch, REPORTER, job_token=True),
    Endpoint("GET", f"{REPOSITORY}/commits/{{sha}}", _commit, REPORTER, job_token=True),
    Endpoint("GET", f"{REPOSITORY}/compare", _compare, REPORTER, job_token=True),
    Endpoint("GET", f"{PROJECT}/members/all/{{user}}", _member, GUEST),
    Endpoint("GET", f"{PROJECT}/pipelines/{{pipeline}}/jobs", _pipeline_jobs, REPORTER),
    Endpoint("GET", f"{PROJECT}/jobs/{{job}}", _job, REPORTER),
    Endpoint(
        "GET", f"{PROJECT}/jobs/{{job}}/artifacts/{{path*}}", _artifact, DEVELOPER, job_token=True
    ),
    Endpoint("GET", MERGE_REQUESTS, merge_requests.listed, REPORTER, job_token=True),
    Endpoint("POST", MERGE_REQUESTS, merge_requests.created, DEVELOPER, WRITE),
    Endpoint("GET", ONE, merge_requests.shown, REPORTER, job_token=True),
    Endpoint("PUT", ONE, merge_requests.updated, DEVELOPER, WRITE),
    Endpoint("GET", f"{ONE}/changes", merge_requests.changes, REPORTER),
    Endpoint("GET", f"{ONE}/diffs", merge_requests.diff_list, REPORTER),
    Endpoint("GET", f"{ONE}/notes", merge_requests.notes, REPORTER, job_token=True),
    Endpoint("POST", f"{ONE}/notes", merge_requests.add_note, REPORTER, WRITE),
    *threads.ENDPOINTS,
    *pipelines.ENDPOINTS,
)
