"""``nightshift chat discord``: the HTTP endpoint that Discord calls, immediate answers, and the
runs in the background. Imports aiohttp.

Immediate answers wait for nothing else, so that they are in time whatever GitLab does.
"""

import asyncio
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
    COMMAND,
    MOST_TASKS,
    PERIOD_S,
    URL,
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
from gitlab_nightshift.chat.messages import escape_text
from gitlab_nightshift.chat.pipeline_runs import EndedRun, GitLab, can_approve, has_ended
from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.gitlab.pipelines import Job, Pipeline
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.request import TaskCommand
from gitlab_nightshift.redaction.redactor import Redactor

PAUSE_S = 30.0
"""Seconds between two polls of a pipeline."""
WATCH_S = 5 * 3600.0
"""Seconds. The template's job ends after three hours, but may wait for a runner first."""
MOST_RUNS = 20
MOST_THREADS = 4
"""Requests to GitLab at a time."""
THREAD = "nightshift-chat"

Json = dict[str, Any]
Value = TypeVar("Value")


@dataclass
class ChatService:
    """Answers interactions and follows ``runs``, each a task of the event loop. ``key`` signs
    buttons, ``redact`` removes secrets from texts, ``log`` takes a line for the operator.
    ``_decided`` are pipelines with a pressed button."""

    settings: ChatSettings
    discord: Discord
    gitlab: GitLab
    rate_limiter: RateLimiter
    key: bytes
    redact: Callable[[str], str]
    log: Callable[[str], None]
    pause_s: float = PAUSE_S
    watch_s: float = WATCH_S
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
            hours = PERIOD_S / 3600
            return messages.build_private_answer(
                f"At most {MOST_TASKS} tasks in {hours:.0f} h: try again later."
            )
        self._start_task(self._run(call, command))
        return messages.DEFERRED

    def answer_click(self, click: ButtonClick) -> Json:
        """The answer to a button."""
        press = messages.read_press(click.custom_id, self.key)
        if press is None or not self._is_allowed(click.person):
            return messages.build_private_answer("You may not decide this here.")
        if press.pipeline in self._decided:
            return messages.build_private_answer("This has already been decided.")
        # At once, before anything is awaited: two people may click at the same time.
        self._decided.add(press.pipeline)
        if not press.approve:
            self.log(f"pipeline {press.pipeline}: refused by {click.person.user}")
            return messages.build_refusal(click.content, click.person.user)
        self._start_task(self._approve(click, press.pipeline))
        return messages.DEFERRED_UPDATE

    def _is_allowed(self, person: Person) -> bool:
        allowed = self.settings.allows(person.guild, person.user, person.roles)
        if not allowed:
            self.log(f"not allowed: user {person.user} in server {person.guild or 'none'}")
        return allowed

    # --- in the background --------------------------------------------------------------------

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guard_task(work))
        self.runs.add(task)
        task.add_done_callback(self.runs.discard)

    async def _guard_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Log a run's failure for the operator; the service goes on."""
        try:
            await work
        except NightshiftError as error:
            self.log(self.redact(error.message))
        except Exception as error:  # a bug; only its place is logged, as its text may quote a token
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{place.filename}:{place.lineno}"
            self.log(f"a defect of nightshift: {type(error).__name__} at {where}")

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
        answer = ""
        with contextlib.suppress(NightshiftError):  # the result is posted anyway
            answer = await self.discord.edit_answer(call.token, message)
        await self._wait_for_result(pipeline, call.channel, answer)

    async def _approve(self, click: ButtonClick, number: int) -> None:
        try:
            pipeline = await self._call_gitlab(lambda: self.gitlab.fetch_pipeline(number))
            job = await self._call_gitlab(lambda: self.gitlab.approve(number))
        except NightshiftError as error:
            self._decided.discard(number)
            self.log(self.redact(f"pipeline {number}: not approved: {error.message}"))
            message = messages.describe_approval_failure(error.message, self.redact)
            await self.discord.post(click.channel, message, click.message)
            return
        self.log(f"pipeline {number}: approved by {click.person.user}")
        with contextlib.suppress(NightshiftError):
            message = messages.describe_approval(click.content, click.person.user)
            await self.discord.edit_answer(click.token, message)
        ended = await self._wait_for_result(pipeline, click.channel, click.message, job.name)
        if ended and ended.result.outcome is Outcome.MR_CREATED:
            who = " ".join(
                word for word in (click.person.name, f"(user {click.person.user})") if word
            )
            await self._call_gitlab(lambda: self.gitlab.record_approval(ended, who))

    async def _wait_for_result(
        self, pipeline: Pipeline, channel: str, answer: str, job: str = ""
    ) -> EndedRun | None:
        """Poll the pipeline, or one job of it, until it has ended; then post its result."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.watch_s
        while loop.time() < end:
            await asyncio.sleep(self.pause_s)
            try:
                jobs = await self._call_gitlab(lambda: self.gitlab.list_jobs(pipeline.id))
                if not has_ended(jobs, job):
                    continue
                ended = await self._call_gitlab(partial(self.gitlab.find_result, jobs, job))
            except NightshiftError as error:
                self.log(self.redact(f"pipeline {pipeline.id}: {error.message}"))
                continue
            self.log(f"pipeline {pipeline.id}: ended")
            await self.discord.post(channel, self._describe_result(pipeline, jobs, ended), answer)
            return ended
        why = f"No result after {self.watch_s / 3600:.0f} h, so I stopped waiting:"
        await self.discord.post(channel, messages.describe_missing_result(pipeline, why), answer)
        return None

    def _describe_result(
        self, pipeline: Pipeline, jobs: tuple[Job, ...], run: EndedRun | None
    ) -> Json:
        if run is None:
            return messages.describe_missing_result(
                pipeline, "The pipeline ended without a result:"
            )
        asks = run.result.outcome is Outcome.APPROVAL_REQUIRED and any(map(can_approve, jobs))
        buttons = messages.build_buttons(pipeline.id, self.key) if asks else []
        return messages.describe_result(run, pipeline, buttons, self.redact)

    async def _call_gitlab(self, call: Callable[[], Value]) -> Value:
        async with self._threads:
            return await run_in_thread(call)


async def run_in_thread(call: Callable[[], Value]) -> Value:
    """Run ``call`` in a daemon thread, which does not delay the end of the service."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Value] = loop.create_future()

    def settle(deliver: Callable[[Any], None], value: Any) -> None:
        # The service may have cancelled it at its end.
        if not future.done():
            deliver(value)

    def work() -> None:
        try:
            deliver, value = future.set_result, call()
        except Exception as error:
            deliver, value = future.set_exception, error  # type: ignore[assignment]
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for it
            loop.call_soon_threadsafe(settle, deliver, value)

    threading.Thread(target=work, name=THREAD, daemon=True).start()
    return await future


# --- the endpoint ---------------------------------------------------------------------------------

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
    verifier = RequestVerifier(build_signature_check(settings.public_key), time.time)
    async with aiohttp.ClientSession(trust_env=True) as session:
        service = ChatService(
            settings=settings,
            discord=Discord(session, settings.application_id, settings.bot_token, discord_url),
            gitlab=GitLab(settings),
            rate_limiter=RateLimiter(time.monotonic),
            # Derived from the bot's token, so that buttons stay valid when the service starts anew.
            key=hashlib.sha256(b"nightshift buttons\0" + settings.bot_token.encode()).digest(),
            redact=Redactor((settings.bot_token, settings.gitlab_token)),
            log=log,
            pause_s=pause_s,
            watch_s=watch_s,
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
            async with asyncio.timeout(BODY_S):
                body = await request.read()
        except TimeoutError:
            return web.Response(status=408)
        headers = request.headers
        signature = headers.get("X-Signature-Ed25519", "")
        if not verifier.is_valid(signature, headers.get("X-Signature-Timestamp", ""), body):
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
