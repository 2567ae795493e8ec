"""The stand-in's endpoints that only tests ask: version, labels, commits, files, jobs."""

from typing import Any

from gitlab_nightshift.demo.standin_api import (
    Endpoint,
    StandinApiError,
    StandinCall,
    build_not_found,
    build_page,
    check_filters,
    require_fields,
)
from gitlab_nightshift.demo.standin_endpoints import PROJECT, REPOSITORY, build_commit_json
from gitlab_nightshift.demo.standin_json import (
    build_branch_json,
    build_label_json,
    build_protected_branch_json,
)
from gitlab_nightshift.demo.standin_repository import (
    find_merge_base,
    read_commits,
    read_diffs,
    read_heads,
    resolve,
)
from gitlab_nightshift.demo.standin_state import (
    DEVELOPER,
    GUEST,
    REPORTER,
    StandinAnswer,
    StandinProject,
)
from tests.support.standin_records import build_job_json, get_project
from tests.support.standin_repositories import read_blob

VERSION = {"version": "18.6.0", "revision": "standin", "enterprise": False}


def _show_version(_call: StandinCall) -> StandinAnswer:
    return StandinAnswer(200, VERSION)


def _list_labels(call: StandinCall) -> StandinAnswer:
    search = check_filters(call.request, "search").get("search", "").lower()
    found = [label for label in call.project.labels if search in label.name.lower()]
    return build_page(call, sorted(found, key=lambda label: label.name), build_label_json)


def _show_label(call: StandinCall) -> StandinAnswer:
    for label in call.project.labels:
        if call.values["label"] in (label.name, str(label.id)):
            return StandinAnswer(200, build_label_json(label))
    raise build_not_found("Label")


def _show_protected_branch(call: StandinCall) -> StandinAnswer:
    name = call.values["name"]
    if name not in call.project.protected_branches:
        raise StandinApiError(404, {"message": "404 Not found"})
    return StandinAnswer(
        200, build_protected_branch_json(name, call.project.protected_branches.index(name) + 1)
    )


def _list_branches(call: StandinCall) -> StandinAnswer:
    project = call.project
    heads = sorted(read_heads(project.bare_repository).items())
    level = call.caller.access_level

    def build_json(head: tuple[str, str]) -> dict[str, Any]:
        commit = build_commit_json(project, head[1])
        return build_branch_json(project, head[0], commit, level)

    return build_page(call, heads, build_json)


def _show_commit(call: StandinCall) -> StandinAnswer:
    return StandinAnswer(
        200, build_commit_json(call.project, _resolve_ref(call.project, call.values["sha"]))
    )


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
    found = [job for job in get_project(call).jobs if str(job.pipeline) == call.values["pipeline"]]
    if query.get("include_retried") != "true":
        newest = {job.name: job for job in sorted(found, key=lambda job: job.id)}
        found = [job for job in found if job is newest[job.name]]
    return build_page(call, found, lambda job: build_job_json(job, call.state.url))


def _show_job(call: StandinCall) -> StandinAnswer:
    for job in get_project(call).jobs:
        if str(job.id) == call.values["job"]:
            return StandinAnswer(200, build_job_json(job, call.state.url))
    raise StandinApiError(404, {"message": "404 Not found"})


def _send_artifact(call: StandinCall) -> StandinAnswer:
    """A file out of a job's artifacts; a link is shown as what the archive holds, its target."""
    for job in get_project(call).jobs:
        path = job.artifacts / call.values["path"]
        if str(job.id) == call.values["job"] and ".." not in path.parts:
            if path.is_symlink():
                return StandinAnswer(200, str(path.readlink()).encode())
            if path.is_file():
                return StandinAnswer(200, path.read_bytes())
    raise StandinApiError(404, {"message": "404 Not found"})


def _send_file(call: StandinCall) -> StandinAnswer:
    project, ref = call.project, call.request.query.get("ref", "HEAD")
    data = read_blob(project.git, project.bare_repository, ref, call.values["path"])
    if data is None:
        raise build_not_found("File")
    return StandinAnswer(200, data)


ENDPOINTS = (
    Endpoint("GET", "version", _show_version, scopes=("api", "read_api", "read_user")),
    Endpoint("GET", f"{PROJECT}/labels", _list_labels, GUEST),
    Endpoint("GET", f"{PROJECT}/labels/{{label}}", _show_label, GUEST),
    Endpoint("GET", f"{PROJECT}/protected_branches/{{name}}", _show_protected_branch, REPORTER),
    Endpoint("GET", f"{REPOSITORY}/branches", _list_branches, REPORTER, job_token=True),
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
    Endpoint("GET", f"{REPOSITORY}/files/{{path}}/raw", _send_file, REPORTER),
)
