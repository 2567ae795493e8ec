"""Discord's requests as records: everything is validated, unknown kinds are refused."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from gitlab_nightshift.chat.chat_settings import SNOWFLAKE
from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.records.task_text import TaskCommand, check_task_command, parse_task_command

COMMAND = "coder"
PING, CALLED, CLICKED = 1, 2, 3

Snowflake = Annotated[str, Field(pattern=f"^{SNOWFLAKE}$")]


@dataclass(frozen=True)
class Person:
    """A member of a server (guild) with the ids of their roles; ``guild`` is "" outside of any.
    ``name`` is "" unless it has the form of Discord's user names."""

    user: str
    name: str
    guild: str
    roles: frozenset[str]


@dataclass(frozen=True)
class Ping:
    """Discord checks that the endpoint works."""


@dataclass(frozen=True)
class CommandCall:
    """``/coder`` with its options; ``token`` allows answers for 15 minutes."""

    person: Person
    channel: str
    token: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class ButtonClick:
    """A click on a button of the message with the id ``message`` and the text ``content``."""

    person: Person
    channel: str
    token: str
    custom_id: str
    message: str
    content: str


class _User(BaseModel):
    id: Snowflake
    username: str = ""


class _Member(BaseModel):
    user: _User
    roles: list[Snowflake] = Field(default=[], max_length=1000)


class _Option(BaseModel):
    name: str = Field(max_length=32)
    value: str | bool | int | float | None = None


class _Data(BaseModel):
    name: str = ""
    options: list[_Option] = Field(default=[], max_length=25)
    custom_id: str = Field(default="", max_length=100)


class _Message(BaseModel):
    id: Snowflake
    content: str = Field(default="", max_length=4000)


class _Interaction(BaseModel):
    type: Literal[2, 3]
    token: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,1000}$")
    application_id: Snowflake
    guild_id: Snowflake | None = None
    channel_id: Snowflake
    member: _Member | None = None
    user: _User | None = None
    data: _Data
    message: _Message | None = None


def read_interaction(body: bytes, application_id: str) -> Ping | CommandCall | ButtonClick:
    """Parse an interaction. Raises ValueError if the data is none, of an unknown kind, or for
    another application."""
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if isinstance(sent, dict) and sent.get("type") == PING:
        return Ping()
    try:
        read = _Interaction.model_validate(sent)
    except ValidationError:
        raise ValueError("no interaction of a known kind") from None
    if read.application_id != application_id:
        raise ValueError("an interaction of another application")
    return _build_click(read) if read.type == CLICKED else _build_call(read)


def _build_call(read: _Interaction) -> CommandCall:
    if read.data.name != COMMAND:
        raise ValueError("another command")
    options = {option.name: option.value for option in read.data.options}
    return CommandCall(_build_person(read), read.channel_id, read.token, options)


def _build_click(read: _Interaction) -> ButtonClick:
    if read.message is None:
        raise ValueError("a button without its message")
    return ButtonClick(
        _build_person(read),
        read.channel_id,
        read.token,
        read.data.custom_id,
        read.message.id,
        read.message.content,
    )


def _build_person(read: _Interaction) -> Person:
    user = read.member.user if read.member else read.user
    if user is None:
        raise ValueError("nobody")
    roles = frozenset(read.member.roles if read.member else ())
    name = user.username if re.fullmatch(r"[a-z0-9_.]{2,32}", user.username) else ""
    return Person(user.id, name, read.guild_id or "", roles)


def parse_options(options: Mapping[str, Any]) -> TaskCommand:
    """The task in the options of ``/coder``; an option overrides a flag in the task's text.

    Raises ``E_CONFIG`` for an invalid option.
    """
    asked = parse_task_command(_read_text(options, "task"))
    if provider := _read_text(options, "provider"):
        asked = replace(asked, provider=provider)
    if model := _read_text(options, "model"):
        asked = replace(asked, model=model)
    if options.get("dry_run") is True:
        asked = replace(asked, dry_run=True)
    if test := _read_text(options, "test").split():
        asked = replace(asked, test_id=test[0], test_args=tuple(test[1:]))
    return check_task_command(asked)


def _read_text(options: Mapping[str, Any], name: str) -> str:
    value = options.get(name, "")
    if not isinstance(value, str):
        raise build_config_error(f"{name}: a text is expected")
    return value.strip()
