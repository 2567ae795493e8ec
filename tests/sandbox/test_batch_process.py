"""A program that answers one request after another."""

import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox.process import LONGEST_REQUEST, BatchProcess, open_batch_process
from gitlab_nightshift.system.processes import list_own_children

ECHO = "import sys\nfor line in sys.stdin: print(len(line)); print(line, end='', flush=True)"


def start(script: str, timeout_s: float = 60.0) -> AbstractContextManager[BatchProcess]:
    argv = [sys.executable, "-I", "-S", "-c", script]
    return open_batch_process(argv, cwd=Path("/"), env={}, timeout_s=timeout_s)


def test_each_request_is_answered_and_nothing_is_left_behind() -> None:
    before = list_own_children()
    with start(ECHO) as process:
        for text in (b"one\n", b"x" * (LONGEST_REQUEST - 1) + b"\n"):
            process.send(text)
            assert process.read(int(process.read_line())) == text
    assert list_own_children() <= before


def test_an_answer_larger_than_a_pipe_arrives_whole() -> None:
    with start("import sys; sys.stdin.readline(); print('y' * 3_000_000 + '.')") as process:
        process.send(b"\n")
        assert process.read(3_000_000) == b"y" * 3_000_000
        assert process.read_line() == b"."


@pytest.mark.parametrize("script", ["print('half', end='')", "import time; time.sleep(60)"])
def test_the_end_or_silence_of_a_program_raises_eof_error(script: str) -> None:
    with start(script, timeout_s=2.0) as process, pytest.raises(EOFError):
        process.read(1000)


def test_a_request_to_a_closed_stdin_raises_eof_error() -> None:
    script = "import os, time; os.close(0); print('closed', flush=True); time.sleep(60)"
    with start(script) as process:
        assert process.read_line() == b"closed"
        with pytest.raises(EOFError):
            process.send(b"x")
