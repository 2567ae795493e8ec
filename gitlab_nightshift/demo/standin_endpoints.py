"""The stand-in's endpoints: accounts, projects, labels, branches and commits."""

from typing import Any

from gitlab_nightshift.demo import standin_ci_settings as ci_settings
from gitlab_nightshift.demo import standin_merge_requests as merge_requests
from gitlab_nightshift.demo import standin_people as people
from gitlab_nightshift.demo import standin_pipelines as pipelines
from gitlab_nightshift.demo import standin_reviews as reviews
from gitlab_nightshift.demo import standin_threads as threads
from gitlab_nightshift.demo.standin_api import (
    WRITE,
    Endpoint,
    StandinApiError,
    StandinCall,
    build_not_found,
    build_page,
    check_filters,
    require_fields,
)
from gitlab_nightshift.demo.standin_json import (
    build_branch_json,
    build_job_json,
    build_label_json,
    build_own_user_json,
    build_project_json,
    build_protected_branch_json,
    build_token_json,
)
from gitlab_nightshift.demo.standin_repository import (
    find_merge_base,
    read_commits,
    read_diffs,
    read_heads,
    resolve,
)
from gitlab_nightshift.demo.standin_requests import StandinAnswer
from gitlab_nightshift.demo.standin_state import (
    DEVELOPER,
    GUEST,
    REPORTER,
    StandinLabel,
    StandinProject,
)

VERSION = {"version": "18.6.0", "revision": "standin", "enterprise": False}


def _show_user(call: StandinCall) -> StandinAnswer:
    return StandinAnswer(200, build_own_user_json(call.caller.user, call.state.url))


def _show_own_token(call: StandinCall) -> StandinAnswer:
    return StandinAnswer(200, build_token_json(call.caller))


def _show_version(_call: StandinCall) -> StandinAnswer:
    return StandinAnswer(200, VERSION)


def _show_project(call: StandinCall) -> StandinAnswer:
    return StandinAnswer(200, build_project_json(call.project, call.token))


def _list_labels(call: StandinCall) -> StandinAnswer:
    search = check_filters(call.request, "search").get("search", "").lower()
    found = [label for label in call.project.labels if search in label.name.lower()]
    return build_page(call, sorted(found, key=lambda label: label.name), build_label_json)


def _show_label(call: StandinCall) -> StandinAnswer:
    for label in call.project.labels:
        if call.values["label"] in (label.name, str(label.id)):
            return StandinAnswer(200, build_label_json(label))
    raise build_not_found("Label")


def _create_label(call: StandinCall) -> StandinAnswer:
    body, project = require_fields(call.request.body, "name", "color"), call.project
    if any(label.name == body["name"] for label in project.labels):
        raise StandinApiError(409, {"message": "Label already exists"})
    number = call.state.allocate_id("label")
    label = StandinLabel(number, body["name"], body["color"], body.get("description"))
    project.labels.append(label)
    return StandinAnswer(201, build_label_json(label))


def _list_protected_branches(call: StandinCall) -> StandinAnswer:
    search = check_filters(call.request, "search").get("search", "")
    found = [name for name in call.project.protected_branches if search in name]
    return build_page(
        call, found, lambda name: build_protected_branch_json(name, _compute_rank(call, name))
    )


def _show_protected_branch(call: StandinCall) -> StandinAnswer:
    name = call.values["name"]
    if name not in call.project.protected_branches:
        raise StandinApiError(404, {"message": "404 Not found"})
    return StandinAnswer(200, build_protected_branch_json(name, _compute_rank(call, name)))


def _compute_rank(call: StandinCall, name: str) -> int:
    return call.project.protected_branches.index(name) + 1


def _show_branch(call: StandinCall) -> StandinAnswer:
    project, name = call.project, call.values["name"]
    sha = read_heads(project.bare_repository).get(name)
    if sha is None:
        raise build_not_found("Branch")
    level = call.token.access_level if call.token else 0
    return StandinAnswer(
        200, build_branch_json(project, name, _build_commit_json(project, sha), level)
    )


def _show_commit(call: StandinCall) -> StandinAnswer:
    return StandinAnswer(
        200, _build_commit_json(call.project, _resolve_ref(call.project, call.values["sha"]))
    )


def _build_commit_json(project: StandinProject, sha: str) -> dict[str, Any]:
    commit = read_commits(project.git, project.bare_repository, "-1", sha)[0]
    return {**commit, "web_url": f"{project.web_url}/-/commit/{sha}"}


def _resolve_ref(project: StandinProject, ref: str, what: str = "Commit") -> str:
    sha = resolve(project.git, project.bare_repository, ref)
    if sha is None:
        raise build_not_found(what)
    return sha


def _compare(call: StandinCall) -> StandinAnswer:
    query, project = require_fields(dict(call.request.query), "from", "to"), call.project
    old, new = (_resolve_ref(project, query[end], "Ref") for end in ("from", "to"))
    git, bare = project.git, project.bare_repository
    found = read_commits(git, bare, f"{old}..{new}")
    start = old if query.get("straight") == "true" else find_merge_base(git, bare, old, new)
    body = {
        "commit": found[-1] if found else None,
        "commits": found,
        "diffs": read_diffs(git, bare, start, new),
        "compare_timeout": False,
        "compare_same_ref": query["from"] == query["to"],
        "web_url": f"{project.web_url}/-/compare/{old}...{new}",
    }
    return StandinAnswer(200, body)


def _list_pipeline_jobs(call: StandinCall) -> StandinAnswer:
    query = check_filters(call.request, "include_retried")
    found = [job for job in call.project.jobs if str(job.pipeline) == call.values["pipeline"]]
    if query.get("include_retried") != "true":
        newest = {job.name: job for job in sorted(found, key=lambda job: job.id)}
        found = [job for job in found if job is newest[job.name]]
    return build_page(call, found, lambda job: build_job_json(job, call.state.url))


def _show_job(call: StandinCall) -> StandinAnswer:
    for job in call.project.jobs:
        if str(job.id) == call.values["job"]:
            return StandinAnswer(200, build_job_json(job, call.state.url))
    raise StandinApiError(404, {"message": "404 Not found"})


def _send_artifact(call: StandinCall) -> StandinAnswer:
    """A file out of a job's artifacts; a link is shown as what the archive holds, its target."""
    for job in call.project.jobs:
        path = job.artifacts / call.values["path"]
        if str(job.id) == call.values["job"] and ".." not in path.parts:
            if path.is_symlink():
                return StandinAnswer(200, str(path.readlink()).encode())
            if path.is_file():
                return StandinAnswer(200, path.read_bytes())
    raise StandinApiError(404, {"message": "404 Not found"})


PROJECT = "projects/{id}"
MERGE_REQUESTS = f"{PROJECT}/merge_requests"
ONE = f"{MERGE_REQUESTS}/{{iid}}"
REPOSITORY = f"{PROJECT}/repository"

# Roles and job tokens: GitLab's permissions, from lib/api/*.rb and "CI/CD job token" in its manual.
# Protected branches are readable from Reporter up in new versions, older ones want a Maintainer.
ENDPOINTS = (
    Endpoint("GET", "user", _show_user, scopes=("api", "read_api", "read_user")),
    Endpoint("GET", "version", _show_version, scopes=("api", "read_api", "read_user")),
    Endpoint("GET", "personal_access_tokens/self", _show_own_token, scopes=None),
    Endpoint("GET", PROJECT, _show_project, GUEST),
    Endpoint("GET", f"{PROJECT}/labels", _list_labels, GUEST),
    Endpoint("POST", f"{PROJECT}/labels", _create_label, REPORTER, WRITE),
    Endpoint("GET", f"{PROJECT}/labels/{{label}}", _show_label, GUEST),
    Endpoint("GET", f"{PROJECT}/protected_branches", _list_protected_branches, REPORTER),
    Endpoint("GET", f"{PROJECT}/protected_branches/{{name}}", _show_protected_branch, REPORTER),
    Endpoint("GET", f"{REPOSITORY}/branches/{{name}}", _show_branch, REPORTER, job_token=True),
    Endpoint("GET", f"{REPOSITORY}/commits/{{sha}}", _show_commit, REPORTER, job_token=True),
    Endpoint("GET", f"{REPOSITORY}/compare", _compare, REPORTER, job_token=True),
    Endpoint("GET", f"{PROJECT}/pipelines/{{pipeline}}/jobs", _list_pipeline_jobs, REPORTER),
    Endpoint("GET", f"{PROJECT}/jobs/{{job}}", _show_job, REPORTER),
    Endpoint(
        "GET",
        f"{PROJECT}/jobs/{{job}}/artifacts/{{path*}}",
        _send_artifact,
        DEVELOPER,
        job_token=True,
    ),
    Endpoint("GET", MERGE_REQUESTS, merge_requests.list_merge_requests, REPORTER, job_token=True),
    Endpoint("POST", MERGE_REQUESTS, merge_requests.create_merge_request, DEVELOPER, WRITE),
    Endpoint("GET", ONE, merge_requests.show_merge_request, REPORTER, job_token=True),
    Endpoint("PUT", ONE, merge_requests.update_merge_request, DEVELOPER, WRITE),
    Endpoint("GET", f"{ONE}/changes", merge_requests.show_changes, REPORTER),
    Endpoint("GET", f"{ONE}/diffs", merge_requests.list_diffs, REPORTER),
    Endpoint("GET", f"{ONE}/notes", merge_requests.list_notes, REPORTER, job_token=True),
    Endpoint("POST", f"{ONE}/notes", merge_requests.add_note, REPORTER, WRITE),
    *people.ENDPOINTS,
    *threads.ENDPOINTS,
    *pipelines.ENDPOINTS,
    *reviews.ENDPOINTS,
    *ci_settings.ENDPOINTS,
)
