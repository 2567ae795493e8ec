"""A stage in its own process: its environment, and its end."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.sandbox import stage_process
from gitlab_nightshift.sandbox.process import ProcessLimits
from gitlab_nightshift.sandbox.stage_process import StageFailedError, run_stage
from tests.support.stages import PLAIN_STAGE, real_start
from tests.support.trees import wait_for

ROOT = Path(__file__).parents[2]
ENV = {"LANG": "C.UTF-8", "ONLY": "this"}


@pytest.fixture(autouse=True)
def _real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_process, "start_stage", real_start)
    monkeypatch.setenv("GITLAB_TOKEN", "glpat-of-the-job")


def run(stdin: bytes = b"", limits: ProcessLimits | None = None, **data: Any) -> bytes:
    return run_stage(PLAIN_STAGE, data, ENV, stdin, limits or ProcessLimits(timeout_s=300))


def test_it_gets_its_data_its_stdin_and_named_variables() -> None:
    code = "print(data['x'], sorted(os.environ), sys.stdin.read(), os.getcwd(), sys.flags.isolated)"
    out = run(b"some text", code=code, x="value").decode()
    names = {*ENV, "LC_CTYPE"} & {*ENV}
    assert out == f"value {sorted(names)} some text / 1\n"


def test_nothing_is_inherited_or_dumpable(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        kept = "[n for n in range(3, 300) if os.path.exists(f'/proc/self/fd/{n}')]"
        code = f"import ctypes; print({kept}, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
        assert run(code=code) == b"[] 0\n"


def test_a_bad_end_has_a_reason() -> None:
    for code, words in (
        ("sys.exit('what \\x1b was wrong')", r"ended with exit status 1: what \\x1b was wrong"),
        ("os.kill(os.getpid(), 9)", "ended with exit status -9"),
        ("import nothing_like_it", "No module named 'nothing_like_it'"),
    ):
        with pytest.raises(StageFailedError, match=words):
            run(code=code)
    with pytest.raises(StageFailedError, match="was ended: output limit"):
        run(
            code="while True: print('x' * 1000)",
            limits=ProcessLimits(timeout_s=300, output_bytes=10_000),
        )
    with pytest.raises(StageFailedError, match="was ended: timeout"):
        run(code="time.sleep(3600)", limits=ProcessLimits(timeout_s=1))


def test_it_ends_with_its_parent() -> None:
    """The parent is killed while the stage runs."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.support.stages import PLAIN_STAGE, real_start\n"
        f"process = real_start(PLAIN_STAGE, {{'code': 'time.sleep(3600)'}}, {ENV!r})\n"
        "print(process.pid, flush=True)\nprocess.wait()\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        try:
            assert parent.stdout
            stage = Path(f"/proc/{int(parent.stdout.readline())}")
            wait_for(lambda: b"entry.py" in (stage / "cmdline").read_bytes(), "the stage")
        finally:
            parent.send_signal(signal.SIGKILL)
    wait_for(lambda: not _lives(stage), "its end")


def _lives(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
