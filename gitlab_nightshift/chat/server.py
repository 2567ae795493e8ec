"""``nightshift chat discord``: the HTTP endpoint that Discord calls. Imports aiohttp.

Answers need only memory, so that they are in time whatever GitLab does.
"""

import asyncio
import contextlib
import hashlib
import signal
import time
from collections.abc import AsyncIterator, Callable

import aiohttp
from aiohttp import web

from gitlab_nightshift.chat import messages
from gitlab_nightshift.chat.chat_service import PAUSE_S, WATCH_S, ChatService
from gitlab_nightshift.chat.chat_settings import (
    ChatSettings,
    DiscordApplication,
    build_signature_check,
)
from gitlab_nightshift.chat.discord import URL, Discord
from gitlab_nightshift.chat.interaction import (
    COMMAND,
    CommandCall,
    Ping,
    RateLimiter,
    RequestVerifier,
    read_interaction,
)
from gitlab_nightshift.chat.pipeline_runs import GitLab
from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.redaction.redactor import Redactor

PATH = "/discord/interactions"
LARGEST_BODY = 64 * 1024
BODY_S = 3.0
"""Seconds that a request may take to arrive; Discord waits no longer for the answer."""
LINGER_S = 1.0
"""Seconds for open connections when a request, or the service, ends."""

Log = Callable[[str], None]


def serve(settings: ChatSettings, address: tuple[str, int], log: Log) -> None:
    """Serve until SIGINT or SIGTERM. Raises ``E_CONFIG`` if it cannot start."""
    asyncio.run(_serve(settings, address, log))


def register(application: DiscordApplication) -> None:
    """Register ``/coder`` in the server. Raises ``E_CONFIG`` if Discord refuses it."""
    asyncio.run(_register(application))


async def _serve(settings: ChatSettings, address: tuple[str, int], log: Log) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with open_service(settings, address, log) as port:
        log(f"listening on {address[0]}:{port}{PATH}")
        await stop.wait()
        log("stopping")


async def _register(application: DiscordApplication, url: str = URL) -> None:
    async with aiohttp.ClientSession(trust_env=True) as session:
        discord = Discord(session, application.application_id, application.bot_token, url)
        await discord.register(application.guild, messages.build_command(COMMAND))


@contextlib.asynccontextmanager
async def open_service(
    settings: ChatSettings,
    address: tuple[str, int],
    log: Log,
    *,
    discord_url: str = URL,
    pause_s: float = PAUSE_S,
    watch_s: float = WATCH_S,
) -> AsyncIterator[int]:
    """Run the service during the block, and yield its port. At the end it stops following runs."""
    door = RequestVerifier(build_signature_check(settings.public_key), time.time)
    async with aiohttp.ClientSession(trust_env=True) as session:
        service = ChatService(
            settings=settings,
            discord=Discord(session, settings.application_id, settings.bot_token, discord_url),
            gitlab=GitLab(settings),
            turnstile=RateLimiter(time.monotonic),
            key=hashlib.sha256(b"nightshift buttons\0" + settings.bot_token.encode()).digest(),
            redact=Redactor((settings.bot_token, settings.gitlab_token)),
            log=log,
            pause_s=pause_s,
            watch_s=watch_s,
        )
        runner = web.AppRunner(
            _build_application(service, door),
            access_log=None,
            lingering_time=LINGER_S,
            shutdown_timeout=LINGER_S,
        )
        await runner.setup()
        try:
            yield await _listen(runner, address)
        finally:
            await runner.cleanup()
            await _end(service, log)


async def _listen(runner: web.AppRunner, address: tuple[str, int]) -> int:
    """Start listening, and return the port."""
    site = web.TCPSite(runner, *address)
    try:
        await site.start()
    except OSError as error:
        why = error.strerror or "no such address"
        raise build_config_error(f"--listen {address[0]}:{address[1]}: {why}") from None
    return int(runner.addresses[0][1])


async def _end(service: ChatService, log: Log) -> None:
    service.gitlab.stopping.set()
    left = list(service.runs)
    for run in left:
        run.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    if left:
        log(f"{len(left)} run(s) continue in GitLab; their results will not be posted")


def _build_application(service: ChatService, door: RequestVerifier) -> web.Application:
    async def interact(request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(BODY_S):
                body = await request.read()
        except TimeoutError:
            return web.Response(status=408)
        headers = request.headers
        signature = headers.get("X-Signature-Ed25519", "")
        if not door.is_valid(signature, headers.get("X-Signature-Timestamp", ""), body):
            return web.Response(status=401, text="invalid request signature")
        return _answer(service, body)

    async def report_health(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    application = web.Application(client_max_size=LARGEST_BODY)
    application.router.add_post(PATH, interact)
    application.router.add_get("/healthz", report_health)
    return application


def _answer(service: ChatService, body: bytes) -> web.Response:
    try:
        sent = read_interaction(body, service.settings.application_id)
    except ValueError as error:
        service.log(f"refused: {error}")
        return web.Response(status=400, text=str(error))
    if isinstance(sent, Ping):
        return web.json_response(messages.PONG)
    if isinstance(sent, CommandCall):
        return web.json_response(service.answer_command(sent))
    return web.json_response(service.answer_click(sent))
