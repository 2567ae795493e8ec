"""GitLab's check of a pipeline's file for the stand-in: of what is included it knows nothing."""

from collections.abc import Iterator

import yaml

from gitlab_nightshift.demo.standin_api import (
    WRITE,
    Endpoint,
    StandinCall,
    build_not_found,
    check_filters,
    require_fields,
)
from gitlab_nightshift.demo.standin_repository import read_heads
from gitlab_nightshift.demo.standin_state import DEVELOPER, StandinAnswer
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.onboarding.pipeline_rules import list_jobs
from gitlab_nightshift.onboarding.project_files import parse_config
from tests.support.standin_repositories import read_blob

LINT = "projects/{id}/ci/lint"


def _check_file(call: StandinCall) -> StandinAnswer:
    check_filters(call.request)
    project = call.project
    if not read_heads(project.bare_repository):
        raise build_not_found("Repository")
    data = read_blob(project.git, project.bare_repository, project.default_branch, ".gitlab-ci.yml")
    return _check(data or b"")


def _check_text(call: StandinCall) -> StandinAnswer:
    return _check(str(require_fields(call.request.body, "content")["content"]).encode())


def _check(data: bytes) -> StandinAnswer:
    errors = list(_find_errors(data))
    merged = None if errors else _merge(data.decode())
    shown = {"valid": not errors, "errors": errors, "warnings": [], "merged_yaml": merged}
    return StandinAnswer(200, shown)


def _merge(text: str) -> str:
    config = parse_config(text, ".gitlab-ci.yml")
    return yaml.safe_dump({name: each for name, each in config.items() if name != "include"})


def _find_errors(data: bytes) -> Iterator[str]:
    if not data.strip():
        yield "Please provide content of .gitlab-ci.yml"
        return
    try:
        jobs = dict(list_jobs(parse_config(data.decode(), ".gitlab-ci.yml")))
    except NightshiftError:
        yield "Invalid configuration format"
        return
    for name, job in jobs.items():
        if not job.keys() & {"script", "run", "trigger", "extends"}:
            yield f"jobs:{name} config should implement the script:, run:, or trigger: keyword"


LINT_ENDPOINTS = (
    Endpoint("GET", LINT, _check_file, DEVELOPER),
    Endpoint("POST", LINT, _check_text, DEVELOPER, WRITE),
)
