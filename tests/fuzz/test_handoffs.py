"""Any hand-off is a validated record or a HandoffError; any output of an agent has a report."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.agents.claude_code import ClaudeStreamReader
from gitlab_nightshift.agents.replay import Replay
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.bead_results import AnalysisResult, BeadStatus, Verdict
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd
from gitlab_nightshift.settings.load import build_settings
from gitlab_nightshift.stages.work.handoff import HANDOFF_TYPES, LARGEST, HandoffError, read_handoff
from tests.fuzz.strategies import json_of, spoiled, spoiled_bytes, steady

CANDIDATE = {"files": ["a.py"], "description": "x", "rank": 1, "rationale": "y"}
HONEST: dict[str, dict[str, Any]] = {
    "analyze": {
        "result": "IMPROVEMENT_FOUND",
        "category_used": "tests",
        "reason": "x",
        "files_scanned": 3,
        "candidates": [CANDIDATE],
        "selected": CANDIDATE,
    },
    "verify": {"passed": True, "error_details": "", "commands_run": ["make test"]},
    "mr": {"title": "T", "summary": "S", "branch_slug": "b", "rejected_alternatives": ["x"]},
}
BEADS = st.sampled_from(sorted(HONEST))
WORDS = frozenset(name for each in (*HONEST.values(), CANDIDATE) for name in each)
STREAM = {
    "type": "assistant",
    "subtype": "api_retry",
    "error_status": 500,
    "event": {"type": "message_start", "message": {"id": "1"}, "usage": {"output_tokens": 3}},
    "message": {
        "id": "1",
        "usage": {"input_tokens": 1},
        "content": [{"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}],
    },
    "is_error": True,
    "errors": ["x"],
    "api_error_status": 401,
    "permission_denials": [{"tool_name": "x", "tool_input": {}}],
    "modelUsage": {"m": {"inputTokens": 3}},
    "total_cost_usd": 0.5,
}


def read(bead: str, structured: object, file: Path) -> None:
    """A record that is bounded and of the right kind, or a HandoffError; nothing else."""
    try:
        made = read_handoff(bead, structured, file)
    except HandoffError as error:
        assert str(error)
        return
    assert isinstance(made, HANDOFF_TYPES[bead])
    texts: list[str] = []

    def look(text: str) -> str:
        texts.append(text)
        return text

    map_texts(made, look)
    assert max(map(len, texts), default=0) <= 20_000
    assert json.dumps(dataclasses.asdict(made)).encode(), "it can be written"
    assert "".join(texts).encode() or not any(texts)
    if isinstance(made, AnalysisResult) and made.result == "IMPROVEMENT_FOUND":
        assert made.selected and made.selected.files and made.selected.description


@steady(60)
@given(bead=BEADS, data=json_of(WORDS))
def test_any_structured_output(bead: str, data: object) -> None:
    read(bead, data, Path("/nonexistent"))


@steady(40)
@given(bead=BEADS, data=st.data())
def test_an_honest_one_with_other_values(bead: str, data: st.DataObject) -> None:
    read(bead, data.draw(spoiled(HONEST[bead], WORDS)), Path("/nonexistent"))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("handoff") / "handoff.json"


@steady(50)
@given(bead=BEADS, data=st.data())
def test_any_file(file: Path, bead: str, data: st.DataObject) -> None:
    honest = json.dumps(HONEST[bead]).encode()
    file.write_bytes(data.draw(spoiled_bytes(honest) | st.binary() | st.just(b"[" * LARGEST)))
    read(bead, None, file)


@steady(60)
@given(json_of(frozenset()) | st.sampled_from([1, 1.0, "true", "1", "on", "yes", [True], True]))
def test_only_true_passes(passed: object) -> None:
    try:
        made = read_handoff("verify", {"passed": passed}, Path("/nonexistent"))
    except HandoffError:
        return
    assert isinstance(made, Verdict)
    assert made.passed is passed


@steady(25)
@given(
    kinds=st.lists(st.sampled_from(["result", "assistant", "system", "stream_event"]), max_size=4),
    end=st.sampled_from(EndReason),
    status=st.integers(-15, 255),
    stderr=st.binary(max_size=40),
    data=st.data(),
)
def test_any_stream_has_a_report(
    kinds: list[str], end: EndReason, status: int, stderr: bytes, data: st.DataObject
) -> None:
    reader = ClaudeStreamReader(patience_s=60)
    for kind in kinds:
        event = {**data.draw(spoiled(STREAM, frozenset(STREAM))), "type": kind}
        line = json.dumps(event).encode()
        told = reader.read_line(data.draw(st.just(line) | spoiled_bytes(line)))
        assert told is None or isinstance(told.text, str)
    report = reader.build_report(ProgramEnd(end, status, 1.0), stderr)
    assert report.status in BeadStatus and isinstance(report.error, str)
    assert report.usage.tokens is None or report.usage.tokens >= 0
    assert report.usage.cost_usd is None or 0 <= report.usage.cost_usd < 10**12
    if end is not EndReason.EXITED or status != 0:
        assert report.status is not BeadStatus.OK


@steady(30)
@given(data=json_of(frozenset({"version", "agent"})) | st.just("deep"))
def test_any_index_of_a_recording(file: Path, data: object) -> None:
    text = "[" * 100_000 if data == "deep" else json.dumps(data)
    (file.parent / "recording.json").write_text(text)
    player = Replay(build_settings({"replay_dir": str(file.parent)}))
    with pytest.raises(NightshiftError) as raised:
        player.check({})
    assert raised.value.code is Code.CONFIG and "\n" not in raised.value.message
