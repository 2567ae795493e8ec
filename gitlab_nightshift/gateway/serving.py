"""Runs the gateway in its process once it is configured."""

import asyncio
import contextlib
import os
import socket
from typing import Any

from gitlab_nightshift.gateway.control_socket import Control
from gitlab_nightshift.gateway.gateway_config import GatewayConfig, from_bytes
from gitlab_nightshift.gateway.usage_reports import Reports
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.sandbox.privilege_drop import restrict_to
from gitlab_nightshift.sandbox.process_places import find_rights
from gitlab_nightshift.sandbox.process_table import GATEWAY

REPORT_S = 1.0
"""Seconds after which reports that did not fit into the pipe are tried again."""
LAST_REPORT_S = 5.0
"""Seconds that the reader gets for the last reports."""


def serve(raw: bytes, link: socket.socket, report: int) -> None:
    """Serve the configuration ``raw`` until the client is gone."""
    config = from_bytes(raw)
    confine(config)  # before the first byte of an agent is read
    asyncio.run(_serve(config, link, report))


def confine(config: GatewayConfig) -> None:
    """Drop all rights but those of its row in the process table, and to the CA files of the model's
    endpoint. Raises OSError."""
    endpoint = config.upstream
    named = (*endpoint.ca_files, endpoint.ca_dir) if endpoint else ()
    places = {"named": [str(path) for path in named if path]}
    restrict_to(find_rights(GATEWAY, places, os.environ))


async def _serve(config: GatewayConfig, link: socket.socket, pipe: int) -> None:
    reports, loop = Reports(pipe), asyncio.get_running_loop()
    control = Control(link, config, lambda: reports.tell(control.list_usage()))
    loop.set_exception_handler(lambda _, context: control.keep_note(_build_fault_note(context)))
    # A pipe's write end gets ready (POLLERR) once its reader has closed it: poll(2).
    loop.add_reader(pipe, control.over.set)
    telling = asyncio.create_task(_tell(reports, control))
    await control.serve()
    telling.cancel()
    loop.remove_reader(pipe)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_REPORT_S):
            while not reports.tell(control.list_usage()):
                await asyncio.sleep(0.05)


async def _tell(reports: Reports, control: Control) -> None:
    while True:
        await asyncio.sleep(REPORT_S)
        reports.tell(control.list_usage())


def _build_fault_note(context: dict[str, Any]) -> Note:
    name = type(context.get("exception")).__name__
    return Note(f"the model gateway failed: {name}", warning=True)
