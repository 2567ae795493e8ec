"""The endpoint over HTTP: which requests it accepts, and its immediate answers."""

import asyncio
import json
import socket
import threading
import time

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gitlab_nightshift.chat import pipeline_runs, server
from gitlab_nightshift.chat.chat_settings import ChatSettings
from gitlab_nightshift.chat.discord import MOST_TASKS
from gitlab_nightshift.chat.server import THREAD_NAME
from gitlab_nightshift.errors import NightshiftError
from tests.chat.tools import (
    ADA,
    APPLICATION,
    EVE,
    ROLE,
    Json,
    chat,
    chat_settings,
    coder,
    interaction,
    press,
    run,
    signed,
)
from tests.support.trees import wait_for

UNREACHABLE = chat_settings("http://127.0.0.1:9")
PING = {"id": "1" * 18, "application_id": APPLICATION, "type": 1, "version": 1}


def answers(*requests: Json, settings: ChatSettings = UNREACHABLE) -> list[Json]:
    """The immediate answers to these requests; no GitLab is reachable."""
    answers: list[Json] = []

    async def story() -> None:
        async with chat(settings) as here:
            answers.extend([await here.ask(request) for request in requests])

    run(story)
    return answers


def private_text(answer: Json) -> str:
    """The text of an answer that only the person sees."""
    assert (answer["type"], answer["data"]["flags"]) == (4, 64)
    assert answer["data"]["allowed_mentions"] == {"parse": []}
    return str(answer["data"]["content"])


def test_a_ping_is_answered() -> None:
    assert answers(PING) == [{"type": 1}]


def test_only_signed_and_new_requests_are_accepted() -> None:
    body = json.dumps(PING).encode()
    headers = signed(body)

    async def story() -> None:
        async with chat(UNREACHABLE) as here:
            assert (await here.send(body, {}))[0] == 401
            assert (await here.send(body, signed(body, Ed25519PrivateKey.generate())))[0] == 401
            assert (await here.send(body, signed(body, at=time.time() - 900)))[0] == 401
            assert (await here.send(body + b" ", headers))[0] == 401
            assert await here.send(body, headers) == (200, {"type": 1})
            assert (await here.send(body, headers))[0] == 401

    run(story)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"{",
        b"[" * 30_000,
        b"null",
        b"[]",
        b'{"type": 9}',
        b'{"type": 2}',
        {**coder(), "application_id": "9" * 18},
        {**coder(), "token": "../../channels/1"},
        {**coder(), "channel_id": "1/../2"},
        {**coder(), "member": None},
        interaction(2, {"name": "other", "options": []}),
        interaction(3, {"custom_id": "x"}),
        interaction(5, {"custom_id": "x"}),
    ],
)
def test_an_invalid_signed_request_gets_a_400(sent: Json | bytes) -> None:
    async def story() -> None:
        async with chat(UNREACHABLE) as here:
            status, _ = await here.send(sent)
            assert status == 400
            assert (await here.ask(PING)) == {"type": 1}

    run(story)


def test_a_large_body_is_not_read() -> None:
    async def story() -> None:
        async with chat(UNREACHABLE) as here:
            assert (await here.send(b"x" * (server.LARGEST_BODY + 1)))[0] == 413

    run(story)


def test_a_slow_body_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_TIMEOUT_S", 0.2)

    async def story() -> None:
        async with chat(UNREACHABLE) as here:
            port = int(here.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"POST {server.PATH} HTTP/1.1\r\nHost: x\r\n".encode())
            writer.write(b"Content-Length: 10\r\n\r\n12")
            assert b"408" in await reader.readline()
            writer.close()

    run(story)


def test_there_is_a_health_check_and_no_other_path() -> None:
    async def story() -> None:
        async with chat(UNREACHABLE) as here:
            for path, status in (("/healthz", 200), (server.PATH, 405), ("/", 404)):
                async with here.session.get(here.url + path) as response:
                    assert response.status == status

    run(story)


def test_answers_are_in_time_while_gitlab_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads wait for GitLab; neither the answers nor the end of the service do."""
    for name in ("TIMEOUT_S", "PATIENCE_S"):
        monkeypatch.setattr(pipeline_runs, name, 3600.0)

    async def story() -> None:
        async with chat(chat_settings(url)) as here:
            for _ in range(MOST_TASKS):
                assert await here.ask(coder()) == {"type": 5}
            assert await here.ask(PING) == {"type": 1}

    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        run(story)
    wait_for(lambda: not gitlab_threads(), "no thread waits for GitLab")


def gitlab_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME)]


def test_others_may_not_use_the_command() -> None:
    eve = {"user": {"id": EVE, "username": "eve"}, "roles": []}
    outside = coder() | {"user": {"id": ADA}, "member": None, "guild_id": None}
    stranger = coder() | {"member": eve}
    elsewhere = coder() | {"guild_id": "9" * 18}
    for answer in answers(outside, stranger, elsewhere):
        assert "may not use" in private_text(answer)


def test_a_role_may_use_the_command() -> None:
    settings = chat_settings("http://127.0.0.1:9", DISCORD_ALLOWED_ROLES=ROLE)
    eve = {"user": {"id": EVE, "username": "eve"}, "roles": [ROLE]}
    assert answers(coder() | {"member": eve}, settings=settings) == [{"type": 5}]


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        (coder(" "), "there is no task"),
        (coder("mend it --dryrun"), "did you mean \\--dry-run"),
        (coder("mend it --provider gpt"), "claude\\_code"),
        (coder(provider="gpt"), "claude\\_code"),
        (coder(test="unit " + "x " * 200), "at most 100 arguments"),
        (interaction(2, {"name": "coder", "options": [{"name": "task", "value": 7}]}), "a text"),
    ],
)
def test_only_the_person_sees_the_error(asked: Json, part: str) -> None:
    (answer,) = answers(asked)
    assert part.replace("\\--", "--") in private_text(answer)


def test_the_tasks_of_a_person_are_limited() -> None:
    *first, last = answers(*[coder() for _ in range(MOST_TASKS + 1)])
    assert first == [{"type": 5}] * MOST_TASKS
    assert f"At most {MOST_TASKS} tasks" in private_text(last)


def test_a_forged_button_does_nothing() -> None:
    forged = [f"ns:approve:1:{'0' * 32}", "ns:approve:1", "approve", "", "ns:approve:1:zz"]
    for answer in answers(*[press(each) for each in forged]):
        assert "may not decide" in private_text(answer)


def test_an_address_in_use_is_an_error() -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = ("127.0.0.1", listener.getsockname()[1])
            with pytest.raises(NightshiftError, match="address already in use"):
                async with server.open_service(UNREACHABLE, address, print):
                    pass

    run(story)
