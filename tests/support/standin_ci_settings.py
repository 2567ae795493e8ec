"""The stand-in's settings of pipelines and pushes: schedules, variables, push rules."""

from typing import Any

from gitlab_nightshift.demo.standin_api import (
    Endpoint,
    StandinApiError,
    StandinCall,
    build_page,
    check_filters,
)
from gitlab_nightshift.demo.standin_json import build_user_json
from gitlab_nightshift.demo.standin_state import DEVELOPER, MAINTAINER, StandinAnswer
from tests.support.standin_records import StandinSchedule, get_project

PROJECT = "projects/{id}"


def _list_schedules(call: StandinCall) -> StandinAnswer:
    check_filters(call.request)
    return build_page(call, get_project(call).schedules, lambda each: _build_json(call, each))


def _show_schedule(call: StandinCall) -> StandinAnswer:
    for each in get_project(call).schedules:
        if str(each.id) == call.values["schedule"]:
            shown = _build_json(call, each)
            if call.caller.access_level >= MAINTAINER or call.caller.user.id == each.owner.id:
                pairs = each.variables.items()
                kind = {"variable_type": "env_var"}
                shown["variables"] = [{**kind, "key": key, "value": value} for key, value in pairs]
            return StandinAnswer(200, shown)
    raise StandinApiError(404, {"message": "404 Pipeline Schedule Not Found"})


def _build_json(call: StandinCall, schedule: StandinSchedule) -> dict[str, Any]:
    state = "blocked" if schedule.owner.id in call.state.blocked else "active"
    return {
        "id": schedule.id,
        "description": schedule.description,
        "ref": schedule.ref,
        "cron": "0 2 * * 1-5",
        "cron_timezone": "UTC",
        "active": schedule.active,
        "inputs": [{"name": key, "value": value} for key, value in schedule.inputs.items()],
        "owner": {**build_user_json(schedule.owner, call.state.url), "state": state},
    }


def _list_variables(call: StandinCall) -> StandinAnswer:
    check_filters(call.request)
    return build_page(call, get_project(call).variables, lambda each: each)


def _show_push_rule(call: StandinCall) -> StandinAnswer:
    """Without a paid tier there is no such address."""
    if not call.state.paid_tier:
        raise StandinApiError(404, {"error": "404 Not Found"})
    return StandinAnswer(
        200, {"id": 1, "project_id": call.project.id, **get_project(call).push_rule}
    )


ENDPOINTS = (
    Endpoint("GET", f"{PROJECT}/pipeline_schedules", _list_schedules, DEVELOPER),
    Endpoint("GET", f"{PROJECT}/pipeline_schedules/{{schedule}}", _show_schedule, DEVELOPER),
    Endpoint("GET", f"{PROJECT}/variables", _list_variables, MAINTAINER),
    Endpoint("GET", f"{PROJECT}/push_rule", _show_push_rule, MAINTAINER),
)
