"""What the service does with an interaction: an answer at once, the rest behind it."""

import asyncio
import contextlib
import threading
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from gitlab_nightshift.desk.chat import messages
from gitlab_nightshift.desk.chat.configuration import ChatSettings
from gitlab_nightshift.desk.chat.discord import Discord
from gitlab_nightshift.desk.chat.door import PERIOD_S, TASKS, Turnstile
from gitlab_nightshift.desk.chat.gitlab import GitLab, offers, over
from gitlab_nightshift.desk.chat.interaction import Called, Clicked, Person, asked_by
from gitlab_nightshift.desk.chat.outcome import Ended
from gitlab_nightshift.desk.chat.text import plain
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.gitlab.pipelines import Job, Pipeline
from gitlab_nightshift.records import Outcome
from gitlab_nightshift.records.asked import Asked

PAUSE_S = 30.0
"""Between two looks at a pipeline."""
WATCH_S = 5 * 3600.0
"""The template's job ends after three hours; a runner may be waited for as well."""
MOST_RUNS = 20
MOST_THREADS = 4
THREAD = "nightshift-chat"

Json = dict[str, Any]
Value = TypeVar("Value")


@dataclass
class Service:
    """The runs that are under way. ``key`` signs buttons, ``redact`` takes secrets out of texts,
    ``log`` takes a line for the operator."""

    settings: ChatSettings
    discord: Discord
    gitlab: GitLab
    turnstile: Turnstile
    key: bytes
    redact: Callable[[str], str]
    log: Callable[[str], None]
    pause_s: float = PAUSE_S
    watch_s: float = WATCH_S
    runs: set[asyncio.Task[None]] = field(default_factory=set)
    _decided: set[int] = field(default_factory=set)
    _threads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_THREADS))

    # --- answers: at once, nothing is waited for ----------------------------------------------

    def called(self, call: Called) -> Json:
        """The answer to ``/coder``; what is asked for goes on behind it."""
        if not self._may(call.person):
            return messages.privately("You may not use this command here.")
        try:
            asked = asked_by(call.options)
        except NightshiftError as error:
            return messages.privately(plain(error.message, 600))
        if len(self.runs) >= MOST_RUNS:
            return messages.privately(f"{MOST_RUNS} tasks are under way: try again later.")
        if not self.turnstile.passes(call.person.user):
            hours = PERIOD_S / 3600
            return messages.privately(f"At most {TASKS} tasks in {hours:.0f} h: try again later.")
        self._behind(self._run(call, asked))
        return messages.LATER

    def clicked(self, click: Clicked) -> Json:
        """The answer to a button."""
        press = messages.read_press(click.custom_id, self.key)
        if press is None or not self._may(click.person):
            return messages.privately("You may not decide this here.")
        if press.pipeline in self._decided:
            return messages.privately("This is decided already.")
        self._decided.add(press.pipeline)
        if not press.approve:
            self.log(f"pipeline {press.pipeline}: refused by {click.person.user}")
            return {"type": 7, "data": messages.refused(click.content, click.person.user)}
        self._behind(self._approve(click, press.pipeline))
        return messages.LATER_IN_PLACE

    def _may(self, person: Person) -> bool:
        allowed = self.settings.may(person.guild, person.user, person.roles)
        if not allowed:
            self.log(f"not allowed: user {person.user} in server {person.guild or 'none'}")
        return allowed

    # --- behind the answers -------------------------------------------------------------------

    def _behind(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guarded(work))
        self.runs.add(task)
        task.add_done_callback(self.runs.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """One run's trouble is a line for the operator and never the end of the service."""
        try:
            await work
        except NightshiftError as error:
            self.log(self.redact(error.message))
        except Exception as error:  # a defect; its text may quote a token
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{place.filename}:{place.lineno}"
            self.log(f"a defect of nightshift: {type(error).__name__} at {where}")

    async def _run(self, call: Called, asked: Asked) -> None:
        try:
            pipeline = await self._ask(lambda: self.gitlab.start(asked))
        except NightshiftError as error:
            self.log(self.redact(f"no pipeline for {call.person.user}: {error.message}"))
            told = messages.not_started(asked, error.message, self.redact)
            await self.discord.edit_answer(call.token, told)
            return
        self.log(f"pipeline {pipeline.id}: started for {call.person.user}")
        told = messages.started(asked, call.person.user, pipeline, self.redact)
        answer = ""
        with contextlib.suppress(NightshiftError):  # the result is worth posting all the same
            answer = await self.discord.edit_answer(call.token, told)
        await self._follow(pipeline, call.channel, answer)

    async def _approve(self, click: Clicked, number: int) -> None:
        try:
            pipeline = await self._ask(lambda: self.gitlab.pipeline(number))
            job = await self._ask(lambda: self.gitlab.approve(number))
        except NightshiftError as error:
            self._decided.discard(number)
            self.log(self.redact(f"pipeline {number}: not approved: {error.message}"))
            told = messages.not_approved(error.message, self.redact)
            await self.discord.post(click.channel, told, click.message)
            return
        self.log(f"pipeline {number}: approved by {click.person.user}")
        with contextlib.suppress(NightshiftError):
            told = messages.approved(click.content, click.person.user)
            await self.discord.edit_answer(click.token, told)
        ended = await self._follow(pipeline, click.channel, click.message, job.name)
        if ended and ended.result.outcome is Outcome.MR_CREATED:
            who = " ".join(
                word for word in (click.person.name, f"(user {click.person.user})") if word
            )
            await self._ask(lambda: self.gitlab.note_approval(ended, who))

    async def _follow(
        self, pipeline: Pipeline, channel: str, answer: str, job: str = ""
    ) -> Ended | None:
        """Look at the pipeline, or one job of it, until it is done; then post what came of it."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.watch_s
        while loop.time() < end:
            await asyncio.sleep(self.pause_s)
            try:
                jobs = await self._ask(lambda: self.gitlab.jobs(pipeline.id))
                if not over(jobs, job):
                    continue
                ended = await self._ask(partial(self.gitlab.result, jobs, job))
            except NightshiftError as error:
                self.log(self.redact(f"pipeline {pipeline.id}: {error.message}"))
                continue
            self.log(f"pipeline {pipeline.id}: ended")
            await self.discord.post(channel, self._told(pipeline, jobs, ended), answer)
            return ended
        why = f"No result after {self.watch_s / 3600:.0f} h; I do not wait any longer:"
        await self.discord.post(channel, messages.unfinished(pipeline, why), answer)
        return None

    def _told(self, pipeline: Pipeline, jobs: tuple[Job, ...], run: Ended | None) -> Json:
        if run is None:
            return messages.unfinished(pipeline, "The pipeline ended without a result:")
        asks = run.result.outcome is Outcome.APPROVAL_REQUIRED and any(map(offers, jobs))
        buttons = messages.buttons(pipeline.id, self.key) if asks else []
        return messages.ended(run, pipeline, buttons, self.redact)

    async def _ask(self, call: Callable[[], Value]) -> Value:
        async with self._threads:
            return await in_thread(call)


async def in_thread(call: Callable[[], Value]) -> Value:
    """``call()`` in a thread that does not hold up the end of the service."""
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
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, deliver, value)

    threading.Thread(target=work, name=THREAD, daemon=True).start()
    return await future
