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
    discord_of,
    environment,
    signed,
)
from tests.support import warm

PLAIN = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "no_proxy": "*"}


def started(*words: str, **env: str) -> warm.Started:
    return warm.start(["chat", "discord", *words], cwd=Path("/"), env={**PLAIN, **env})


def called(*words: str, **env: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr."""
    with started(*words, **env) as process:
        out, err = process.communicate()
        return process.wait(), out.decode(), err.decode()


@pytest.fixture
def serving() -> Iterator[tuple[warm.Started, str]]:
    """The service at its address, with a GitLab that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        gitlab = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        with started("--listen", "127.0.0.1:0", **environment(gitlab)) as process:
            try:
                line = process.stderr.readline().decode()
                found = re.fullmatch(r"listening on (127\.0\.0\.1:\d+)" + PATH + "\n", line)
                assert found, line
                yield process, f"http://{found[1]}"
            finally:
                process.kill()


def posted(url: str, body: bytes, headers: dict[str, str], kind: int = 1) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url + PATH, body, headers)) as answer:
            assert json.load(answer) == {"type": kind}
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_stopped(
    serving: tuple[warm.Started, str], number: signal.Signals
) -> None:
    process, url = serving
    body = b'{"type": 1}'
    assert posted(url, body, signed(body)) == 200
    assert posted(url, body, {}) == 401
    task = json.dumps(coder()).encode()
    assert posted(url, task, signed(task), kind=5) == 200
    process.send_signal(number)
    out, err = process.communicate()
    left = "1 run(s) continue in GitLab; their results will not be posted"
    # Had it waited for GitLab, it would report here what came of it.
    assert (process.returncode, out, err.decode()) == (0, b"", f"stopping\n{left}\n")


def test_what_is_missing_is_told_line_by_line() -> None:
    status, out, err = called()
    assert (status, out) == (2, "")
    lines = err.splitlines()
    assert len(lines) == 8 and all(line.startswith("nightshift: E_CONFIG: ") for line in lines)


def test_a_key_that_is_none_and_a_bad_address_are_told() -> None:
    status, _, err = called(**environment(DISCORD_PUBLIC_KEY="x"))
    assert (status, len(err.splitlines())) == (2, 1)
    assert "DISCORD_PUBLIC_KEY" in err
    status, _, err = called("--listen", "8080", **environment())
    assert status == 2 and "HOST:PORT" in err
    status, _, err = called("--listen", "203.0.113.1:8080", **environment())
    assert (status, len(err.splitlines())) == (2, 1)
    assert BOT_TOKEN not in err and GITLAB_TOKEN not in err


def test_the_command_is_registered_in_the_one_server() -> None:
    fake = FakeDiscord()

    async def story() -> None:
        async with discord_of(fake) as url:
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


def test_why_it_is_not_registered_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discord, "FIRST_PAUSE_S", 0.01)
    fake = FakeDiscord(statuses=[503, 401])

    async def story() -> None:
        async with discord_of(fake) as url:
            await _register(read_application(environment()), url)

    with pytest.raises(NightshiftError, match=r"answered 401.*DISCORD_BOT_TOKEN") as caught:
        asyncio.run(story())
    assert BOT_TOKEN not in caught.value.message


def test_a_discord_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discord, "PATIENCE_S", 0.0)
    with pytest.raises(NightshiftError, match="Discord cannot be reached"):
        asyncio.run(_register(read_application(environment()), "http://127.0.0.1:9"))


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from gitlab_nightshift.cli import build_parser; build_parser();"
        "print([m for m in ('aiohttp', 'cryptography', 'gitlab', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
