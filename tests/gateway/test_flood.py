"""An endpoint that sends a gigabyte."""

import json
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

from gitlab_nightshift.gateway.limits import GatewayLimits
from tests.gateway.counting import request_bytes
from tests.gateway.tools import STREAM, RawEndpoint, client

CHUNK = b"x" * (1 << 20)
ROOT = Path(__file__).parents[2]


def flood(report: Path) -> None:
    """Report the megabytes by which memory has grown, that were sent unread, and received."""
    sent = 0

    def play(connection: socket.socket, number: int) -> None:
        nonlocal sent
        connection.sendall(STREAM)
        for _ in range(1024):
            connection.sendall(CHUNK)
            sent += 1

    limits = GatewayLimits(answer_bytes=96 << 20)
    with RawEndpoint(play) as endpoint, client(endpoint.url, limits=limits) as agent:
        with socket.create_connection(("127.0.0.1", agent.port), 60) as connection:
            connection.sendall(request_bytes(agent, stream=True))
            connection.recv(65536)
            before = peak()
            time.sleep(0.7)  # reads nothing
            unread, received = sent, 0
            while chunk := connection.recv(1 << 20):
                received += len(chunk)
        grown = peak() - before
    report.write_text(json.dumps({"grown": grown, "unread": unread, "received": received >> 20}))


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def test_a_flood_costs_little_memory(tmp_path: Path) -> None:
    """One gigabyte in one line: passed on as fast as it is read, cut off at the limit."""
    # In another process, to measure its memory. Not in a fork: one of the threads of pytest's
    # process may hold a lock, which nobody would release there.
    start = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.gateway import test_flood as t"
    )
    code = f"{start}; t.flood(t.Path({str(tmp_path / 'report')!r}))"
    subprocess.run([sys.executable, "-I", "-c", code], check=True, timeout=300)
    megabytes = json.loads((tmp_path / "report").read_text())
    assert megabytes["unread"] < 40, megabytes
    assert megabytes["grown"] < 48, megabytes
    assert 64 < megabytes["received"] <= 96, megabytes
