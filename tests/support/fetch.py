"""Tries what a process can connect to, as a team's command or an agent's CLI; prints JSON.

Standard library only. ``@PLACES@`` is filled in by the test: ``tunnels`` are ``host:port``, asked
by CONNECT; ``urls`` are plain http addresses, asked by what the environment says; ``direct`` are
``[host, port]``.
"""

import base64
import json
import os
import socket
import sys
import urllib.request
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

PLACES = json.loads("""@PLACES@""")
REFUSED = {"type": "system", "subtype": "api_retry", "error_status": 401}
"""Three of these from an agent end its night."""
LIMIT_S = 60


def tried(attempt: Callable[[], str]) -> str:
    try:
        return attempt()
    except Exception as error:
        return f"closed: {error}"


def tunnel(target: str) -> str:
    proxy = urlsplit(os.environ["HTTPS_PROXY"])
    code = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
    head = f"CONNECT {target} HTTP/1.1\r\nProxy-Authorization: Basic {code}\r\n\r\n"
    with socket.create_connection((proxy.hostname, proxy.port), LIMIT_S) as way:
        way.sendall(head.encode())
        answer = way.recv(4096).decode()
        return body(way) if answer.startswith("HTTP/1.1 200") else f"closed: {answer}"


def body(way: socket.socket) -> str:
    way.sendall(b"GET / HTTP/1.0\r\n\r\n")
    return way.makefile("rb").read().decode().partition("\r\n\r\n")[2]


def plain(url: str) -> str:
    with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
        return str(answer.read().decode())


def direct(host: str, port: int) -> str:
    with socket.create_connection((host, port), LIMIT_S) as way:
        return body(way)


def main() -> int:
    found = {f"CONNECT {target}": tried(partial(tunnel, target)) for target in PLACES["tunnels"]}
    found |= {f"GET {url}": tried(partial(plain, url)) for url in PLACES["urls"]}
    found |= {f"direct {h}:{p}": tried(partial(direct, h, p)) for h, p in PLACES["direct"]}
    env = " ".join(f"{name}={value}" for name, value in os.environ.items())
    print(json.dumps({"found": found, "environment": env}))
    for _ in range(3):
        print(json.dumps(REFUSED))
    return 0


if __name__ == "__main__":
    sys.exit(main())
