"""The stand-in's people: members of groups and projects, who is busy, who has to approve."""

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
from gitlab_nightshift.demo.standin_json import build_project_json, build_user_json
from gitlab_nightshift.demo.standin_repository import read_blob
from gitlab_nightshift.demo.standin_requests import StandinAnswer
from gitlab_nightshift.demo.standin_state import DEVELOPER, GUEST, REPORTER, User

PROJECT = "projects/{id}"
READ_USER = ("api", "read_api", "read_user")


def _list_users(call: StandinCall) -> StandinAnswer:
    query = check_filters(call.request, "username", "search", "active")
    name, part = query.get("username", "").lower(), query.get("search", "").lower()
    found = [
        user
        for user in call.state.users
        if name in ("", user.username.lower()) and part in f"{user.username}\n{user.name}".lower()
    ]
    return build_page(call, found, lambda user: _build_account_json(call, user))


def _build_account_json(call: StandinCall, user: User) -> dict[str, Any]:
    state = "blocked" if user.id in call.state.blocked else "active"
    return {**build_user_json(user, call.state.url), "state": state}


def _show_status(call: StandinCall) -> StandinAnswer:
    for user in call.state.users:
        if call.values["user"] in (str(user.id), user.username):
            busy = "busy" if user.id in call.state.busy else None
            body = {"emoji": None, "message": None, "availability": busy, "message_html": ""}
            return StandinAnswer(200, {**body, "clear_status_at": None})
    raise build_not_found("User")


def _list_project_members(call: StandinCall) -> StandinAnswer:
    return _build_member_page(call, call.project.members)


def _list_group_members(call: StandinCall) -> StandinAnswer:
    if (members := call.state.groups.get(call.values["group"])) is None:
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
    account = _build_account_json(call, known) if known else {"id": number, "state": "active"}
    return {**account, "access_level": level, "expires_at": None, "membership_state": "active"}


def _list_group_projects(call: StandinCall) -> StandinAnswer:
    check_filters(call.request, "include_subgroups", "archived")
    head = f"{call.values['group']}/"
    found = [each for each in call.state.projects if each.path.startswith(head)]
    if not found:
        raise build_not_found("Group")
    return build_page(call, found, lambda each: build_project_json(each, call.token))


def _show_member(call: StandinCall) -> StandinAnswer:
    for number, level in call.project.members.items():
        if str(number) == call.values["user"]:
            return StandinAnswer(200, _build_member_json(call, number, level))
    raise StandinApiError(404, {"message": "404 Not found"})


def _list_approval_rules(call: StandinCall) -> StandinAnswer:
    """Without a paid tier there is no such address."""
    if not call.state.paid_tier:
        raise StandinApiError(404, {"error": "404 Not Found"})
    users = {user.username: user for user in call.state.users}

    def build_json(row: Mapping[str, Any]) -> dict[str, Any]:
        people = [_build_account_json(call, users[name]) for name in row["eligible_approvers"]]
        return {
            "rule_type": "regular",
            "protected_branches": [],
            **row,
            "eligible_approvers": people,
        }

    return build_page(call, call.project.approval_rules, build_json)


def _send_file(call: StandinCall) -> StandinAnswer:
    project, ref = call.project, call.request.query.get("ref", "HEAD")
    data = read_blob(project.git, project.bare_repository, ref, call.values["path"])
    if data is None:
        raise build_not_found("File")
    return StandinAnswer(200, data)


ENDPOINTS = (
    Endpoint("GET", "users", _list_users, scopes=READ_USER),
    Endpoint("GET", "users/{user}/status", _show_status, scopes=READ_USER),
    Endpoint("GET", "groups/{group}/members/all", _list_group_members),
    Endpoint("GET", "groups/{group}/projects", _list_group_projects),
    Endpoint("GET", f"{PROJECT}/members/all", _list_project_members, GUEST),
    Endpoint("GET", f"{PROJECT}/members/all/{{user}}", _show_member, GUEST),
    Endpoint("GET", f"{PROJECT}/approval_rules", _list_approval_rules, DEVELOPER),
    Endpoint("GET", f"{PROJECT}/repository/files/{{path}}/raw", _send_file, REPORTER),
)
