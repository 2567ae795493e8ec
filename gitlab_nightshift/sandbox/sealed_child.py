"""Runs this program as a child of another Python, with a sealed start (``sealed_start.py``)."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from gitlab_nightshift.sandbox.process import CapturedOutput, start_process
from gitlab_nightshift.sealed_start import prepare_start

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
