"""The stand-in's members of groups and projects, and who has to approve."""

from collections.abc import Mapping
from typing import Any

from gitlab_nightshift.demo.standin_api import (
    Endpoint,
    StandinApiError,
    StandinCall,
    build_not_found,
    build_page,
    check_filters,
)
from gitlab_nightshift.demo.standin_endpoints import build_account_json
from gitlab_nightshift.demo.standin_json import build_project_json
from gitlab_nightshift.demo.standin_state import DEVELOPER, GUEST, StandinAnswer
from tests.support.standin_records import get_groups, get_project

PROJECT = "projects/{id}"


def _list_project_members(call: StandinCall) -> StandinAnswer:
    return _build_member_page(call, get_project(call).members)


def _list_group_members(call: StandinCall) -> StandinAnswer:
    if (members := get_groups(call).get(call.values["group"])) is None:
        raise build_not_found("Group")
    return _build_member_page(call, members)


def _build_member_page(call: StandinCall, members: Mapping[int, int]) -> StandinAnswer:
    wanted = check_filters(call.request, "user_ids").get("user_ids")
    found = [
        _build_member_json(call, number, level)
        for number, level in members.items()
        if wanted is None or str(number) in wanted.split(",")
    ]
    return build_page(call, found, lambda member: member)


def _build_member_json(call: StandinCall, number: int, level: int) -> dict[str, Any]:
    known = next((user for user in call.state.users if user.id == number), None)
    account = build_account_json(call, known) if known else {"id": number, "state": "active"}
    return {**account, "access_level": level, "expires_at": None, "membership_state": "active"}


def _list_group_projects(call: StandinCall) -> StandinAnswer:
    check_filters(call.request, "include_subgroups", "archived")
    head = f"{call.values['group']}/"
    found = [each for each in call.state.projects if each.path.startswith(head)]
    if not found:
        raise build_not_found("Group")
    return build_page(call, found, lambda each: build_project_json(each, call.token))


def _show_member(call: StandinCall) -> StandinAnswer:
    for number, level in get_project(call).members.items():
        if str(number) == call.values["user"]:
            return StandinAnswer(200, _build_member_json(call, number, level))
    raise StandinApiError(404, {"message": "404 Not found"})


def _list_approval_rules(call: StandinCall) -> StandinAnswer:
    """Without a paid tier there is no such address."""
    if not call.state.paid_tier:
        raise StandinApiError(404, {"error": "404 Not Found"})
    users = {user.username: user for user in call.state.users}

    def build_json(row: Mapping[str, Any]) -> dict[str, Any]:
        people = [build_account_json(call, users[name]) for name in row["eligible_approvers"]]
        return {
            "rule_type": "regular",
            "protected_branches": [],
            **row,
            "eligible_approvers": people,
        }

    return build_page(call, get_project(call).approval_rules, build_json)


ENDPOINTS = (
    Endpoint("GET", "groups/{group}/members/all", _list_group_members),
    Endpoint("GET", "groups/{group}/projects", _list_group_projects),
    Endpoint("GET", f"{PROJECT}/members/all", _list_project_members, GUEST),
    Endpoint("GET", f"{PROJECT}/members/all/{{user}}", _show_member, GUEST),
    Endpoint("GET", f"{PROJECT}/approval_rules", _list_approval_rules, DEVELOPER),
)
