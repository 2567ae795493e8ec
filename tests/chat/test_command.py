"""The command itself: a process that serves until it gets a signal to stop."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.chat import discord
from gitlab_nightshift.chat.chat_settings import read_application
from gitlab_nightshift.chat.server import PATH, _register
from gitlab_nightshift.errors import NightshiftError
from tests.chat.tools import (
    APPLICATION,
    BOT_TOKEN,
    GITLAB_TOKEN,
    GUILD,
    FakeDiscord,
    coder,
    environment,
    serve_discord,
    signed,
)
from tests.support import warm

ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "no_proxy": "*"}


def start(*words: str, **env: str) -> warm.Started:
    return warm.start(["chat", "discord", *words], cwd=Path("/"), env={**ENV, **env})


def call(*words: str, **env: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr."""
    with start(*words, **env) as process:
        out, err = process.communicate()
        return process.wait(), out.decode(), err.decode()


@pytest.fixture
def serving() -> Iterator[tuple[warm.Started, str]]:
    """The service at its address, with a GitLab that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        gitlab = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        with start("--listen", "127.0.0.1:0", **environment(gitlab)) as process:
            try:
                line = process.stderr.readline().decode()
                match = re.fullmatch(r"listening on (127\.0\.0\.1:\d+)" + PATH + "\n", line)
                assert match, line
                yield process, f"http://{match[1]}"
            finally:
                process.kill()


def post(url: str, body: bytes, headers: dict[str, str], kind: int = 1) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url + PATH, body, headers)) as answer:
            assert json.load(answer) == {"type": kind}
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_service(
    serving: tuple[warm.Started, str], sent: signal.Signals
) -> None:
    process, url = serving
    body = b'{"type": 1}'
    assert post(url, body, signed(body)) == 200
    assert post(url, body, {}) == 401
    task = json.dumps(coder()).encode()
    assert post(url, task, signed(task), kind=5) == 200
    process.send_signal(sent)
    out, err = process.communicate()
    unfinished = "1 run(s) continue in GitLab; their results will not be posted"
    # The result would follow if the service had waited for GitLab.
    assert (process.returncode, out, err.decode()) == (0, b"", f"stopping\n{unfinished}\n")


def test_each_missing_variable_gets_a_line() -> None:
    status, out, err = call()
    assert (status, out) == (2, "")
    lines = err.splitlines()
    assert len(lines) == 8 and all(line.startswith("nightshift: E_CONFIG: ") for line in lines)


def test_an_invalid_key_and_address_are_errors() -> None:
    status, _, err = call(**environment(DISCORD_PUBLIC_KEY="x"))
    assert (status, len(err.splitlines())) == (2, 1)
    assert "DISCORD_PUBLIC_KEY" in err
    status, _, err = call("--listen", "8080", **environment())
    assert status == 2 and "HOST:PORT" in err
    status, _, err = call("--listen", "203.0.113.1:8080", **environment())
    assert (status, len(err.splitlines())) == (2, 1)
    assert BOT_TOKEN not in err and GITLAB_TOKEN not in err


def test_the_command_is_registered_in_the_one_server() -> None:
    fake = FakeDiscord()

    async def story() -> None:
        async with serve_discord(fake) as url:
            await _register(read_application(environment()), url)

    asyncio.run(story())
    [sent] = fake.sent
    assert sent.path == f"/applications/{APPLICATION}/guilds/{GUILD}/commands"
    assert (sent.method, sent.authorization) == ("POST", f"Bot {BOT_TOKEN}")
    assert (sent.body["name"], sent.body["type"]) == ("coder", 1)
    options = {each["name"]: each for each in sent.body["options"]}
    assert list(options) == ["task", "provider", "model", "dry_run", "test"]
    assert options["task"]["required"] is True and options["dry_run"]["type"] == 5
    assert all(len(each["description"]) <= 100 for each in options.values())


def test_a_refused_registration_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discord, "FIRST_PAUSE_S", 0.01)
    fake = FakeDiscord(statuses=[503, 401])

    async def story() -> None:
        async with serve_discord(fake) as url:
            await _register(read_application(environment()), url)

    with pytest.raises(NightshiftError, match=r"answered 401.*DISCORD_BOT_TOKEN") as caught:
        asyncio.run(story())
    assert BOT_TOKEN not in caught.value.message


def test_an_unreachable_discord_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discord, "PATIENCE_S", 0.0)
    with pytest.raises(NightshiftError, match="Discord cannot be reached"):
        asyncio.run(_register(read_application(environment()), "http://127.0.0.1:9"))


def test_help_imports_no_large_library() -> None:
    code = (
        "import sys; from gitlab_nightshift.cli import build_parser; build_parser();"
        "print([m for m in ('aiohttp', 'cryptography', 'gitlab', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
