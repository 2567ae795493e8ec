"""The stand-in's members, and which of them are busy."""

from typing import Any

from gitlab_nightshift.demo.standin_api import (
    Endpoint,
    StandinCall,
    build_not_found,
    build_page,
    check_filters,
)
from gitlab_nightshift.demo.standin_json import build_user_json
from gitlab_nightshift.demo.standin_requests import StandinAnswer
from gitlab_nightshift.demo.standin_state import User

READ_USER = ("api", "read_api", "read_user")


def _list_users(call: StandinCall) -> StandinAnswer:
    query = check_filters(call.request, "username", "search", "active")
    name, part = query.get("username", "").lower(), query.get("search", "").lower()
    found = [
        user
        for user in call.state.users
        if name in ("", user.username.lower()) and part in f"{user.username}\n{user.name}".lower()
    ]
    return build_page(call, found, lambda user: build_account_json(call, user))


def build_account_json(call: StandinCall, user: User) -> dict[str, Any]:
    """An account as lists of members show it."""
    state = "blocked" if user.id in call.state.blocked else "active"
    return {**build_user_json(user, call.state.url), "state": state}


def _show_status(call: StandinCall) -> StandinAnswer:
    for user in call.state.users:
        if call.values["user"] in (str(user.id), user.username):
            busy = "busy" if user.id in call.state.busy else None
            body = {"emoji": None, "message": None, "availability": busy, "message_html": ""}
            return StandinAnswer(200, {**body, "clear_status_at": None})
    raise build_not_found("User")


ENDPOINTS = (
    Endpoint("GET", "users", _list_users, scopes=READ_USER),
    Endpoint("GET", "users/{user}/status", _show_status, scopes=READ_USER),
)
