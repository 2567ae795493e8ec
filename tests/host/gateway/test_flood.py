"""An endpoint that sends a gigabyte."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
FLOOD = """
import json, resource, socket, sys, threading, time
from gitlab_nightshift.host.gateway import Limits
from tests.host.gateway.tools import STREAM, RawEndpoint, client, message

CHUNK = b"x" * (1 << 20)
sent = [0]

def play(connection, number):
    connection.sendall(STREAM)
    for _ in range(1024):
        connection.sendall(CHUNK)
        sent[0] += 1

def post(agent):
    raw = json.dumps(message(stream=True)).encode()
    head = f"POST /v1/messages HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/json\\r\\n"
    head += f"X-Api-Key: {agent.ticket.placeholder}\\r\\nContent-Length: {len(raw)}\\r\\n\\r\\n"
    connection = socket.create_connection(("127.0.0.1", agent.port), 10)
    connection.sendall(head.encode() + raw)
    return connection

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

limits = Limits(answer_bytes=192 << 20)
with RawEndpoint(play) as endpoint, client(endpoint.url, limits=limits) as agent:
    with post(agent) as connection:
        connection.recv(65536)
        before = peak()
        time.sleep(0.7)  # reads nothing
        unread, got = sent[0], 0
        while chunk := connection.recv(1 << 20):
            got += len(chunk)
    print(json.dumps({"grown": peak() - before, "unread": unread, "got": got >> 20}))
"""


def test_a_flood_costs_little_memory() -> None:
    """One gigabyte in one line: passed on as fast as it is read, cut at the limit."""
    done = subprocess.run(
        [sys.executable, "-c", FLOOD], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert done.stdout, done.stderr.decode()
    seen = json.loads(done.stdout)
    assert seen["unread"] < 40, seen
    assert seen["grown"] < 64, seen
    assert 150 < seen["got"] <= 192, seen
