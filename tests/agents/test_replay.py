"""The agent that plays a recorded night; whole replays are in ``tests/nights_agents``."""

import subprocess
import sys
from pathlib import Path

import pytest

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.agents.agent import AgentProvider, BeadTask
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.settings.load import load_settings

INDEX = '{"version": 1, "agent": "claude_code"}'


def replay(folder: Path) -> AgentProvider:
    return build_provider(load_settings({}, None, {"agent": "replay", "replay_dir": str(folder)}))


def task(folder: Path) -> BeadTask:
    checkout, handoff = folder / "checkout", folder / "handoff.json"
    checkout.mkdir(exist_ok=True)
    return BeadTask("implement", "tests", 2, "m", checkout, handoff, None, (), 1.0)


def play(folder: Path) -> "subprocess.CompletedProcess[bytes]":
    argv = replay(folder).build_bead_args(task(folder), "/nowhere")
    return subprocess.run(argv, input=b"prompt", capture_output=True, check=False, env={})


def test_it_needs_no_key_and_no_variable(tmp_path: Path) -> None:
    (tmp_path / "recording.json").write_text(INDEX)
    replay(tmp_path).check({})
    assert replay(tmp_path).keys == ()
    assert replay(tmp_path).find_cloud_variables({"ANTHROPIC_API_KEY": "x"}) == ()
    assert replay(tmp_path).build_access_env("http://127.0.0.1:1", "placeholder") == {}
    assert replay(tmp_path).build_settings_env() == {}


NO_RECORDING = "no recorded night: "
OTHER_FORMAT = "a recording of claude_code in format 1 is expected"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, f"{NO_RECORDING}No such file or directory"),
        ("", NO_RECORDING),
        ("{", NO_RECORDING),
        ("[]", OTHER_FORMAT),
        ("{}", OTHER_FORMAT),
        (INDEX.replace("1", "2"), OTHER_FORMAT),
        (INDEX.replace("claude_code", "codex"), OTHER_FORMAT),
    ],
)
def test_check_refuses_an_invalid_recording(tmp_path: Path, text: str | None, why: str) -> None:
    if text is not None:
        (tmp_path / "recording.json").write_text(text)
    with pytest.raises(NightshiftError, match=f"replay_dir: .*recording.json: {why}") as caught:
        replay(tmp_path).check({})
    assert caught.value.code is Code.CONFIG


def test_a_bead_is_played_by_a_process_of_its_own(tmp_path: Path) -> None:
    bead = tmp_path / "implement-tests-2"
    (bead / "files" / "deep").mkdir(parents=True)
    (bead / "bead.json").write_text('{"exit_status": 3, "deleted": ["old.txt", "gone.txt"]}')
    (bead / "stdout.jsonl").write_text('{"a": 1}\n{"path": "/recorded/checkout/x"}\n')
    (bead / "handoff.json").write_text('{"passed": true}')
    (bead / "files" / "deep" / "new.sh").write_text("new")
    (bead / "files" / "deep" / "new.sh").chmod(0o755)
    (bead / "files" / "link").symlink_to("deep/new.sh")
    checkout = task(tmp_path).checkout
    (checkout / "old.txt").write_text("old")
    (checkout / "link").write_text("a file before")

    done = play(tmp_path)

    [python, *_] = replay(tmp_path).build_bead_args(task(tmp_path), "")
    assert python == str(Path(sys.executable).resolve())
    assert done.returncode == 3
    assert done.stdout.decode() == f'{{"a": 1}}\n{{"path": "{checkout}/x"}}\n'
    assert (tmp_path / "handoff.json").read_text() == '{"passed": true}'
    assert not (checkout / "old.txt").exists()
    assert (checkout / "link").read_text() == "new"
    assert (checkout / "link").is_symlink()
    assert (checkout / "deep" / "new.sh").stat().st_mode & 0o777 == 0o755


def test_a_bead_that_was_not_recorded_fails(tmp_path: Path) -> None:
    done = play(tmp_path)
    assert done.returncode == 3
    assert done.stderr == b"the recording has no bead implement-tests-2\n"
