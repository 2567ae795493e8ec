"""Handles an interaction: an immediate answer, the rest in the background."""

import asyncio
import contextlib
import threading
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from gitlab_nightshift.chat import messages
from gitlab_nightshift.chat.chat_settings import ChatSettings
from gitlab_nightshift.chat.discord import Discord
from gitlab_nightshift.chat.interaction import (
    PERIOD_S,
    TASKS,
    ButtonClick,
    CommandCall,
    Person,
    RateLimiter,
    parse_options,
)
from gitlab_nightshift.chat.messages import escape_text
from gitlab_nightshift.chat.pipeline_runs import EndedRun, GitLab, offers, over
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.gitlab.pipelines import Job, Pipeline
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.request import TaskCommand

PAUSE_S = 30.0
"""Seconds between two polls of a pipeline."""
WATCH_S = 5 * 3600.0
"""Seconds. The template's job ends after three hours, but may wait for a runner first."""
MOST_RUNS = 20
MOST_THREADS = 4
THREAD = "nightshift-chat"

Json = dict[str, Any]
Value = TypeVar("Value")


@dataclass
class ChatService:
    """The current runs. ``key`` signs buttons, ``redact`` removes secrets from texts, ``log`` takes
    a line for the operator."""

    settings: ChatSettings
    discord: Discord
    gitlab: GitLab
    turnstile: RateLimiter
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
        if not self._may(call.person):
            return messages.build_private_answer("You may not use this command here.")
        try:
            asked = parse_options(call.options)
        except NightshiftError as error:
            return messages.build_private_answer(escape_text(error.message, 600))
        if len(self.runs) >= MOST_RUNS:
            return messages.build_private_answer(f"{MOST_RUNS} tasks are running: try again later.")
        if not self.turnstile.passes(call.person.user):
            hours = PERIOD_S / 3600
            return messages.build_private_answer(
                f"At most {TASKS} tasks in {hours:.0f} h: try again later."
            )
        self._start_task(self._run(call, asked))
        return messages.LATER

    def answer_click(self, click: ButtonClick) -> Json:
        """The answer to a button."""
        press = messages.read_press(click.custom_id, self.key)
        if press is None or not self._may(click.person):
            return messages.build_private_answer("You may not decide this here.")
        if press.pipeline in self._decided:
            return messages.build_private_answer("This has already been decided.")
        self._decided.add(press.pipeline)
        if not press.approve:
            self.log(f"pipeline {press.pipeline}: refused by {click.person.user}")
            return {"type": 7, "data": messages.describe_refusal(click.content, click.person.user)}
        self._start_task(self._approve(click, press.pipeline))
        return messages.LATER_IN_PLACE

    def _may(self, person: Person) -> bool:
        allowed = self.settings.may(person.guild, person.user, person.roles)
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

    async def _run(self, call: CommandCall, asked: TaskCommand) -> None:
        try:
            pipeline = await self._ask(lambda: self.gitlab.start(asked))
        except NightshiftError as error:
            self.log(self.redact(f"no pipeline for {call.person.user}: {error.message}"))
            message = messages.describe_start_failure(asked, error.message, self.redact)
            await self.discord.edit_answer(call.token, message)
            return
        self.log(f"pipeline {pipeline.id}: started for {call.person.user}")
        message = messages.describe_start(asked, call.person.user, pipeline, self.redact)
        answer = ""
        with contextlib.suppress(NightshiftError):  # the result is posted anyway
            answer = await self.discord.edit_answer(call.token, message)
        await self._follow(pipeline, call.channel, answer)

    async def _approve(self, click: ButtonClick, number: int) -> None:
        try:
            pipeline = await self._ask(lambda: self.gitlab.fetch_pipeline(number))
            job = await self._ask(lambda: self.gitlab.approve(number))
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
        ended = await self._follow(pipeline, click.channel, click.message, job.name)
        if ended and ended.result.outcome is Outcome.MR_CREATED:
            who = " ".join(
                word for word in (click.person.name, f"(user {click.person.user})") if word
            )
            await self._ask(lambda: self.gitlab.record_approval(ended, who))

    async def _follow(
        self, pipeline: Pipeline, channel: str, answer: str, job: str = ""
    ) -> EndedRun | None:
        """Poll the pipeline, or one job of it, until it has ended; then post its result."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.watch_s
        while loop.time() < end:
            await asyncio.sleep(self.pause_s)
            try:
                jobs = await self._ask(lambda: self.gitlab.list_jobs(pipeline.id))
                if not over(jobs, job):
                    continue
                ended = await self._ask(partial(self.gitlab.find_result, jobs, job))
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
        asks = run.result.outcome is Outcome.APPROVAL_REQUIRED and any(map(offers, jobs))
        buttons = messages.build_buttons(pipeline.id, self.key) if asks else []
        return messages.describe_result(run, pipeline, buttons, self.redact)

    async def _ask(self, call: Callable[[], Value]) -> Value:
        async with self._threads:
            return await run_in_thread(call)


async def run_in_thread(call: Callable[[], Value]) -> Value:
    """Return ``call()`` from a daemon thread, which does not delay the end of the service."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Value] = loop.create_future()

    def settle(deliver: Callable[[Any], None], value: Any) -> None:
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
