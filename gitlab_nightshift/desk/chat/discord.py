"""Discord's REST API, as much of it as the service needs. Imports aiohttp."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp

from gitlab_nightshift import __version__
from gitlab_nightshift.errors import NightshiftError, config_error

URL = "https://discord.com/api/v10"
AGENT = f"DiscordBot (https://pypi.org/project/gitlab-nightshift, {__version__})"
TIMEOUT_S = 10.0
PAUSES_S = (1.0, 3.0, 10.0)
"""Between tries; Discord may ask for longer ones, up to ``LONGEST_PAUSE_S``."""
LONGEST_PAUSE_S = 60.0
_TRANSIENT = frozenset({429, 500, 502, 503, 504})

Json = Mapping[str, Any]


class Discord:
    """The application at Discord. No error tells an address: those hold tokens."""

    def __init__(
        self, session: aiohttp.ClientSession, application_id: str, bot_token: str, url: str = URL
    ) -> None:
        self._session, self._application_id, self._url = session, application_id, url
        self._as_bot = {"Authorization": f"Bot {bot_token}"}

    async def edit_answer(self, token: str, message: Json) -> str:
        """Put a message in the place of the answer to an interaction; the message's id.

        For a button the answer is the message that has it.
        """
        path = f"/webhooks/{self._application_id}/{token}/messages/@original"
        sent = await self._send("PATCH", path, message, {}, "an answer")
        return str(sent.get("id", ""))

    async def post(self, channel: str, message: Json, reply_to: str) -> None:
        """A message in a channel, as the bot: an interaction's token ends after 15 minutes."""
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
        """What Discord answers. Raises :class:`NightshiftError`."""
        error = config_error("never asked")
        for pause in (*PAUSES_S, None):
            status, answer, asked_s = await self._once(method, path, body, headers)
            if status is not None and status < 300:
                return answer
            error = _refused(status, answer, what)
            if pause is None or (status is not None and status not in _TRANSIENT):
                break
            await asyncio.sleep(max(pause, min(asked_s, LONGEST_PAUSE_S)))
        raise error

    async def _once(
        self, method: str, path: str, body: Json, headers: Mapping[str, str]
    ) -> tuple[int | None, dict[str, Any], float]:
        """Status (None: no answer), body, and the seconds that Discord asks to wait."""
        try:
            async with self._session.request(
                method,
                self._url + path,
                json=body,
                headers={**headers, "User-Agent": AGENT},
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                allow_redirects=False,
            ) as response:
                return response.status, await _json(response), _seconds(response)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None, {}, 0.0


async def _json(response: aiohttp.ClientResponse) -> dict[str, Any]:
    try:
        answer = await response.json(content_type=None)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _seconds(response: aiohttp.ClientResponse) -> float:
    try:
        return float(response.headers.get("Retry-After", 0))
    except ValueError:
        return 0.0


def _refused(status: int | None, answer: Mapping[str, Any], what: str) -> NightshiftError:
    if status is None:
        return config_error(f"Discord cannot be reached: {what} was not sent")
    said = "".join(c for c in str(answer.get("message", "")) if c.isprintable())[:200]
    hints = {
        401: "; is DISCORD_BOT_TOKEN the bot's?",
        403: "; is the bot a member of the server, and may it write into the channel?",
        404: "; are DISCORD_APPLICATION_ID and DISCORD_GUILD_ID right?",
    }
    return config_error(f"Discord answered {status} to {what}: {said}{hints.get(status, '')}")
