"""Nights of an agent that hangs up on the model, which goes on with its answers all the same."""

import contextlib
import shlex
import sys
import threading
from pathlib import Path

import pytest

from tests.gateway.counting import Provider
from tests.gateway.tools import RawEndpoint
from tests.nights_endings.test_signals import stopped
from tests.support.agent import Step, hang, plays, sh
from tests.support.shop import GOOD
from tests.support.trees import wait_for
from tests.support.world import world

LEAVES = """
import json, os, pathlib, socket, sys, urllib.parse
where = urllib.parse.urlsplit(os.environ["ANTHROPIC_BASE_URL"])
said = [{"role": "user", "content": "Think."}]
body = {"model": sys.argv[2], "max_tokens": 5000, "stream": True, "messages": said}
raw = json.dumps(body)
head = (
    "POST /v1/messages HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/json\\r\\n"
    f"X-Api-Key: {os.environ['ANTHROPIC_API_KEY']}\\r\\nContent-Length: {len(raw)}\\r\\n\\r\\n"
)
for _ in range(3):
    with socket.create_connection((where.hostname, where.port)) as one:
        one.sendall((head + raw).encode())
        found = b""
        while b"Well" not in found:
            found += one.recv(65536) or sys.exit("nothing came")
pathlib.Path(sys.argv[1]).touch()
"""
"""Three answers are asked for and left as soon as they begin; then the file tells it."""


def leaves(marker: Path) -> Step:
    model = "claude-opus-4-6"
    return sh(shlex.join([sys.executable, "-IS", "-c", LEAVES, str(marker), model]))


def test_answers_that_an_agent_has_left_count_as_they_were_made(tmp_path: Path) -> None:
    left, provider = tmp_path / "left", Provider()
    play = plays(GOOD, {"analyze": [leaves(left), *GOOD["analyze"]]})

    def rest() -> None:
        wait_for(left.exists, "the agent has hung up")
        provider.go_on.set()

    with (
        RawEndpoint(provider.play) as provider.endpoint,
        world(tmp_path / "w", play) as shop,
    ):
        making = threading.Thread(target=rest)
        making.start()
        done = shop.nightshift("run", ANTHROPIC_BASE_URL=provider.endpoint.url)
        making.join()

        result = shop.result
        assert (done.exit_status, result["outcome"]) == (0, "MR_CREATED")
        assert provider.finished == 3
        assert result["total_cost_usd"] == pytest.approx(provider.produced_usd)
        assert (result["total_tokens"], result["assumed_tokens"]) == (3 * 5400, 0)
        assert "at most" not in done.last_line


def test_a_night_that_is_stopped_counts_the_worst_case_and_tells_it(tmp_path: Path) -> None:
    """Stopped in the bead, and after it, while its answers are waited for."""
    left, provider = tmp_path / "left", Provider()
    with (
        RawEndpoint(provider.play) as provider.endpoint,
        world(tmp_path / "w", GOOD) as shop,
    ):
        shop.env["ANTHROPIC_BASE_URL"] = provider.endpoint.url
        agent = str(shop.agent.bin).encode()
        for play, reached in (
            ([leaves(left), hang()], lambda: shop.agent.hanging),
            ([leaves(left)], lambda: left.exists() and not running(agent)),
        ):
            left.unlink(missing_ok=True)
            provider.produced_usd = 0.0
            shop.agent.script(plays(GOOD, {"analyze": play}))
            done = stopped(shop, reached)

            result = shop.result
            assert (done.exit_status, left.exists()) == (143, True)
            assert result["total_cost_usd"] >= provider.produced_usd > 0
            assert result["assumed_cost_usd"] > 3 * 4900 * 25e-6
            assert result["beads"][0]["usage"]["assumed_tokens"] == result["assumed_tokens"]
            assert "at most $0.38, 16k tokens ($0.37 of it assumed: the end of" in done.last_line
        provider.go_on.set()


def running(program: bytes) -> bool:
    """True while a process has this text in its command line."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(file.read_bytes())
    return any(program in line for line in lines)
