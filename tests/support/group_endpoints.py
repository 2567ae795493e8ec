"""The stand-in's variables of groups, and jobs that are cancelled."""

from dataclasses import dataclass, field, replace
from typing import Any

from gitlab_nightshift.demo.standin_api import (
    WRITE,
    Endpoint,
    StandinApiError,
    StandinCall,
    build_not_found,
    build_page,
    require_fields,
)
from gitlab_nightshift.demo.standin_state import DEVELOPER, StandinAnswer
from tests.support.setup_endpoints import build_variable_error, is_variable
from tests.support.standin import FullStandin
from tests.support.standin_records import build_job_json, get_project

OWNER = 50
FINISHED = {"success", "failed", "canceled", "skipped", "manual"}
VARIABLES = "groups/{group}/variables"


@dataclass
class GroupSettings:
    """Variables of groups as REST shows them: path → rows. ``closed`` are groups whose variables
    this token may not administer."""

    variables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)

    def find_rows(self, call: StandinCall) -> list[dict[str, Any]]:
        """Those of the path's group; Owners administer them (``admin_cicd_variables``)."""
        group = call.values["group"]
        if not any(each.path.startswith(f"{group}/") for each in call.state.projects):
            raise build_not_found("Group")
        if call.caller.access_level < OWNER or group in self.closed:
            raise StandinApiError(403, {"message": "403 Forbidden"})
        return self.variables.setdefault(group, [])

    def list(self, call: StandinCall) -> StandinAnswer:
        return build_page(call, self.find_rows(call), dict)

    def create(self, call: StandinCall) -> StandinAnswer:
        asked = require_fields(call.request.body, "key", "value")
        rows, made = self.find_rows(call), {"environment_scope": "*", **asked}
        if any(is_variable(each, made["key"], made["environment_scope"]) for each in rows):
            why = f"({made['key']}) has already been taken"
            raise StandinApiError(400, {"message": {"key": [why]}})
        rows.append(made)
        return StandinAnswer(201, made)

    def update(self, call: StandinCall) -> StandinAnswer:
        body = dict(call.request.body)
        row = self._find_row(call, body.pop("filter", {}).get("environment_scope"))
        row |= body
        return StandinAnswer(200, row)

    def delete(self, call: StandinCall) -> StandinAnswer:
        row = self._find_row(call, call.request.query.get("filter[environment_scope]"))
        self.find_rows(call).remove(row)
        return StandinAnswer(204, b"")

    def _find_row(self, call: StandinCall, scope: str | None) -> dict[str, Any]:
        found = [
            each for each in self.find_rows(call) if is_variable(each, call.values["key"], scope)
        ]
        if len(found) != 1:
            raise build_variable_error(len(found))
        return found[0]


def _cancel(call: StandinCall) -> StandinAnswer:
    """A job that has ended stays as it is (app/models/ci/build.rb), and is shown all the same."""
    jobs = get_project(call).jobs
    for number, job in enumerate(jobs):
        if str(job.id) == call.values["job"]:
            if job.status not in FINISHED:
                jobs[number] = replace(job, status="canceled")
            return StandinAnswer(201, build_job_json(jobs[number], call.state.url))
    raise StandinApiError(404, {"message": "404 Not found"})


def add_groups(gitlab: FullStandin) -> GroupSettings:
    """The endpoints, and what they were told."""
    made = GroupSettings()
    vars(gitlab)["group_variables"] = made.variables  # for GraphQL, too
    one = f"{VARIABLES}/{{key}}"
    gitlab.more_endpoints += (
        Endpoint("GET", VARIABLES, made.list),
        Endpoint("POST", VARIABLES, made.create, scopes=WRITE),
        Endpoint("PUT", one, made.update, scopes=WRITE),
        Endpoint("DELETE", one, made.delete, scopes=WRITE),
        Endpoint("POST", "projects/{id}/jobs/{job}/cancel", _cancel, DEVELOPER, WRITE),
    )
    return made
