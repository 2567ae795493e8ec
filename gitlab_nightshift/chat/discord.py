"""Discord's interface: its requests, and the part of its REST API that the service needs.

A request is accepted if it is signed, recent and new; a person may start so many tasks an hour.
Everything in a request is validated, unknown kinds are refused. Imports aiohttp.
"""

import asyncio
import hashlib
import json
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import aiohttp
from pydantic import BaseModel, Field, ValidationError

from gitlab_nightshift import __version__
from gitlab_nightshift.chat.chat_settings import SNOWFLAKE
from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.records.request import TaskCommand, check_task_command, parse_task_command
from gitlab_nightshift.system.retry import RemoteFailure, RetryPolicy, parse_retry_after
from gitlab_nightshift.text.printable_text import make_printable

WINDOW_S = 300.0
"""Seconds by which the signed time of a request may differ from now."""
MOST_REMEMBERED = 20_000
"""Requests of the last minutes; with as many, no further one is accepted."""
MOST_TASKS, PERIOD_S = 10, 3600.0
"""A person may start so many tasks in so many seconds."""


@dataclass
class RequestVerifier:
    """Checks requests. ``check_signature`` verifies the signature of a message, ``now`` is the Unix
    time."""

    check_signature: Callable[[bytes, bytes], bool]
    now: Callable[[], float]
    _expiry_times: dict[bytes, float] = field(default_factory=dict)
    """By the hashes of the remembered messages."""

    def accept(self, signature: str, timestamp: str, body: bytes) -> bool:
        """True for a signed, recent request, but only once."""
        now = self.now()
        if not re.fullmatch(r"[0-9a-fA-F]{128}", signature):
            return False
        # Not isdigit, which is true for digits of other scripts too.
        if not re.fullmatch(r"[0-9]{1,12}", timestamp) or abs(now - int(timestamp)) > WINDOW_S:
            return False
        # What Discord signs (its documentation of interactions, "Security and Authorization").
        message = timestamp.encode() + body
        if not self.check_signature(bytes.fromhex(signature), message):
            return False
        return self._remember(message, now)

    def _remember(self, message: bytes, now: float) -> bool:
        """Remember a message for as long as its timestamp would be accepted; True if it is new.

        By message, not by signature: a message may have more than one valid Ed25519 signature. With
        a full memory none is new: a forgotten message could be replayed.
        """
        self._expiry_times = {
            digest: expiry for digest, expiry in self._expiry_times.items() if expiry > now
        }
        digest = hashlib.sha256(message).digest()
        if digest in self._expiry_times or len(self._expiry_times) >= MOST_REMEMBERED:
            return False
        # A timestamp may be ahead by the window, and is accepted until a window later.
        self._expiry_times[digest] = now + 2 * WINDOW_S
        return True


@dataclass
class RateLimiter:
    """Limits the tasks that each person starts; ``now`` is a monotonic clock in seconds."""

    now: Callable[[], float]
    _start_times: dict[str, deque[float]] = field(default_factory=dict)

    def allow(self, user: str) -> bool:
        """Count a task and return True, unless the person has started too many lately."""
        now = self.now()
        times = self._start_times.setdefault(user, deque())
        while times and times[0] <= now - PERIOD_S:
            times.popleft()
        if len(times) >= MOST_TASKS:
            return False
        times.append(now)
        return True


# --- interactions ---------------------------------------------------------------------------------

COMMAND = "coder"
# Types of interactions: PING, APPLICATION_COMMAND and MESSAGE_COMPONENT in Discord's API reference.
PING, COMMAND_CALL, BUTTON_CLICK = 1, 2, 3

Snowflake = Annotated[str, Field(pattern=f"^{SNOWFLAKE}$")]


@dataclass(frozen=True)
class Person:
    """A user by id, in a server (``guild``, "" outside of any) with the ids of their roles there.
    ``name`` is "" unless it has the form of Discord's user names."""

    user: str
    name: str
    guild: str
    roles: frozenset[str]


@dataclass(frozen=True)
class Ping:
    """Discord's check that the endpoint works."""


@dataclass(frozen=True)
class CommandCall:
    """A call of ``/coder`` with its options; with ``token`` it can be answered for 15 minutes."""

    person: Person
    channel: str
    token: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class ButtonClick:
    """A click on the button ``custom_id`` of a message with the text ``content``; with ``token`` it
    can be answered for 15 minutes."""

    person: Person
    channel: str
    token: str
    custom_id: str
    message_id: str
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
    """Parse the body of a request. Raises ValueError if it is invalid, of an unknown kind, or meant
    for another application."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if isinstance(data, dict) and data.get("type") == PING:
        return Ping()
    try:
        interaction = _Interaction.model_validate(data)
    except ValidationError:
        raise ValueError("no interaction of a known kind") from None
    if interaction.application_id != application_id:
        raise ValueError("an interaction of another application")
    if interaction.type == BUTTON_CLICK:
        return _build_click(interaction)
    return _build_call(interaction)


def _build_call(interaction: _Interaction) -> CommandCall:
    if interaction.data.name != COMMAND:
        raise ValueError("another command")
    person = _build_person(interaction)
    options = {option.name: option.value for option in interaction.data.options}
    return CommandCall(person, interaction.channel_id, interaction.token, options)


def _build_click(interaction: _Interaction) -> ButtonClick:
    if interaction.message is None:
        raise ValueError("a button without its message")
    return ButtonClick(
        _build_person(interaction),
        interaction.channel_id,
        interaction.token,
        interaction.data.custom_id,
        interaction.message.id,
        interaction.message.content,
    )


def _build_person(interaction: _Interaction) -> Person:
    user = interaction.member.user if interaction.member else interaction.user
    if user is None:
        raise ValueError("nobody")
    roles = frozenset(interaction.member.roles if interaction.member else ())
    # The name goes into a comment in GitLab, so it must not be able to mention or link anything.
    name = user.username if re.fullmatch(r"[a-z0-9_.]{2,32}", user.username) else ""
    return Person(user.id, name, interaction.guild_id or "", roles)


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


# --- requests to Discord --------------------------------------------------------------------------

API_URL = "https://discord.com/api/v10"
USER_AGENT = f"DiscordBot (gitlab-nightshift, {__version__})"
"""Discord asks for a URL in it, but accepts any text; the project has no page yet."""
TIMEOUT_S = 10.0
FIRST_PAUSE_S = 1.0
PATIENCE_S = 90.0
"""Seconds for a request with all retries; Discord may ask for pauses of a minute."""
_TRANSIENT = frozenset({429, 500, 502, 503, 504})

Json = Mapping[str, Any]


class DiscordError(NightshiftError, RemoteFailure):
    """Discord refused a request, or did not answer (``status`` None). It asks to wait
    ``retry_after_s`` seconds."""

    def __init__(self, message: str, status: int | None, retry_after_s: float = 0.0) -> None:
        super().__init__(Code.CONFIG, message)
        self.status, self.retry_after_s = status, retry_after_s


class Discord:
    """Discord's REST API, for one application. No error quotes a URL: URLs contain tokens."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        application_id: str,
        bot_token: str,
        url: str = API_URL,
    ) -> None:
        self._session, self._application_id, self._url = session, application_id, url
        self._bot_headers = {"Authorization": f"Bot {bot_token}"}

    async def edit_answer(self, token: str, message: Json) -> str:
        """Replace the answer to an interaction with a message; returns the message's id. For a
        button click, that is the message with the button."""
        path = f"/webhooks/{self._application_id}/{token}/messages/@original"
        answer = await self._send("PATCH", path, message, {}, "an answer")
        return str(answer.get("id", ""))

    async def post(self, channel: str, message: Json, reply_to: str) -> None:
        """Post a message in a channel, as a reply to the message with the id ``reply_to`` ("" for
        none). It is the bot's, as an interaction's token expires after 15 minutes."""
        reference = {"message_id": reply_to, "fail_if_not_exists": False}
        body = {**message, "message_reference": reference} if reply_to else message
        path = f"/channels/{channel}/messages"
        await self._send("POST", path, body, self._bot_headers, "a message")

    async def register(self, guild: str, command: Json) -> None:
        """Create or replace a slash command in one server."""
        path = f"/applications/{self._application_id}/guilds/{guild}/commands"
        await self._send("POST", path, command, self._bot_headers, "the command")

    async def _send(
        self, method: str, path: str, body: Json, headers: Mapping[str, str], what: str
    ) -> dict[str, Any]:
        """Send a request and return the answer. Raises :class:`DiscordError`, which calls the
        request ``what``."""
        # Discord limits requests per route, and says how long to wait (429, Retry-After).
        policy = RetryPolicy(time.monotonic() + PATIENCE_S, first_s=FIRST_PAUSE_S)
        return await policy.await_with_retries(
            lambda: self._send_once(method, path, body, headers, what),
            lambda error: error.status is None or error.status in _TRANSIENT,
            asyncio.sleep,
        )

    async def _send_once(
        self, method: str, path: str, body: Json, headers: Mapping[str, str], what: str
    ) -> dict[str, Any]:
        try:
            async with self._session.request(
                method,
                self._url + path,
                json=body,
                headers={**headers, "User-Agent": USER_AGENT},
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                allow_redirects=False,
            ) as response:
                answer = await _read_json(response)
        except (aiohttp.ClientError, TimeoutError, OSError):
            raise DiscordError(f"Discord cannot be reached: {what} was not sent", None) from None
        if response.status >= 300:
            raise _build_refusal(response, answer, what)
        return answer


async def _read_json(response: aiohttp.ClientResponse) -> dict[str, Any]:
    try:
        # Without a check of the content type: HTML from a proxy shall raise ValueError.
        answer = await response.json(content_type=None)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _build_refusal(response: aiohttp.ClientResponse, answer: Json, what: str) -> DiscordError:
    status = response.status
    reason = make_printable(str(answer.get("message", "")), "")[:200]
    hints = {
        401: "; is DISCORD_BOT_TOKEN the bot's?",
        403: "; is the bot a member of the server, and may it write into the channel?",
        404: "; are DISCORD_APPLICATION_ID and DISCORD_GUILD_ID right?",
    }
    return DiscordError(
        f"Discord answered {status} to {what}: {reason}{hints.get(status, '')}",
        status,
        parse_retry_after(response.headers.get("Retry-After", "")),
    )
