"""A delegation seen from another process: ``--status`` and ``--cancel``."""

import os
import signal
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.run.supervisor.delegation_folder import find_delegation
from tests.support import warm
from tests.support.delegation import Delegations, Done, delegations, ended
from tests.support.trees import processes_in, wait_for

from .test_processes import HANGING, children


def ask(context: Delegations, *args: str, **env: str) -> Done:
    return ended(context.start(b"", *args, **env))


def run_to_agent(context: Delegations) -> tuple[warm.Started, str]:
    """A run whose agent hangs, and its folder's name."""
    process = context.start(context.payload())
    wait_for(lambda: context.agent.hanging or process.poll() is not None, "the agent hangs")
    [folder] = (context.context / "nightshift").iterdir()
    return process, folder.name


def test_a_run_is_watched_and_cancelled(tmp_path: Path) -> None:
    with delegations(tmp_path, HANGING) as context:
        process, name = run_to_agent(context)
        status = ask(context, "--status", name.removeprefix("delegate-")).result
        assert (status["alive"], status["pid"], status["phase"]) == (True, process.pid, "Apply")
        assert (f"delegate-{status['run_id']}", status["result"]) == (name, None)
        assert status["since"] < "9999"
        cancelled = ask(context, "--cancel", f"nightshift/{name}")
        assert cancelled.exit_status == 0
        assert cancelled.result["diagnostics"]["error_code"] == "E_TERMINATED"
        assert cancelled.result["rollback_performed"] is True
        # Its lock is free a moment before the kernel has done away with the process.
        assert ended(process).result == cancelled.result
        context.assert_untouched()
        status = ask(context, "--status", name).result
        assert (status["alive"], status["pid"]) == (False, None)
        assert status["result"] == cancelled.result == ask(context, "--cancel", name).result


def test_a_killed_run_is_not_alive_and_nobody_gets_its_signal(tmp_path: Path) -> None:
    with delegations(tmp_path, HANGING) as context:
        process, name = run_to_agent(context)
        for pid in (process.pid, *children(process.pid)):
            os.kill(pid, signal.SIGKILL)
        ended(process)
        status = ask(context, "--status", name).result
        assert (status["alive"], status["pid"], status["result"]) == (False, None, None)
        assert ask(context, "--cancel", name).result["ok"] is False
        wait_for(lambda: not processes_in(context.folder), "all are gone")


def test_an_unknown_run_is_said_in_a_line(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        for option in ("--status", "--cancel"):
            for name in ("4711", "../x", "delegate-*"):
                done = ask(context, option, name)
                done.failed("E_CONFIG", 2, f"{name}: no delegation with that id")
                assert len(done.log.splitlines()) == 1


def test_a_run_of_another_folder_of_the_checkout_is_found(tmp_path: Path) -> None:
    for name in (".git", "web/js", "api/nightshift/delegate-7-2"):
        (tmp_path / "shop" / name).mkdir(parents=True)
    folder = tmp_path / "shop/api/nightshift/delegate-7-2"
    for asked in ("shop/web/js", "shop/web", "shop", "shop/api"):
        assert find_delegation("7", tmp_path / asked, None) == folder
    for outside in (tmp_path, folder):
        (outside / "delegate-8/delegate-9").mkdir(parents=True)
    for name, asked in (("8", "shop"), ("9", "shop"), ("7", ".")):
        with pytest.raises(NightshiftError, match="no delegation with that id"):
            find_delegation(name, tmp_path / asked, None)
