"""The chat service over HTTP, signed requests, a Discord that records, and GitLab's stand-in."""

import asyncio
import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gitlab_nightshift import __version__
from gitlab_nightshift.chat.chat_settings import ChatSettings, read_chat_settings
from gitlab_nightshift.chat.server import PATH, open_service
from gitlab_nightshift.demo.standin_state import MAINTAINER
from gitlab_nightshift.records.bead_results import (
    AnalysisCandidate,
    AnalysisResult,
    CommandResult,
    Draft,
    Verdict,
)
from gitlab_nightshift.records.products import Bundle, Outcome, Proposal, ProposedChange
from gitlab_nightshift.records.run_results import RunResult, build_command_finding
from gitlab_nightshift.records.storage import write_record
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject

Json = dict[str, Any]

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
APPLICATION, GUILD, CHANNEL = "111111111111111111", "222222222222222222", "333333333333333333"
ADA, EVE, ROLE = "444444444444444444", "555555555555555555", "666666666666666666"
MESSAGE = "777777777777777777"
BOT_TOKEN = "MTExMTExMTEx.GChatBot.TokenOfTheBot0123456789abcd"
GITLAB_TOKEN = "glpat-TokenOfTheChat0001"
TOKEN = "aW50ZXJhY3Rpb24tdG9rZW4"
TASK = "Round prices to whole cents"
TIMEOUT_S = 60.0
"""For a message or a log line, on a busy machine."""


def environment(gitlab_url: str = "https://gitlab.example", **more: str) -> dict[str, str]:
    """The variables of a service that Ada may use."""
    return {
        "DISCORD_APPLICATION_ID": APPLICATION,
        "DISCORD_PUBLIC_KEY": KEY.public_key().public_bytes_raw().hex(),
        "DISCORD_BOT_TOKEN": BOT_TOKEN,
        "DISCORD_GUILD_ID": GUILD,
        "DISCORD_ALLOWED_USERS": ADA,
        "GITLAB_URL": gitlab_url,
        "GITLAB_PROJECT": "acme/shop",
        "GITLAB_TOKEN": GITLAB_TOKEN,
        **more,
    }


def chat_settings(gitlab_url: str = "https://gitlab.example", **more: str) -> ChatSettings:
    return read_chat_settings(environment(gitlab_url, **more))


def signed(body: bytes, key: Ed25519PrivateKey = KEY, at: float | None = None) -> dict[str, str]:
    """The headers with which Discord would send this body."""
    timestamp = str(int(time.time() if at is None else at))
    signature = key.sign(timestamp.encode() + body).hex()
    return {"X-Signature-Ed25519": signature, "X-Signature-Timestamp": timestamp}


_numbers = itertools.count(800_000_000_000_000_000)


def interaction(kind: int, data: Json, **more: Any) -> Json:
    """Discord's JSON for an interaction of Ada in the server."""
    return {
        "id": str(next(_numbers)),
        "application_id": APPLICATION,
        "type": kind,
        "token": TOKEN,
        "version": 1,
        "guild_id": GUILD,
        "channel_id": CHANNEL,
        "channel": {"id": CHANNEL, "type": 0},
        "member": {"user": {"id": ADA, "username": "ada"}, "roles": [], "permissions": "0"},
        "locale": "en-GB",
        "data": data,
        **more,
    }


def coder(task: str = TASK, **options: Any) -> Json:
    """Discord's JSON for a call of ``/coder`` with these options."""
    kinds = {str: 3, bool: 5}
    listed = [
        {"name": name, "type": kinds[type(value)], "value": value}
        for name, value in {"task": task, **options}.items()
    ]
    return interaction(2, {"id": "9" * 18, "name": "coder", "type": 1, "options": listed})


def press(custom_id: str, content: str = "**A gate asks for an approval**", **more: Any) -> Json:
    """Discord's JSON for a click on a button of the message MESSAGE."""
    message = {"id": MESSAGE, "content": content, "channel_id": CHANNEL}
    return interaction(3, {"custom_id": custom_id, "component_type": 2}, message=message, **more)


@dataclass(frozen=True)
class Sent:
    """A request that Discord received."""

    method: str
    path: str
    authorization: str
    body: Json

    @property
    def text(self) -> str:
        return str(self.body["content"])

    @property
    def custom_ids(self) -> list[str]:
        rows = self.body.get("components") or []
        return [button["custom_id"] for row in rows for button in row["components"]]


@dataclass
class FakeDiscord:
    """Records what the bot sends; the next answers have ``statuses``, the others 200."""

    sent: list[Sent] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        status = self.statuses.pop(0) if self.statuses else 200
        authorization = request.headers.get("Authorization", "")
        assert request.headers["User-Agent"] == f"DiscordBot (gitlab-nightshift, {__version__})"
        if status == 200:
            body = await request.json()
            self.sent.append(Sent(request.method, request.path, authorization, body))
            return web.json_response({"id": MESSAGE})
        headers = {"Retry-After": "0.01"} if status == 429 else {}
        answer = {"message": f"{status}: told so", "code": 0}
        return web.json_response(answer, status=status, headers=headers)

    async def nth(self, number: int) -> Sent:
        """Wait for the ``number``-th message that is sent."""
        deadline = time.monotonic() + TIMEOUT_S
        while len(self.sent) < number:
            assert time.monotonic() < deadline, f"only {len(self.sent)} messages were sent"
            await asyncio.sleep(0.01)
        return self.sent[number - 1]


@dataclass
class Chat:
    """The running service, the Discord it talks to, and its log."""

    url: str
    discord: FakeDiscord
    log: list[str]
    session: aiohttp.ClientSession

    async def send(
        self, sent: Json | bytes, headers: dict[str, str] | None = None
    ) -> tuple[int, Json]:
        """Status and answer of a request, which is signed unless it has other ``headers``."""
        body = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
        headers = signed(body) if headers is None else headers
        async with self.session.post(self.url + PATH, data=body, headers=headers) as response:
            text = await response.text()
            is_json = response.content_type == "application/json"
            return response.status, json.loads(text) if is_json else {}

    async def ask(self, sent: Json) -> Json:
        """The answer to a request that is accepted."""
        status, answer = await self.send(sent)
        assert status == 200
        return answer

    async def logged(self, part: str) -> str:
        """Wait for a line of the log that contains ``part``."""
        deadline = time.monotonic() + TIMEOUT_S
        while not (lines := [line for line in self.log if part in line]):
            assert time.monotonic() < deadline, self.log
            await asyncio.sleep(0.01)
        return lines[0]


@contextlib.asynccontextmanager
async def serve_discord(fake: FakeDiscord) -> AsyncIterator[str]:
    """Serve the fake over HTTP, and yield its URL."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", fake.take)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def chat(settings: ChatSettings, *, longest_watch_s: float = 60.0) -> AsyncIterator[Chat]:
    """The service with a Discord of its own."""
    fake, log = FakeDiscord(), list[str]()
    async with (
        serve_discord(fake) as url,
        open_service(
            settings,
            ("127.0.0.1", 0),
            log.append,
            discord_url=url,
            poll_interval_s=0.02,
            longest_watch_s=longest_watch_s,
        ) as port,
        aiohttp.ClientSession() as session,
    ):
        yield Chat(f"http://127.0.0.1:{port}", fake, log, session)


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine function, within a time limit."""
    asyncio.run(asyncio.wait_for(story(), 300))


# --- GitLab ---------------------------------------------------------------------------------------


def shop(gitlab: FullStandin, level: int = MAINTAINER) -> FullProject:
    """A project with a commit on main, whose pipelines have the night's jobs."""
    bot = gitlab.add_user("project_7_bot_chat", "Chat", bot=True)
    gitlab.add_token(GITLAB_TOKEN, bot, ("api",), level)
    project = gitlab.add_project("acme/shop")
    project.pipeline_jobs = {"nightshift": "pending", "nightshift:approve": "created"}
    tree = _git(project, "hash-object", "-t", "tree", "-w", "/dev/null")
    commit = _git(project, "commit-tree", "-m", "Begin", tree)
    _git(project, "update-ref", "refs/heads/main", commit)
    return project


def _git(project: FullProject, *words: str) -> str:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.com")
    process = subprocess.run(
        ["git", *identity, *words],
        cwd=project.bare_repository,
        check=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    return process.stdout.decode().strip()


CHANGE = ProposedChange(("shop.py", "test_shop.py"), 12, 3, "a" * 40)
PASSED = CommandResult("make test", 0, 4.2)


def write_artifacts(
    folder: Path,
    result: RunResult,
    change: ProposedChange | None = CHANGE,
    commands: tuple[CommandResult, ...] = (PASSED,),
    title: str = "Round prices to whole cents",
) -> Path:
    """Write artifacts into the folder as a job leaves them, and return it."""
    output = folder / "nightshift"
    (output / "bundle").mkdir(parents=True)
    if change is not None:
        reported = tuple(map(build_command_finding, commands))
        result = replace(result, commands=reported)
    write_record(output / "result.json", result)
    proposal = (
        None
        if change is None
        else Proposal(
            change=change,
            category="task",
            is_fallback=False,
            analysis=AnalysisResult("IMPROVEMENT_FOUND", selected=AnalysisCandidate((), TASK)),
            draft=Draft(title=title, summary="Prices are whole."),
            verdict=Verdict(passed=True),
        )
    )
    bundle = Bundle(
        result.run_id, "2025-11-24T02:00:00Z", "b" * 40, "main", result.outcome, proposal=proposal
    )
    write_record(output / "bundle" / "bundle.json", bundle)
    return folder


def result(outcome: Outcome, **more: Any) -> RunResult:
    """A run's result, with a cost."""
    result = RunResult("60001", outcome, total_cost_usd=1.25, total_duration_s=600.0)
    return replace(result, **more)
