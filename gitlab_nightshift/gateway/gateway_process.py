"""The gateway's process: it holds the model key and a company proxy's credentials, and reads
agents' HTTP requests. It can read only its own code, the system's libraries and certificates.

It ends when its control socket or its report pipe is closed, and ignores signals until then, as
beads' usage is settled at the end.
"""

import os
import signal
import socket
from typing import Any

from gitlab_nightshift.system.processes import forbid_inspection

CONFIG_BYTES = 4 * 1024 * 1024


def main(data: dict[str, Any]) -> int:
    """Serve until the end; returns the exit status. Of ``data["descriptors"]``, ``config`` is read
    to its end (if it is empty, no gateway is needed), ``control`` is the socket of
    :mod:`control_socket`, ``report`` the pipe of :mod:`usage_reports`. With ``data["likely"]`` the
    modules are loaded before the configuration is read."""
    # A signal to the group must not end it before its beads' costs are settled.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    forbid_inspection()  # before the keys are read
    descriptors = data["descriptors"]
    if data["likely"]:
        from gitlab_nightshift.gateway import control_socket  # noqa: F401
    with os.fdopen(descriptors["config"], "rb") as file:
        config_json = file.read(CONFIG_BYTES)
    if config_json:
        from gitlab_nightshift.gateway.control_socket import serve

        serve(config_json, socket.socket(fileno=descriptors["control"]), descriptors["report"])
    return 0
