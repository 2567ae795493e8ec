"""The agent ``patch``: its call and its output; nights are in ``tests/nights_agents``."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.agents import build_provider, choose_agent
from gitlab_nightshift.agents.agent import AgentProvider, BeadReport, BeadTask
from gitlab_nightshift.agents.plain_model import ModelStreamReader
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.usage import UNKNOWN_USAGE
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.handoff import build_schema
from tests.support.model_endpoint import ModelEndpoint
from tests.support.turns import Turn, say

MODELS = {"models.implement": "m"}


def settings(**values: str) -> Settings:
    return choose_agent(load_settings({}, None, {"agent": "patch", **values}), {}).settings


def provider(**values: str) -> AgentProvider:
    return build_provider(settings(**{**MODELS, **values}))


def task(folder: Path, bead: str = "implement") -> BeadTask:
    checkout, handoff = folder / "checkout", folder / "handoff" / "handoff.json"
    checkout.mkdir(exist_ok=True)
    handoff.parent.mkdir(exist_ok=True)
    return BeadTask(bead, "tests", 1, "m", checkout, handoff, build_schema(bead), (), 1.0)


@pytest.mark.parametrize(
    ("values", "env", "code", "text"),
    [
        ({}, {"OPENAI_API_KEY": "x"}, Code.CONFIG, "models.implement: name the model"),
        (
            {"models.analyze": "m"},
            {"OPENAI_API_KEY": "x"},
            Code.CONFIG,
            "models.implement: name the model",
        ),
        (MODELS, {}, Code.PROVIDER_UNAVAILABLE, "no model: set OPENAI_API_KEY"),
    ],
)
def test_check_names_what_is_missing(
    values: dict[str, str], env: dict[str, str], code: Code, text: str
) -> None:
    with pytest.raises(NightshiftError, match=text) as caught:
        build_provider(settings(**values)).check(env)
    assert caught.value.code is code


def test_a_model_for_implement_serves_the_other_beads() -> None:
    models = settings(**MODELS, **{"models.verify": "judge"}).models
    assert vars(models) == {"analyze": "m", "implement": "m", "verify": "judge", "mr": "m"}


@pytest.mark.parametrize(
    ("values", "env"),
    [
        ({}, {"OPENAI_API_KEY": "x"}),
        ({}, {"OPENAI_BASE_URL": "http://llama:8080"}),
        ({"model_endpoint": "http://llama:8080/v1"}, {}),
    ],
)
def test_a_key_or_an_endpoint_is_enough(values: dict[str, str], env: dict[str, str]) -> None:
    provider(**values).check(env)


def test_its_process_gets_no_secret_and_no_prompt_in_its_arguments(tmp_path: Path) -> None:
    patch = provider(prices='{"m": {"input": 1, "output": 2}}')
    argv = patch.build_bead_args(task(tmp_path), "/nowhere")
    assert argv[1:3] == ["-I", "-S"]
    assert argv[4] == str(tmp_path / "handoff" / "bead.json")
    assert json.loads(patch.build_files(task(tmp_path))["bead.json"]) == {
        "bead": "implement",
        "model": "m",
        "checkout": str(tmp_path / "checkout"),
        "handoff": str(tmp_path / "handoff"),
        "schema": None,
        "one_request": True,
        "edits": True,
        "hidden": [],
        "allowed": [],
        "any_command": False,
        "answer_tokens": 8_000,
        "command_s": 540.0,
        "usd": 1.0,
        "tokens": None,
        "seconds": None,
        "rates": [1.0, 2.0],
    }
    assert patch.build_access_env("http://127.0.0.1:1", "placeholder") == {
        "OPENAI_BASE_URL": "http://127.0.0.1:1",
        "OPENAI_API_KEY": "placeholder",
    }
    assert patch.build_settings_env() == {}
    assert patch.find_cloud_variables({"OPENAI_API_KEY": "x"}) == ()
    assert all(Path(argv[3]).is_relative_to(p) or p.exists() for p in patch.list_readable_paths(""))


def run(folder: Path, turns: list[Turn], bead: str = "implement") -> tuple[list[Any], BeadReport]:
    """The lines of the real process with a real endpoint, and the reader's report."""
    patch, bead_task = provider(), task(folder, bead)
    subprocess.run(["git", "init", "-q", bead_task.checkout], check=True)
    for name, text in patch.build_files(bead_task).items():
        bead_task.handoff_file.with_name(name).write_text(text)
    with ModelEndpoint(turns) as endpoint:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(folder / "home")}
        done = subprocess.run(
            patch.build_bead_args(bead_task, ""),
            input=b"# Task: make it",
            capture_output=True,
            env={**env, **patch.build_access_env(endpoint.url, "placeholder")},
            check=False,
        )
    reader = patch.build_reader()
    lines = done.stdout.splitlines()
    for line in lines:
        reader.read_line(line)
    ended = ProgramEnd(EndReason.EXITED, done.returncode, 1.0)
    return list(map(json.loads, lines)), reader.build_report(ended, done.stderr)


def test_a_bead_with_the_standard_library_alone(tmp_path: Path) -> None:
    blocks = "new.py\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE\n"
    lines, report = run(tmp_path, [say("Sure!"), say(blocks)])
    assert [line["type"] for line in lines] == ["shown", "refused", "result"]
    assert "the text holds no SEARCH/REPLACE block" in lines[1]["problem"]
    assert (report.status, report.error) == (BeadStatus.OK, "")
    assert (tmp_path / "checkout" / "new.py").read_text() == "x = 1\n"


def test_a_report_is_the_answer(tmp_path: Path) -> None:
    lines, report = run(tmp_path, [say('{"result": "NO_IMPROVEMENT", "reason": "x"}')], "analyze")
    assert report.structured == {"result": "NO_IMPROVEMENT", "reason": "x"}
    assert lines[-1]["ok"] is True


def test_no_change_is_an_answer(tmp_path: Path) -> None:
    _, report = run(tmp_path, [say("NO CHANGE: it is wrong")])
    assert (report.status, report.last_message) == (BeadStatus.OK, "changes nothing: it is wrong")


def test_a_second_unusable_answer_fails_the_bead(tmp_path: Path) -> None:
    outside = "../x\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n"
    _, report = run(tmp_path, [say(outside), say(outside), say(outside)])
    assert report.status is BeadStatus.BAD_OUTPUT
    assert report.error == (
        "block 1 (../x): the path is not plain: it cannot contain an empty part, . or .."
    )
    assert not (tmp_path / "x").exists()


def test_events_become_lines_of_progress() -> None:
    events = [
        {"type": "shown", "files": ["a", "b"], "tokens": 120},
        {"type": "receiving", "characters": 300},
        {"type": "refused", "problem": "block 1: no\nblock 2: no"},
        {"type": "said", "text": "edited a.py"},
        {"type": "result", "ok": True},
    ]
    reader = ModelStreamReader()
    progress = [reader.read_line(json.dumps(event).encode()) for event in events]
    assert [each.text for each in progress if each] == [
        "shows the model 2 files, about 120 tokens",
        "the model answers: 300 characters",
        "asks once more: block 1: no",
        "edited a.py",
    ]


@pytest.mark.parametrize(
    ("why", "note"),
    [
        ("cut off: x; asked for once more", "cut off: x; asked for once more"),
        ("a\nsection_start:1:x\r\x1b[31mred", "a section_start:1:x [31mred"),
        (["no", "text"], ""),
        ("x" * 9_000, "x" * 300),
    ],
)
def test_the_reason_for_a_repeated_request_is_one_bounded_line(why: object, note: str) -> None:
    """The process in the sandbox may print anything instead of the reason."""
    reader = ModelStreamReader()
    reader.read_line(json.dumps({"type": "repeated", "why": why}).encode())
    assert reader.build_report(ProgramEnd(EndReason.EXITED, 0, 1.0), b"").note == note


def test_trimming_is_noted_in_the_report_and_not_shown_as_progress() -> None:
    reader = ModelStreamReader()
    for tokens in (12_000, 6_000):
        assert reader.read_line(b'{"type": "trimmed", "tokens": %d}' % tokens) is None
    reports = [
        reader.build_report(ProgramEnd(end, 1, 1.0), b"")
        for end in (EndReason.EXITED, EndReason.TIMEOUT)
    ]
    note = "too much for this model: shortened to 6000 tokens"
    assert [report.note for report in reports] == [note, note]


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"1", b"[" * 99_999, b'{"type": ["shown"]}'])
def test_no_line_breaks_the_reader(raw: bytes) -> None:
    assert ModelStreamReader().read_line(raw) is None


ENDPOINT = {"ok": False, "what": "endpoint"}


@pytest.mark.parametrize(
    ("exit_status", "result", "expected"),
    [
        (1, {"ok": True}, BeadStatus.CRASHED),
        (0, {"ok": "yes"}, BeadStatus.CRASHED),
        (1, {"ok": False, "what": "answer"}, BeadStatus.BAD_OUTPUT),
        (1, {**ENDPOINT, "status": 404}, BeadStatus.UNAVAILABLE),
        (1, {**ENDPOINT, "status": 400}, BeadStatus.CRASHED),
        (1, {**ENDPOINT, "status": [4]}, BeadStatus.CRASHED),
        (0, {"ok": True}, BeadStatus.OK),
    ],
)
def test_the_programs_status_counts_if_it_agrees_with_its_exit_status(
    exit_status: int, result: dict[str, Any], expected: BeadStatus
) -> None:
    reader = ModelStreamReader()
    reader.read_line(json.dumps({"type": "result", **result}).encode())
    report = reader.build_report(ProgramEnd(EndReason.EXITED, exit_status, 1.0), b"KeyError: 'x'\n")
    assert report.status is expected
    assert report.usage == UNKNOWN_USAGE, "only the gateway knows it"
