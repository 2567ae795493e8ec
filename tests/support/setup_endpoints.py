"""What a Maintainer may change in a project of the stand-in, with GitLab's answers."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from gitlab_nightshift.demo.standin_state import DEVELOPER, MAINTAINER, NOBODY, StandinAnswer
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
    """What was made. ``makes_tokens`` is False where the tier has no project access tokens;
    ``held`` are the access tokens of a project as GitLab lists them, by its path, and ``values``
    those of its variables, by path and key."""

    makes_tokens: bool = True
    refuses_variables: bool = False
    tokens: list[dict[str, Any]] = field(default_factory=list)
    held: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    values: dict[tuple[str, str], str] = field(default_factory=dict)
    revoked: list[str] = field(default_factory=list)
    allowed: dict[str, list[int]] = field(default_factory=dict)
    secrets: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    allowed_groups: list[str] = field(default_factory=list)
    limits_job_tokens: bool = True

    def create_token(self, call: StandinCall) -> StandinAnswer:
        """The users of access tokens make none (project_bot_access in
        app/policies/project_policy.rb); people and service accounts do."""
        asked = require_fields(call.request.body, "name", "scopes", "expires_at")
        if not self.makes_tokens or call.caller.user.bot:
            why = "400 Bad request - User does not have permission to create project access token"
            raise StandinApiError(400, {"message": why})
        self.tokens.append(asked)
        number, state, path = len(self.tokens), call.state, call.project.path
        value = f"{MADE_TOKEN[:-4]}{number:04}"
        bot = state.add_user(f"project_{call.project.id}_bot_{number}", asked["name"], bot=True)
        role, ends = int(asked.get("access_level", MAINTAINER)), asked["expires_at"]
        state.add_token(value, bot, asked["scopes"], role, expires_at=ends)
        row = {"id": number, "name": asked["name"], "expires_at": ends, "value": value}
        self.held.setdefault(path, []).append(row | {"active": True, "revoked": False})
        return StandinAnswer(201, {"id": number, "token": value, "active": True})

    def list_tokens(self, call: StandinCall) -> StandinAnswer:
        def show(row: Mapping[str, Any]) -> dict[str, Any]:
            return {name: value for name, value in row.items() if name != "value"}

        return build_page(call, self.held.get(call.project.path, []), show)

    def revoke_token(self, call: StandinCall) -> StandinAnswer:
        rows = self.held.get(call.project.path, [])
        found = next((row for row in rows if str(row["id"]) == call.values["token"]), None)
        if found is None:
            raise StandinApiError(404, {"message": "404 Could not find project Access Token"})
        self.revoked.append(call.values["token"])
        found |= {"active": False, "revoked": True}
        tokens = call.state.tokens
        tokens[:] = [
            replace(each, ended="revoked") if each.value == found["value"] else each
            for each in tokens
        ]
        return StandinAnswer(204, b"")

    def create_variable(self, call: StandinCall) -> StandinAnswer:
        asked = require_fields(call.request.body, "key", "value")
        value = str(asked["value"])
        unmaskable = asked.get("masked") and (len(value) < SHORTEST_MASKED or "\n" in value)
        if self.refuses_variables or unmaskable:
            raise StandinApiError(400, {"message": {"value": ["is invalid"]}})
        found = get_project(call).variables
        scope = asked.get("environment_scope", "*")
        if any(is_variable(each, asked["key"], scope) for each in found):
            why = f"({asked['key']}) has already been taken"
            raise StandinApiError(400, {"message": {"key": [why]}})
        self.secrets[asked["key"]] = asked
        self.values[call.project.path, asked["key"]] = value
        shown = {name: value for name, value in asked.items() if name != "value"}
        found.append(shown)
        return StandinAnswer(201, shown)

    def update_variable(self, call: StandinCall) -> StandinAnswer:
        body, key = call.request.body, call.values["key"]
        scope = (body.get("filter") or {}).get("environment_scope")
        rows = get_project(call).variables
        found = [row for row in rows if is_variable(row, key, scope)]
        if len(found) != 1:
            raise build_variable_error(len(found))
        self.values[call.project.path, key] = str(body["value"])
        found[0]["description"] = body.get("description")
        return StandinAnswer(200, found[0])

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


def is_variable(row: Mapping[str, Any], key: str, scope: str | None) -> bool:
    """Whether a row is the variable of this key and scope; None for any scope."""
    return row["key"] == key and scope in (None, row.get("environment_scope", "*"))


def build_variable_error(count: int) -> StandinApiError:
    """For a variable that is not there, or is there more than once."""
    if not count:
        return StandinApiError(404, {"message": "404 Variable Not Found"})
    why = (
        "409 Conflict - There are multiple variables with provided parameters. Please use"
        " 'filter[environment_scope]'"
    )
    return StandinApiError(409, {"message": why})


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
        Endpoint("GET", token, made.list_tokens, MAINTAINER),
        Endpoint("DELETE", f"{token}/{{token}}", made.revoke_token, MAINTAINER, WRITE),
        Endpoint("PUT", f"{PROJECT}/variables/{{key}}", made.update_variable, MAINTAINER, WRITE),
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
