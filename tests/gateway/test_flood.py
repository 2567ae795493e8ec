"""An endpoint that sends a gigabyte."""

import json
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

from gitlab_nightshift.gateway.limits import GatewayLimits
from tests.gateway.tools import STREAM, RawEndpoint, client, message

CHUNK = b"x" * (1 << 20)
ROOT = Path(__file__).parents[2]


def flood(report: Path) -> None:
    """Megabytes that memory has grown by, that were sent unread, and that came."""
    sent = [0]

    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(STREAM)
        for _ in range(1024):
            connection.sendall(CHUNK)
            sent[0] += 1

    raw = json.dumps(message(stream=True)).encode()
    limits = GatewayLimits(answer_bytes=96 << 20)
    with RawEndpoint(play) as endpoint, client(endpoint.url, limits=limits) as agent:
        head = "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        head += f"X-Api-Key: {agent.ticket.placeholder}\r\nContent-Length: {len(raw)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", agent.port), 60) as connection:
            connection.sendall(head.encode() + raw)
            connection.recv(65536)
            before = peak()
            time.sleep(0.7)  # reads nothing
            unread, got = sent[0], 0
            while chunk := connection.recv(1 << 20):
                got += len(chunk)
        grown = peak() - before
    report.write_text(json.dumps({"grown": grown, "unread": unread, "got": got >> 20}))


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def test_a_flood_costs_little_memory(tmp_path: Path) -> None:
    """One gigabyte in one line: passed on as fast as it is read, cut at the limit."""
    # In a process of its own, for its memory. Not a fork: of the threads that pytest's process has,
    # one may hold a lock for ever there.
    start = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.gateway import test_flood as t"
    )
    code = f"{start}; t.flood(t.Path({str(tmp_path / 'report')!r}))"
    subprocess.run([sys.executable, "-I", "-c", code], check=True, timeout=300)
    seen = json.loads((tmp_path / "report").read_text())
    assert seen["unread"] < 40, seen
    assert seen["grown"] < 48, seen
    assert 64 < seen["got"] <= 96, seen
