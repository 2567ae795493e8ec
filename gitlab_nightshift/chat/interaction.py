"""Discord's requests: which are admitted (signed, recent, new, not too many of a person), and their
content as records. Everything is validated, unknown kinds are refused.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from gitlab_nightshift.chat.chat_settings import SNOWFLAKE
from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.records.request import TaskCommand, check_task_command, parse_task_command

WINDOW_S = 300.0
"""Seconds. A request is signed with its time; if that is further off than this, it is refused."""
MOST_REMEMBERED = 20_000
TASKS = 10
PERIOD_S = 3600.0
"""A person may start ``TASKS`` tasks in ``PERIOD_S`` seconds."""


@dataclass
class RequestVerifier:
    """Checks requests; ``check_signature`` verifies a signature, ``now`` is the time of day in
    seconds."""

    check_signature: Callable[[bytes, bytes], bool]
    now: Callable[[], float]
    _seen: dict[bytes, float] = field(default_factory=dict)

    def is_valid(self, signature: str, timestamp: str, body: bytes) -> bool:
        """True for a signed, recent request that was not sent before."""
        now = self.now()
        if not re.fullmatch(r"[0-9a-fA-F]{128}", signature):
            return False
        # Not isdigit, which is true for digits of other scripts too.
        if not re.fullmatch(r"[0-9]{1,12}", timestamp) or abs(now - int(timestamp)) > WINDOW_S:
            return False
        # What Discord signs (its documentation of interactions, "Security and Authorization").
        message = timestamp.encode() + body
        return self.check_signature(bytes.fromhex(signature), message) and self._is_new(
            message, now
        )

    def _is_new(self, message: bytes, now: float) -> bool:
        """Remember the message for as long as its time would be accepted; True if it is new.

        By message, not by signature: a message may have more than one valid Ed25519 signature. If
        the memory is full, nothing is admitted: a forgotten message could be replayed.
        """
        from hashlib import sha256

        self._seen = {known: until for known, until in self._seen.items() if until > now}
        digest = sha256(message).digest()
        if digest in self._seen or len(self._seen) >= MOST_REMEMBERED:
            return False
        # Twice: a clock may be ahead by the window, and such a request is valid until one after it.
        self._seen[digest] = now + 2 * WINDOW_S
        return True


@dataclass
class RateLimiter:
    """Counts the tasks that each person has started; ``now`` are monotonic seconds."""

    now: Callable[[], float]
    _started: dict[str, deque[float]] = field(default_factory=dict)

    def allow(self, user: str) -> bool:
        """Count a task and return True, unless the person has started ``TASKS`` lately."""
        since = self.now() - PERIOD_S
        times = self._started.setdefault(user, deque())
        while times and times[0] <= since:
            times.popleft()
        if len(times) >= TASKS:
            return False
        times.append(self.now())
        return True


# --- what they contain ----------------------------------------------------------------------------

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
    """Parse an interaction. Raises ValueError if it is invalid, of an unknown kind, or meant for
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
    # The name goes into a comment in GitLab, so it must not be able to mention or link anything.
    name = user.username if re.fullmatch(r"[a-z0-9_.]{2,32}", user.username) else ""
    return Person(user.id, name, read.guild_id or "", roles)


def parse_options(options: Mapping[str, Any]) -> TaskCommand:
    """The task in the options of ``/coder``; an option overrides a flag in the task's text.

    Raises ``E_CONFIG`` for an invalid option.
    """
    command = parse_task_command(_read_text(options, "task"))
    if provider := _read_text(options, "provider"):
        command = replace(command, provider=provider)
    if model := _read_text(options, "model"):
        command = replace(command, model=model)
    if options.get("dry_run") is True:
        command = replace(command, dry_run=True)
    if test := _read_text(options, "test").split():
        command = replace(command, test_id=test[0], test_args=tuple(test[1:]))
    return check_task_command(command)


def _read_text(options: Mapping[str, Any], name: str) -> str:
    value = options.get(name, "")
    if not isinstance(value, str):
        raise build_config_error(f"{name}: a text is expected")
    return value.strip()
