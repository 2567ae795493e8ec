"""What the gateway's process does once it knows what it serves."""

import asyncio
import contextlib
import socket
import ssl
import sys
from pathlib import Path
from typing import Any

from gitlab_nightshift.events import Note
from gitlab_nightshift.gateway.control_socket import Control
from gitlab_nightshift.gateway.gateway_config import GatewayConfig, from_bytes
from gitlab_nightshift.gateway.usage_reports import Reports
from gitlab_nightshift.sandbox.inside import kernel, landlock

REPORT_S = 1.0
"""Seconds between two looks at what the pipe could not take."""
LAST_REPORT_S = 5.0
"""Seconds that whoever reads the reports has to take the last of them."""
_PACKAGE = Path(__file__).parents[1]
_PUBLIC = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates"),
    *("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf"),
)
"""Libraries, certificates, and what a name is looked up with."""


def serve(raw: bytes, link: socket.socket, report: int) -> None:
    """Serve the configuration ``raw`` until nobody asks any more."""
    config = from_bytes(raw)
    confine(config)
    asyncio.run(_serve(config, link, report))


def confine(config: GatewayConfig) -> None:
    """Give up all other files, where the kernel has Landlock. Raises OSError."""
    if version := min(landlock.read_abi(), landlock.LATEST):
        kernel.call_prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        paths = landlock.LandlockPaths(
            _list_readable(config), [], [], ["/dev/null", "/dev/urandom"]
        )
        landlock.restrict(version, paths, None)


def _list_readable(config: GatewayConfig) -> list[str]:
    """Without the folder around the package where only that is ours."""
    shared = ("site-packages", "dist-packages")
    around = str(_PACKAGE.parent)
    own = [str(_PACKAGE), *(p for p in sys.path if p != around or _PACKAGE.parent.name in shared)]
    default = ssl.get_default_verify_paths()
    way = config.upstream
    named = [default.cafile, default.capath, *(way.ca_files if way else ()), way and way.ca_dir]
    return [*own, *_PUBLIC, *(str(path) for path in named if path)]


async def _serve(config: GatewayConfig, link: socket.socket, pipe: int) -> None:
    reports, loop = Reports(pipe), asyncio.get_running_loop()
    control = Control(link, config, lambda: reports.tell(control.list_accounts()))
    loop.set_exception_handler(lambda _, context: control.keep_note(_build_fault_note(context)))
    loop.add_reader(pipe, control.over.set)  # readable only where nobody reads it any more
    telling = asyncio.create_task(_tell(reports, control))
    await control.serve()
    telling.cancel()
    loop.remove_reader(pipe)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_REPORT_S):
            while not reports.tell(control.list_accounts()):
                await asyncio.sleep(0.05)


async def _tell(reports: Reports, control: Control) -> None:
    while True:
        await asyncio.sleep(REPORT_S)
        reports.tell(control.list_accounts())


def _build_fault_note(context: dict[str, Any]) -> Note:
    name = type(context.get("exception")).__name__
    return Note(f"the model gateway failed: {name}", warning=True)
