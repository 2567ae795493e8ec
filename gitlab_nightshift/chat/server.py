"""``nightshift chat discord``: the HTTP endpoint that Discord calls, immediate answers, and the
runs in the background. Imports aiohttp.

Immediate answers do not wait for GitLab, so they are always in time.
"""

import asyncio
import concurrent.futures
import contextlib
import hashlib
import signal
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import aiohttp
from aiohttp import web

from gitlab_nightshift.chat import messages
from gitlab_nightshift.chat.chat_settings import (
    ChatSettings,
    DiscordApplication,
    build_signature_check,
)
from gitlab_nightshift.chat.discord import (
    API_URL,
    COMMAND,
    MOST_TASKS,
    PERIOD_S,
    ButtonClick,
    CommandCall,
    Discord,
    Person,
    Ping,
    RateLimiter,
    RequestVerifier,
    parse_options,
    read_interaction,
)
from gitlab_nightshift.chat.messages import Json, escape_text
from gitlab_nightshift.chat.pipeline_runs import EndedRun, GitLab, can_approve, has_ended
from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.gitlab.pipelines import Job, Pipeline
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.request import TaskCommand
from gitlab_nightshift.redaction.redactor import Redactor

POLL_INTERVAL_S = 30.0
"""Seconds between two polls of a pipeline."""
LONGEST_WATCH_S = 5 * 3600.0
"""The template's job ends after three hours, but may wait for a runner first."""
MOST_RUNS = 20
MOST_THREADS = 4
"""Requests to GitLab at a time."""
THREAD_NAME = "nightshift-chat"

Log = Callable[[str], None]
"""Takes a line for the operator."""
Value = TypeVar("Value")


@dataclass
class ChatService:
    """Answers interactions and follows ``runs``, each a task of the event loop. ``button_key``
    signs buttons, ``redact`` removes secrets from texts. ``_decided`` are the ids of pipelines with
    a pressed button."""

    settings: ChatSettings
    discord: Discord
    gitlab: GitLab
    rate_limiter: RateLimiter
    button_key: bytes
    redact: Callable[[str], str]
    log: Log
    poll_interval_s: float = POLL_INTERVAL_S
    longest_watch_s: float = LONGEST_WATCH_S
    runs: set[asyncio.Task[None]] = field(default_factory=set)
    _decided: set[int] = field(default_factory=set)
    _threads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_THREADS))

    # --- immediate answers --------------------------------------------------------------------

    def answer_command(self, call: CommandCall) -> Json:
        """The answer to ``/coder``; the task itself runs in the background."""
        if not self._is_allowed(call.person):
            return messages.build_private_answer("You may not use this command here.")
        try:
            command = parse_options(call.options)
        except NightshiftError as error:
            return messages.build_private_answer(escape_text(error.message, 600))
        if len(self.runs) >= MOST_RUNS:
            return messages.build_private_answer(f"{MOST_RUNS} tasks are running: try again later.")
        if not self.rate_limiter.allow(call.person.user):
            text = f"At most {MOST_TASKS} tasks in {PERIOD_S / 3600:.0f} h: try again later."
            return messages.build_private_answer(text)
        self._start_in_background(self._run(call, command))
        return messages.DEFERRED

    def answer_click(self, click: ButtonClick) -> Json:
        """The answer to a click on Approve or Refuse."""
        decision = messages.parse_button_id(click.custom_id, self.button_key)
        if decision is None or not self._is_allowed(click.person):
            return messages.build_private_answer("You may not decide this here.")
        if decision.pipeline in self._decided:
            return messages.build_private_answer("This has already been decided.")
        # Before anything is awaited: two people may click at the same time.
        self._decided.add(decision.pipeline)
        if not decision.approve:
            self.log(f"pipeline {decision.pipeline}: refused by {click.person.user}")
            return messages.build_refusal(click.content, click.person.user)
        self._start_in_background(self._approve(click, decision.pipeline))
        return messages.DEFERRED_UPDATE

    def _is_allowed(self, person: Person) -> bool:
        allowed = self.settings.allows(person.guild, person.user, person.roles)
        if not allowed:
            self.log(f"not allowed: user {person.user} in server {person.guild or 'none'}")
        return allowed

    # --- in the background --------------------------------------------------------------------

    def _start_in_background(self, run: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._log_failure(run))
        self.runs.add(task)
        task.add_done_callback(self.runs.discard)

    async def _log_failure(self, run: Coroutine[Any, Any, None]) -> None:
        """Await the run; log a failure, so that the service continues."""
        try:
            await run
        except NightshiftError as error:
            self.log(self.redact(error.message))
        except Exception as error:  # a bug; its text is not logged, as it may quote a token
            frame = traceback.extract_tb(error.__traceback__)[-1]
            name = type(error).__name__
            self.log(f"a defect of nightshift: {name} at {frame.filename}:{frame.lineno}")

    async def _run(self, call: CommandCall, command: TaskCommand) -> None:
        try:
            pipeline = await self._call_gitlab(lambda: self.gitlab.start(command))
        except NightshiftError as error:
            self.log(self.redact(f"no pipeline for {call.person.user}: {error.message}"))
            message = messages.describe_start_failure(command, error.message, self.redact)
            await self.discord.edit_answer(call.token, message)
            return
        self.log(f"pipeline {pipeline.id}: started for {call.person.user}")
        message = messages.describe_start(command, call.person.user, pipeline, self.redact)
        message_id = ""
        with contextlib.suppress(NightshiftError):  # the result is posted anyway
            message_id = await self.discord.edit_answer(call.token, message)
        await self._post_result(pipeline, call.channel, message_id)

    async def _approve(self, click: ButtonClick, pipeline_id: int) -> None:
        try:
            pipeline = await self._call_gitlab(lambda: self.gitlab.fetch_pipeline(pipeline_id))
            job = await self._call_gitlab(lambda: self.gitlab.approve(pipeline_id))
        except NightshiftError as error:
            self._decided.discard(pipeline_id)
            self.log(self.redact(f"pipeline {pipeline_id}: not approved: {error.message}"))
            message = messages.describe_approval_failure(error.message, self.redact)
            await self.discord.post(click.channel, message, click.message_id)
            return
        self.log(f"pipeline {pipeline_id}: approved by {click.person.user}")
        with contextlib.suppress(NightshiftError):
            message = messages.describe_approval(click.content, click.person.user)
            await self.discord.edit_answer(click.token, message)
        ended = await self._post_result(pipeline, click.channel, click.message_id, job.name)
        if ended and ended.result.outcome is Outcome.MR_CREATED:
            approver = f"{click.person.name} (user {click.person.user})".strip()
            await self._call_gitlab(lambda: self.gitlab.record_approval(ended, approver))

    async def _post_result(
        self, pipeline: Pipeline, channel: str, reply_to: str, job_name: str = ""
    ) -> EndedRun | None:
        """Poll the pipeline, or the named job of it, until it has ended; then post its result as a
        reply to the message with the id ``reply_to``."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.longest_watch_s
        while loop.time() < deadline:
            await asyncio.sleep(self.poll_interval_s)
            try:
                jobs = await self._call_gitlab(lambda: self.gitlab.list_jobs(pipeline.id))
                if not has_ended(jobs, job_name):
                    continue
                ended = await self._call_gitlab(partial(self.gitlab.find_result, jobs, job_name))
            except NightshiftError as error:
                self.log(self.redact(f"pipeline {pipeline.id}: {error.message}"))
                continue
            self.log(f"pipeline {pipeline.id}: ended")
            await self.discord.post(channel, self._describe_result(pipeline, jobs, ended), reply_to)
            return ended
        why = f"No result after {self.longest_watch_s / 3600:.0f} h, so I stopped waiting:"
        await self.discord.post(channel, messages.describe_missing_result(pipeline, why), reply_to)
        return None

    def _describe_result(
        self, pipeline: Pipeline, jobs: tuple[Job, ...], run: EndedRun | None
    ) -> Json:
        if run is None:
            why = "The pipeline ended without a result:"
            return messages.describe_missing_result(pipeline, why)
        buttons = []
        if run.result.outcome is Outcome.APPROVAL_REQUIRED and any(map(can_approve, jobs)):
            buttons = messages.build_buttons(pipeline.id, self.button_key)
        return messages.describe_result(run, pipeline, buttons, self.redact)

    async def _call_gitlab(self, call: Callable[[], Value]) -> Value:
        async with self._threads:
            return await run_in_thread(call)


async def run_in_thread(call: Callable[[], Value]) -> Value:
    """Run ``call`` in a daemon thread, which does not delay the end of the service as the threads
    of an executor do."""
    future: concurrent.futures.Future[Value] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()  # from now on, cancelling has no effect on the thread

    def work() -> None:
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=work, name=THREAD_NAME, daemon=True).start()
    return await asyncio.wrap_future(future)


# --- the endpoint ---------------------------------------------------------------------------------

PATH = "/discord/interactions"
LARGEST_BODY = 64 * 1024
BODY_TIMEOUT_S = 3.0
"""For a request to arrive; Discord waits no longer for the answer."""
LINGER_S = 1.0
"""For open connections when a request, or the service, ends."""


def serve(settings: ChatSettings, address: tuple[str, int], log: Log) -> None:
    """Serve until SIGINT or SIGTERM. Raises ``E_CONFIG`` if it cannot start."""
    asyncio.run(_serve(settings, address, log))


def register(application: DiscordApplication) -> None:
    """Register ``/coder`` in the server. Raises ``E_CONFIG`` if Discord refuses it."""
    asyncio.run(_register(application))


async def _serve(settings: ChatSettings, address: tuple[str, int], log: Log) -> None:
    stop = asyncio.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    async with open_service(settings, address, log) as port:
        log(f"listening on {address[0]}:{port}{PATH}")
        await stop.wait()
        log("stopping")


async def _register(application: DiscordApplication, url: str = API_URL) -> None:
    async with aiohttp.ClientSession(trust_env=True) as session:
        discord = Discord(session, application.application_id, application.bot_token, url)
        await discord.register(application.guild, messages.build_command(COMMAND))


@contextlib.asynccontextmanager
async def open_service(
    settings: ChatSettings,
    address: tuple[str, int],
    log: Log,
    *,
    discord_url: str = API_URL,
    poll_interval_s: float = POLL_INTERVAL_S,
    longest_watch_s: float = LONGEST_WATCH_S,
) -> AsyncIterator[int]:
    """Run the service during the block, and yield its port. At the end it stops following runs."""
    verifier = RequestVerifier(build_signature_check(settings.public_key), time.time)
    async with aiohttp.ClientSession(trust_env=True) as session:
        service = ChatService(
            settings=settings,
            discord=Discord(session, settings.application_id, settings.bot_token, discord_url),
            gitlab=GitLab(settings),
            rate_limiter=RateLimiter(time.monotonic),
            # Derived from the bot's token, so buttons stay valid after a restart of the service.
            button_key=hashlib.sha256(
                b"nightshift buttons\0" + settings.bot_token.encode()
            ).digest(),
            redact=Redactor((settings.bot_token, settings.gitlab_token)),
            log=log,
            poll_interval_s=poll_interval_s,
            longest_watch_s=longest_watch_s,
        )
        runner = web.AppRunner(
            _build_application(service, verifier),
            access_log=None,
            lingering_time=LINGER_S,
            shutdown_timeout=LINGER_S,
        )
        await runner.setup()
        try:
            yield await _listen(runner, address)
        finally:
            await runner.cleanup()
            await _stop_runs(service, log)


async def _listen(runner: web.AppRunner, address: tuple[str, int]) -> int:
    """Start listening, and return the port."""
    site = web.TCPSite(runner, *address)
    try:
        await site.start()
    except OSError as error:
        why = error.strerror or "no such address"
        raise build_config_error(f"--listen {address[0]}:{address[1]}: {why}") from None
    return int(runner.addresses[0][1])


async def _stop_runs(service: ChatService, log: Log) -> None:
    service.gitlab.stopping.set()
    unfinished = list(service.runs)
    for run in unfinished:
        run.cancel()
    await asyncio.gather(*unfinished, return_exceptions=True)
    if unfinished:
        log(f"{len(unfinished)} run(s) continue in GitLab; their results will not be posted")


def _build_application(service: ChatService, verifier: RequestVerifier) -> web.Application:
    async def interact(request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await request.read()
        except TimeoutError:
            return web.Response(status=408)
        signature = request.headers.get("X-Signature-Ed25519", "")
        timestamp = request.headers.get("X-Signature-Timestamp", "")
        if not verifier.accept(signature, timestamp, body):
            # Discord sends wrong signatures on purpose, and removes an endpoint that accepts one.
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
        interaction = read_interaction(body, service.settings.application_id)
    except ValueError as error:
        service.log(f"refused: {error}")
        return web.Response(status=400, text=str(error))
    if isinstance(interaction, Ping):
        return web.json_response(messages.PONG)
    if isinstance(interaction, CommandCall):
        return web.json_response(service.answer_command(interaction))
    return web.json_response(service.answer_click(interaction))
