"""stdout is one JSON object, however the call ends and whenever that is."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support import warm
from tests.support.delegation import POLICY, delegations, ended
from tests.support.trees import processes_in, wait_for
from tests.support.world import PATH, ROOT

from .test_processes import HANGING, children

START = """\
import os, signal, sys
from gitlab_nightshift import cli
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.kill(os.getpid(), signal.SIGTERM)
sys.exit(cli.main())
"""
"""A signal that has arrived before this program's first line."""
GONE = "cd gone && rmdir ../gone && exec"


def call(folder: Path, *command: str, **how: Any) -> tuple[Any, int]:
    env = {"PYTHONPATH": str(ROOT), "PATH": PATH, "TMPDIR": str(folder), **how.pop("env", {})}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, check=False, timeout=300, **how
    )
    assert b"Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout)["diagnostics"]["error_code"], done.returncode


def test_what_is_wrong_before_it_begins(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "gitlab_nightshift", "delegate")
    write_only = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    (tmp_path / "gone").mkdir()
    nothing = {"stdin": subprocess.DEVNULL}
    config, terminated = ("E_CONFIG", 2), ("E_TERMINATED", 143)
    assert call(tmp_path, *command, "--nonsense", **nothing) == config
    assert call(tmp_path, *command, "--payload", **nothing) == config
    assert call(tmp_path, *command, **nothing) == config
    assert call(tmp_path, *command, stdin=write_only) == config
    assert call(tmp_path, "sh", "-c", 'exec "$@" <&-', "sh", *command) == config
    assert call(tmp_path, "sh", "-c", f'{GONE} "$@"', "sh", *command, **nothing) == config
    assert call(tmp_path, sys.executable, "-c", START, "delegate", **nothing) == terminated
    os.close(write_only)


def test_a_signal_while_it_waits_for_its_payload(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        process = context.start_sealed()
        wait_for(lambda: children(process.pid), "the command is a process of its own")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=warm.LIMIT_S)
        assert process.returncode == 130
        assert json.loads(out)["diagnostics"]["error_code"] == "E_INTERRUPTED"
        context.assert_untouched()


def test_the_command_is_killed(tmp_path: Path) -> None:
    """What it has started is ended, too."""
    with delegations(tmp_path, HANGING) as context:
        process = context.start_sealed(context.payload())
        wait_for(lambda: context.agent.hanging or process.poll() is not None, "the agent hangs")
        os.kill(children(process.pid)[0], signal.SIGKILL)
        out, _ = process.communicate(timeout=warm.LIMIT_S)
        result = json.loads(out)
        assert (result["ok"], result["diagnostics"]["error_code"]) == (False, "E_TERMINATED")
        assert "killed by SIGKILL" in result["error"]
        assert process.returncode == -signal.SIGKILL
        wait_for(lambda: not processes_in(context.folder), "all are gone")


def test_the_process_that_waits_for_it_is_killed(tmp_path: Path) -> None:
    """Who works hands the object on itself."""
    with delegations(tmp_path, HANGING) as context:
        process = context.start_sealed(context.payload())
        wait_for(lambda: context.agent.hanging or process.poll() is not None, "the agent hangs")
        process.kill()
        out, _ = process.communicate(timeout=warm.LIMIT_S)
        assert json.loads(out)["diagnostics"]["error_code"] == "E_TERMINATED"
        wait_for(lambda: not processes_in(context.folder), "all are gone")
        context.assert_untouched()


def test_events_are_written_live_and_survive_a_kill(tmp_path: Path) -> None:
    with delegations(tmp_path, HANGING, config=f"{POLICY}output_dir: kept\n") as context:
        process = context.start(context.payload())
        wait_for(lambda: context.agent.hanging or process.poll() is not None, "the agent hangs")
        [folder] = (context.context / "kept").iterdir()
        assert not (context.context / "nightshift").exists(), "it began there"
        for pid in (process.pid, *children(process.pid)):
            os.kill(pid, signal.SIGKILL)
        ended(process)
        lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        assert {f"delegate-{line['run_id']}" for line in lines} == {folder.name}
        assert [line["phase"] for line in lines if line["event"] == "phase_start"] == [
            *("Prepare", "Plan", "Apply"),
        ]
        wait_for(lambda: not processes_in(context.folder), "all are gone")
