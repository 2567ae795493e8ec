"""Output that nobody reads, or that finds no space."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.tables import each

COMMANDS = ["--help", "config schema", "check --explain all"]
ROOT = Path(__file__).parents[2]


def run(command: str, folder: Path, stdout: int, *wrapper: str) -> tuple[int, str]:
    """Exit status and stderr of a command, started by the command ``wrapper``."""
    process = subprocess.run(
        [*wrapper, sys.executable, "-m", "gitlab_nightshift", *command.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return process.returncode, process.stderr


@each("command", COMMANDS)
def test_a_closed_stdout_is_no_failure(command: str, tmp_path: Path) -> None:
    status, stderr = run(command, tmp_path, subprocess.DEVNULL, "sh", "-c", 'exec "$@" >&-', "sh")
    assert (status, "Traceback" in stderr) == (0, False)


@each("command", [*COMMANDS, "delegate --schema"])
def test_a_full_disk_is_one_line(command: str, tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        status, stderr = run(command, tmp_path, full.fileno())
    assert (status, stderr.count("\n")) == (2, 1)
    assert "E_CONFIG: no space left" in stderr


@each("command", COMMANDS)
def test_a_closed_pipe_is_no_failure(command: str, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        assert run(command, tmp_path, pipe.fileno()) == (0, "")
