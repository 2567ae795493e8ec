"""The part of Discord's REST API that the service needs. Imports aiohttp."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import aiohttp

from gitlab_nightshift import __version__
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.system.retry import RemoteFailure, RetryPolicy, parse_retry_after
from gitlab_nightshift.text.printable_text import make_printable

URL = "https://discord.com/api/v10"
AGENT = f"DiscordBot (gitlab-nightshift, {__version__})"
"""Discord asks for a URL there, but takes any text; the project has no page of its own yet."""
TIMEOUT_S = 10.0
FIRST_PAUSE_S = 1.0
PATIENCE_S = 90.0
"""Seconds for all tries of a request; Discord may ask for pauses of a minute."""
_TRANSIENT = frozenset({429, 500, 502, 503, 504})

Json = Mapping[str, Any]


class DiscordError(NightshiftError, RemoteFailure):
    """Discord refused a request, or did not answer (``status`` None); ``retry_after_s``: how long
    it asks to wait, in seconds."""

    def __init__(self, message: str, status: int | None, retry_after_s: float = 0.0) -> None:
        super().__init__(Code.CONFIG, message)
        self.status, self.retry_after_s = status, retry_after_s


class Discord:
    """The application at Discord. No error quotes an address: addresses contain tokens."""

    def __init__(
        self, session: aiohttp.ClientSession, application_id: str, bot_token: str, url: str = URL
    ) -> None:
        self._session, self._application_id, self._url = session, application_id, url
        self._as_bot = {"Authorization": f"Bot {bot_token}"}

    async def edit_answer(self, token: str, message: Json) -> str:
        """Replace the answer to an interaction with a message; returns the message's id.

        The answer to a button is the message with the button.
        """
        path = f"/webhooks/{self._application_id}/{token}/messages/@original"
        sent = await self._send("PATCH", path, message, {}, "an answer")
        return str(sent.get("id", ""))

    async def post(self, channel: str, message: Json, reply_to: str) -> None:
        """Post a message in a channel, as the bot: an interaction's token expires after 15
        minutes."""
        reference = {"message_id": reply_to, "fail_if_not_exists": False}
        body = {**message, "message_reference": reference} if reply_to else message
        await self._send("POST", f"/channels/{channel}/messages", body, self._as_bot, "a message")

    async def register(self, guild: str, command: Json) -> None:
        """Make or renew a slash command in one server."""
        path = f"/applications/{self._application_id}/guilds/{guild}/commands"
        await self._send("POST", path, command, self._as_bot, "the command")

    async def _send(
        self, method: str, path: str, body: Json, headers: Mapping[str, str], what: str
    ) -> dict[str, Any]:
        """Send a request and return the answer. Raises :class:`DiscordError`."""
        # Discord's limits of requests are per route, and tell how long to wait (429, Retry-After).
        patience = RetryPolicy(time.monotonic() + PATIENCE_S, first_s=FIRST_PAUSE_S)
        return await patience.await_with_retries(
            lambda: self._send_once(method, path, body, headers, what), _transient, asyncio.sleep
        )

    async def _send_once(
        self, method: str, path: str, body: Json, headers: Mapping[str, str], what: str
    ) -> dict[str, Any]:
        try:
            async with self._session.request(
                method,
                self._url + path,
                json=body,
                headers={**headers, "User-Agent": AGENT},
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                allow_redirects=False,
            ) as response:
                answer = await _read_json(response)
        except (aiohttp.ClientError, TimeoutError, OSError):
            raise DiscordError(f"Discord cannot be reached: {what} was not sent", None) from None
        if response.status >= 300:
            raise _build_refusal(response, answer, what)
        return answer


def _transient(error: DiscordError) -> bool:
    return error.status is None or error.status in _TRANSIENT


async def _read_json(response: aiohttp.ClientResponse) -> dict[str, Any]:
    try:
        # Any type: a proxy on the way answers in HTML, which is a ValueError here, and not an error
        # of its own.
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
