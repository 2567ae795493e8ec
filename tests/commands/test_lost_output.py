"""Output that nobody reads, or that finds no space."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.tables import each

COMMANDS = ["--help", "config schema", "check --explain all"]
ROOT = Path(__file__).parents[2]


def run(command: str, folder: Path, stdout: int, *before: str) -> tuple[int, str]:
    """Exit status and stderr of a command; ``before`` are words that start it."""
    done = subprocess.run(
        [*before, sys.executable, "-m", "gitlab_nightshift", *command.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@each("command", COMMANDS)
def test_a_closed_stdout_is_as_good_as_none(command: str, tmp_path: Path) -> None:
    status, said = run(command, tmp_path, subprocess.DEVNULL, "sh", "-c", 'exec "$@" >&-', "sh")
    assert (status, "Traceback" in said) == (0, False)


@each("command", COMMANDS)
def test_a_full_disk_is_told_in_one_line(command: str, tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        status, said = run(command, tmp_path, full.fileno())
    assert (status, said.count("\n")) == (2, 1)
    assert "E_CONFIG: no space left" in said


@each("command", COMMANDS)
def test_a_reader_that_has_gone_is_no_failure(command: str, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        assert run(command, tmp_path, pipe.fileno()) == (0, "")


def test_a_delegation_whose_answer_is_lost_has_not_ended_well(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        status, said = run("delegate --schema", tmp_path, full.fileno())
    assert (status, said.count("\n")) == (2, 1)
    assert "E_CONFIG: no space left" in said
