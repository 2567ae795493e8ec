"""Starts, configures and ends the gateway's process."""

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from gitlab_nightshift.sandbox import stage_process
from gitlab_nightshift.sandbox.process import start_process
from gitlab_nightshift.sandbox.process_table import GATEWAY

if TYPE_CHECKING:
    from gitlab_nightshift.gateway.gateway_client import RemoteGateway
    from gitlab_nightshift.gateway.gateway_config import GatewayConfig
    from gitlab_nightshift.records.events import Emit

END_S = 10.0
"""Seconds that the gateway gets to end by itself once its control socket is closed."""
_VARIABLES = ("LANG", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""The whole environment of the gateway; OpenSSL itself reads the last two."""


@dataclass(frozen=True)
class GatewayProcess:
    """The process, and our ends: ``config`` takes one configuration, ``control`` is for its client
    (:class:`RemoteGateway`), from ``report`` the usage is read (:mod:`usage_reports`)."""

    process: "subprocess.Popen[bytes]"
    config: BinaryIO = field(repr=False)
    control: socket.socket
    report: BinaryIO

    def configure(self, config: bytes) -> None:
        """Send the configuration, once (an encoded ``GatewayConfig``); with b"" the process ends.
        Ignores a process that has ended: the first request to it will show that."""
        with contextlib.suppress(BrokenPipeError), self.config:
            self.config.write(config)


@contextlib.contextmanager
def start_gateway(env: Mapping[str, str], *, likely: bool = True) -> Iterator[GatewayProcess]:
    """The process, for the duration of the block. If it is ``likely`` to be needed, it loads its
    modules while it waits for its configuration.

    It also ends once all copies of ``control``, or of ``report``, are closed. Raises OSError.
    """
    gateway_env = {name: env[name] for name in _VARIABLES if name in env}
    # SOCK_SEQPACKET keeps message boundaries: unix(7).
    control, child_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    (child_config, config), (report, child_report) = os.pipe(), os.pipe()
    with (
        control,
        os.fdopen(config, "wb") as config_end,
        os.fdopen(report, "rb", buffering=0) as report_end,
        contextlib.ExitStack() as stack,
    ):
        descriptors = {
            "config": child_config,
            "control": child_control.fileno(),
            "report": child_report,
        }
        data = {"descriptors": descriptors, "likely": likely}
        streams = (subprocess.DEVNULL,) * 3
        start = partial(
            stage_process.start_stage, GATEWAY, data, gateway_env, descriptors.values(), streams
        )
        try:
            process = stack.enter_context(start_process(start))
        finally:
            # Our copies: a pipe ends only once the last copy is closed (pipe(7)).
            child_control.close()
            os.close(child_config)
            os.close(child_report)
        try:
            yield GatewayProcess(process, config_end, control, report_end)
        finally:
            config_end.close()
            with contextlib.suppress(OSError):  # it has ended already
                control.shutdown(socket.SHUT_RDWR)  # even if another process holds a copy
            control.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)


@contextlib.contextmanager
def open_gateway(
    config: "GatewayConfig | None", env: Mapping[str, str], emit: "Emit"
) -> Iterator["RemoteGateway | None"]:
    """A gateway for ``config``, used by the process that starts it; None without a
    configuration."""
    if config is None:
        yield None
        return
    from gitlab_nightshift.gateway.gateway_client import RemoteGateway
    from gitlab_nightshift.records.codec import encode_record

    with start_gateway(env) as gateway:
        gateway.configure(encode_record(config))
        yield RemoteGateway(gateway.control, emit)
