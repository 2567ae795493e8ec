"""A hostile agent in place of the CLI: reports what it could access, and runs commands.

Run as ``claude``; standard library only. ``@PLACES@`` is filled in by the test.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PLACES = json.loads("""@PLACES@""")
REFUSED = {"type": "system", "subtype": "api_retry", "error_status": 401}
"""Three of these from an agent end its night."""


def tried(name: str, attempt: Callable[[], object]) -> dict[str, str]:
    try:
        return {name: f"open: {attempt()!r}"[:2000]}
    except Exception as error:
        return {name: f"closed: {error}"}


def environments() -> str:
    found = b""
    pid = os.getppid()
    while pid > 0:
        with suppress(PermissionError):
            found += Path(f"/proc/{pid}/environ").read_bytes()
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found.decode(errors="replace")


def connected() -> str:
    with socket.create_connection(("127.0.0.1", PLACES["port"]), 60) as way:
        return str(way.getpeername())


def daemon() -> int:
    script = f"while sleep 0.05; do echo alive >> {PLACES['daemon']}; done"
    return subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True).pid


def attacks() -> dict[str, str]:
    found = {"environment": " ".join(f"{k}={v}" for k, v in os.environ.items())}
    found |= tried("ancestors", environments)
    for name in PLACES["files"]:
        found |= tried(name, Path(name).read_text)
    found |= tried("outside", lambda: Path(PLACES["outside"]).write_text("was here"))
    found |= tried("network", connected)
    found |= tried("daemon", daemon)
    return found


def main() -> int:
    sys.stdin.read()
    print(json.dumps({"found": attacks()}), flush=True)
    subprocess.run(["/bin/sh", "-c", PLACES["commands"]], stderr=subprocess.STDOUT, check=False)
    for _ in range(3):
        print(json.dumps(REFUSED))
    return 0


if __name__ == "__main__":
    sys.exit(main())
