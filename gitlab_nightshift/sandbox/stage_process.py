"""Starts a stage of this program, or the whole program, as a separate process, with a sealed start
(``sealed_entry.py``) and an explicit environment.
"""

import os
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from subprocess import PIPE, Popen
from typing import Any

from gitlab_nightshift.sandbox.process import (
    CapturedOutput,
    EndReason,
    ProcessLimits,
    run_to_end,
    start_process,
)
from gitlab_nightshift.sandbox.process_places import Places, find_rights
from gitlab_nightshift.sandbox.process_table import Confined, ProcessRow
from gitlab_nightshift.sealed_start import prepare_stage, prepare_start
from gitlab_nightshift.system.file_names import format_path

LONGEST_MESSAGE = 200
"""Bytes at the end of a stage's stderr that an error quotes."""
FIRST_PROCESS = 1
"""The pid of the first process in a PID namespace (pid_namespaces(7))."""
NO_PLACES: Places = {}
Stream = int | None
"""As ``subprocess`` takes it; None: this process's own."""


class StageFailedError(Exception):
    """A stage failed; the text continues "the process …"."""


def start_stage(
    row: ProcessRow,
    data: Mapping[str, Any],
    env: Mapping[str, str],
    descriptors: Collection[int] = (),
    streams: tuple[Stream, Stream, Stream] = (PIPE, PIPE, PIPE),
    prefix: Sequence[str] = (),
    places: Places = NO_PLACES,
) -> Popen[bytes]:
    """Start ``main(data)`` of a row's module in its own session, with ``descriptors`` and
    ``streams``. Every process of this program is started here.

    ``env`` is the process's whole environment; ``data`` is sent as JSON. The process gets SIGTERM
    when the calling thread ends. If its row is ``AT_START``, it drops all other rights before
    ``main``; ``places`` are the row's paths. ``prefix`` is a command that starts it in its own
    namespaces, as a child of their first process. Raises OSError.
    """
    if row.confined is Confined.AT_START:
        data = {**data, "rights": asdict(find_rights(row, places, env))}
    start = prepare_stage(row.module, data, env, FIRST_PROCESS if prefix else None)
    stdin, stdout, stderr = streams
    try:
        return Popen(
            [*prefix, *start.command],
            cwd="/",  # not the checkout, where a relative path would name an agent's file
            env=start.env,
            pass_fds=[start.descriptor, *descriptors],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    finally:
        os.close(start.descriptor)


def run_stage(
    row: ProcessRow,
    data: Mapping[str, Any],
    env: Mapping[str, str],
    stdin: bytes,
    limits: ProcessLimits,
    places: Places = NO_PLACES,
) -> bytes:
    """Run a stage to its end and return its output; none of its descendants is left.

    Raises StageFailedError.
    """
    out, err = _MemorySink(), _MemorySink()
    try:
        end, status = run_to_end(
            lambda: start_stage(row, data, env, places=places), stdin, out, err, limits
        )
    except OSError as error:
        raise StageFailedError(f"could not be started: {error.strerror}") from None
    if end is not EndReason.EXITED:
        raise StageFailedError(f"was ended: {end.value.replace('_', ' ')}")
    if status:
        message = err.read_all()[-LONGEST_MESSAGE:].decode("utf-8", "replace").strip()
        details = f": {format_path(message)}" if message else ""
        raise StageFailedError(f"ended with exit status {status}{details}")
    return out.read_all()


class _MemorySink:
    """A sink in memory; ``ProcessLimits`` bounds its size."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes, /) -> None:
        """Append the next bytes."""
        self._parts.append(data)

    def read_all(self) -> bytes:
        """All bytes written so far."""
        return b"".join(self._parts)


# --- a whole command, for a Python caller ---------------------------------------------------------


RESTORE_S = 60.0
"""Seconds that a stopped run gets to end its agents and to restore the repository."""


def run_sealed(arguments: Sequence[str], env: Mapping[str, str], stdin: bytes) -> CapturedOutput:
    """Run ``nightshift ARGUMENTS`` to its end; its log is dropped.

    It gets SIGTERM when the calling thread ends or is interrupted. Raises OSError.
    """
    start = prepare_start(arguments, env, parent=os.getpid())
    try:
        with start_process(
            lambda: subprocess.Popen(
                start.command,
                env=start.env,
                pass_fds=[start.descriptor],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        ) as process:
            stdout = _communicate(process, stdin)
            return CapturedOutput(process.returncode, stdout, b"")
    finally:
        os.close(start.descriptor)


def _communicate(process: "subprocess.Popen[bytes]", stdin: bytes) -> bytes:
    try:
        return process.communicate(stdin)[0]
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait(RESTORE_S)
        raise
