"""What outlives a test: the folder of things made once for many, and processes that serve them."""

import socket
from pathlib import Path

folder: Path | None = None
"""Set for each run, and removed with it; None outside of one: the machine's temporary folder."""
shared: Path | None = None
"""The same folder for all processes that run tests together; None outside of a run."""
prepared = 0
"""The pid of the process that servers are forked from, where this one has started it."""
services: dict[int, socket.socket] = {}
"""By pid the connection to a process that serves tests, and ends when that is closed."""


def end_services() -> None:
    for connection in services.values():
        connection.close()
    services.clear()
