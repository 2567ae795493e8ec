"""What a Maintainer may change in a project of the stand-in, with GitLab's answers."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gitlab_nightshift.demo.standin_api import (
    WRITE,
    Endpoint,
    StandinApiError,
    StandinCall,
    build_page,
    require_fields,
)
from gitlab_nightshift.demo.standin_repository import read_commits
from gitlab_nightshift.demo.standin_requests import StandinAnswer
from gitlab_nightshift.demo.standin_state import DEVELOPER, MAINTAINER, NOBODY
from tests.support.standin import FullStandin
from tests.support.standin_records import StandinSchedule, get_project

MADE_TOKEN = "glpat-MadeByTheSetUp0001"
PROJECT = "projects/{id}"
SHORTEST_MASKED = 8
"""Characters of a value that GitLab masks (app/models/concerns/ci/maskable.rb)."""
MOST_SCHEDULES = 10
"""Of a project, unless an administrator says otherwise."""


@dataclass
class ProjectSettings:
    """What was made. ``makes_tokens`` is False where the tier has no project access tokens."""

    makes_tokens: bool = True
    refuses_variables: bool = False
    tokens: list[dict[str, Any]] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    allowed: dict[str, list[int]] = field(default_factory=dict)
    secrets: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    allowed_groups: list[str] = field(default_factory=list)
    limits_job_tokens: bool = True

    def create_token(self, call: StandinCall) -> StandinAnswer:
        asked = require_fields(call.request.body, "name", "scopes", "expires_at")
        if not self.makes_tokens:
            why = "400 Bad request - User does not have permission to create project access token"
            raise StandinApiError(400, {"message": why})
        self.tokens.append(asked)
        return StandinAnswer(201, {"id": len(self.tokens), "token": MADE_TOKEN, "active": True})

    def revoke_token(self, call: StandinCall) -> StandinAnswer:
        self.revoked.append(call.values["token"])
        return StandinAnswer(204, b"")

    def create_variable(self, call: StandinCall) -> StandinAnswer:
        asked = require_fields(call.request.body, "key", "value")
        value = str(asked["value"])
        unmaskable = asked.get("masked") and (len(value) < SHORTEST_MASKED or "\n" in value)
        if self.refuses_variables or unmaskable:
            raise StandinApiError(400, {"message": {"value": ["is invalid"]}})
        self.secrets[asked["key"]] = asked
        shown = {name: value for name, value in asked.items() if name != "value"}
        get_project(call).variables.append(shown)
        return StandinAnswer(201, shown)

    def list_allowed(self, call: StandinCall) -> StandinAnswer:
        rows = self.allowed.setdefault(call.project.path, [])
        return build_page(call, rows, lambda each: {"id": each})

    def show_scope(self, call: StandinCall) -> StandinAnswer:
        shown = {"inbound_enabled": self.limits_job_tokens, "outbound_enabled": False}
        return StandinAnswer(200, shown)

    def list_groups(self, call: StandinCall) -> StandinAnswer:
        url = f"{call.state.url}/groups"
        return build_page(call, self.allowed_groups, lambda path: {"web_url": f"{url}/{path}"})

    def allow(self, call: StandinCall) -> StandinAnswer:
        target = require_fields(call.request.body, "target_project_id")["target_project_id"]
        self.allowed.setdefault(call.project.path, []).append(target)
        made = {"source_project_id": call.project.id, "target_project_id": target}
        return StandinAnswer(201, made)


def add_setup(gitlab: FullStandin) -> ProjectSettings:
    """The endpoints, and what they were told."""
    made = ProjectSettings()
    token, scope = f"{PROJECT}/access_tokens", f"{PROJECT}/job_token_scope"
    allow = f"{scope}/allowlist"
    schedules = f"{PROJECT}/pipeline_schedules"
    one = f"{schedules}/{{schedule}}"
    commits = f"{PROJECT}/repository/commits"
    for endpoint in (
        Endpoint("POST", token, made.create_token, MAINTAINER, WRITE),
        Endpoint("DELETE", f"{token}/{{token}}", made.revoke_token, MAINTAINER, WRITE),
        Endpoint("POST", f"{PROJECT}/variables", made.create_variable, MAINTAINER, WRITE),
        Endpoint("GET", scope, made.show_scope, MAINTAINER),
        Endpoint("GET", allow, made.list_allowed, MAINTAINER),
        Endpoint("GET", f"{scope}/groups_allowlist", made.list_groups, MAINTAINER),
        Endpoint("POST", allow, made.allow, MAINTAINER, WRITE),
        Endpoint("POST", schedules, _create_schedule, DEVELOPER, WRITE),
        Endpoint("POST", f"{one}/variables", _set_variable, DEVELOPER, WRITE),
        Endpoint("DELETE", one, _delete_schedule, DEVELOPER, WRITE),
        Endpoint("PUT", one, _update_schedule, DEVELOPER, WRITE),
        Endpoint("POST", commits, _commit, DEVELOPER, WRITE),
    ):
        gitlab.more_endpoints.append(endpoint)
    return made


def _create_schedule(call: StandinCall) -> StandinAnswer:
    asked = require_fields(call.request.body, "description", "ref", "cron")
    found = get_project(call).schedules
    if len(found) >= MOST_SCHEDULES:
        why = f"Maximum number of pipeline schedules ({MOST_SCHEDULES}) exceeded"
        raise StandinApiError(400, {"message": {"base": [why]}})
    made = StandinSchedule(
        max((each.id for each in found), default=0) + 1,
        call.caller.user,
        asked["description"],
        asked["ref"],
        asked.get("active", True),
        {},
        {each["name"]: each["value"] for each in asked.get("inputs") or ()},
    )
    found.append(made)
    return StandinAnswer(201, {"id": made.id, **asked})


def _set_variable(call: StandinCall) -> StandinAnswer:
    """The right to set pipeline variables first, then that to the schedule."""
    if call.caller.access_level < call.project.variables_role:
        raise StandinApiError(403, {"message": "403 Forbidden"})
    asked = require_fields(call.request.body, "key", "value")
    found = _find_own_schedule(call)
    found.variables = {**found.variables, asked["key"]: asked["value"]}
    return StandinAnswer(201, asked)


def _update_schedule(call: StandinCall) -> StandinAnswer:
    found = _find_own_schedule(call)
    found.active = bool(call.request.body["active"])
    return StandinAnswer(200, {"id": found.id})


def _delete_schedule(call: StandinCall) -> StandinAnswer:
    get_project(call).schedules.remove(_find_own_schedule(call, MAINTAINER))
    return StandinAnswer(204, b"")


def _find_own_schedule(call: StandinCall, role: int = NOBODY) -> StandinSchedule:
    """That of the path: for its owner, and from this role on."""
    for each in get_project(call).schedules:
        if str(each.id) == call.values["schedule"]:
            if call.caller.user != each.owner and call.caller.access_level < role:
                raise StandinApiError(403, {"message": "403 Forbidden"})
            return each
    raise StandinApiError(404, {"message": "404 Pipeline Schedule Not Found"})


def _commit(call: StandinCall) -> StandinAnswer:
    """One commit on top of ``start_sha``; with ``force`` it is all that the branch has."""
    asked = require_fields(call.request.body, "branch", "commit_message", "start_sha", "actions")
    if call.project.is_protected(asked["branch"]) and call.caller.access_level < MAINTAINER:
        raise StandinApiError(400, {"message": "You are not allowed to push into this branch"})
    git, bare, user = call.project.git, call.project.bare_repository, call.caller.user.username
    with tempfile.TemporaryDirectory(dir=bare.parent) as folder:
        tree = Path(folder) / "tree"
        git.run("worktree", "add", "--quiet", "--detach", str(tree), asked["start_sha"], cwd=bare)
        for action in asked["actions"]:
            path = tree / action["file_path"]
            if path.exists() == (action["action"] == "create"):
                raise StandinApiError(400, {"message": "A file with this name already exists"})
            path.write_text(action["content"], newline="")
        git.run("add", "--all", cwd=tree)
        identity = ("-c", f"user.name={user}", "-c", f"user.email={user}@example.org")
        git.run(*identity, "commit", "--quiet", "-m", asked["commit_message"], cwd=tree)
        made = git.run("rev-parse", "HEAD", cwd=tree).decode().strip()
        git.run("worktree", "remove", "--force", str(tree), cwd=bare)
    git.run("update-ref", f"refs/heads/{asked['branch']}", made, cwd=bare)
    return StandinAnswer(201, read_commits(git, bare, "-1", made)[0])
