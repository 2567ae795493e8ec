"""A hand-off is validated, and in doubt it is never a pass."""

import json
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.records.handoffs import AnalysisCandidate, AnalysisResult, Draft, Verdict
from gitlab_nightshift.work.handoff import (
    LARGEST,
    STUBS,
    HandoffError,
    build_schema,
    read_handoff,
    write_stub,
)

SELECTED = {"files": ["a.py"], "description": "Do it."}
FOUND = {"result": "IMPROVEMENT_FOUND", "selected": SELECTED}
NOWHERE = Path("/nowhere/handoff.json")


def test_the_least_that_is_required() -> None:
    """A terse model is no failed bead."""
    candidate = AnalysisCandidate(("a.py",), "Do it.")
    assert read_handoff("analyze", FOUND, NOWHERE) == AnalysisResult(
        result="IMPROVEMENT_FOUND", selected=candidate
    )
    nothing = {"result": "NO_IMPROVEMENT"}
    assert read_handoff("analyze", nothing, NOWHERE) == AnalysisResult(result="NO_IMPROVEMENT")
    assert read_handoff("verify", {"passed": True}, NOWHERE) == Verdict(passed=True)
    draft = {"title": "T", "summary": "S"}
    assert read_handoff("mr", draft, NOWHERE) == Draft(title="T", summary="S")


def test_unknown_keys_are_dropped() -> None:
    verdict = {"passed": False, "error_details": "x", "confidence": 0.3, "notes": [{}]}
    assert read_handoff("verify", verdict, NOWHERE) == Verdict(passed=False, error_details="x")


@pytest.mark.parametrize("bead", STUBS)
def test_a_stub_left_over_is_no_hand_off(tmp_path: Path, bead: str) -> None:
    file = tmp_path / "handoff.json"
    write_stub(bead, file)
    assert json.loads(file.read_text()) == STUBS[bead]
    with pytest.raises(HandoffError, match="still the stub"):
        read_handoff(bead, None, file)
    with pytest.raises(HandoffError, match="still the stub"):
        read_handoff(bead, STUBS[bead], NOWHERE)


def test_implement_hands_nothing_off(tmp_path: Path) -> None:
    write_stub("implement", tmp_path / "handoff.json")
    assert list(tmp_path.iterdir()) == []
    assert build_schema("implement") is None


def test_structured_output_comes_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "handoff.json"
    file.write_text('{"passed": true}')
    assert read_handoff("verify", {"passed": False}, file) == Verdict(passed=False)
    assert read_handoff("verify", None, file) == Verdict(passed=True)


BAD: list[tuple[str, Any, str]] = [
    ("verify", {"passed": "true"}, "passed: true or false"),
    ("verify", {"passed": 1}, "passed: true or false"),
    ("verify", {}, "passed: true or false"),
    ("verify", [True], "not a JSON object"),
    ("verify", "passed", "not a JSON object"),
    ("verify", {"passed": True, "commands_run": "make"}, "commands_run: "),
    ("verify", {"passed": True, "error_details": "x" * 20_001}, "error_details: "),
    ("analyze", {"result": "FOUND"}, "result: "),
    ("analyze", {"selected": SELECTED}, "result: "),
    ("analyze", {"result": "IMPROVEMENT_FOUND"}, "selected: files and description"),
    ("analyze", {**FOUND, "selected": {"description": "x"}}, "selected.files: "),
    ("analyze", {**FOUND, "selected": {"files": [], "description": "x"}}, "selected: files and"),
    ("analyze", {**FOUND, "selected": {"files": ["a"], "description": ""}}, "selected.descr"),
    ("analyze", {**FOUND, "candidates": [SELECTED] * 6}, "candidates: "),
    ("analyze", {**FOUND, "files_scanned": "many"}, "files_scanned: "),
    ("analyze", {**FOUND, "selected": {**SELECTED, "files": ["\ud800"]}}, "selected.files.0: "),
    ("mr", {"title": "T"}, "summary: "),
    ("mr", {"title": "", "summary": "S"}, "title: "),
    ("mr", {"title": "T" * 501, "summary": "S"}, "title: "),
]


@pytest.mark.parametrize(("bead", "data", "text"), BAD)
def test_a_breach_of_the_schema(bead: str, data: Any, text: str) -> None:
    with pytest.raises(HandoffError, match=text.replace(".", r"\.")):
        read_handoff(bead, data, NOWHERE)


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"\xff\xfe{}", b'{"passed": true}}', b"[" * 100_000, b"nul", b"\x00"],
)
def test_files_that_are_no_json(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "handoff.json"
    file.write_bytes(raw)
    with pytest.raises(HandoffError, match="not JSON"):
        read_handoff("verify", None, file)


def test_a_file_that_is_missing_or_none(tmp_path: Path) -> None:
    file = tmp_path / "handoff.json"
    with pytest.raises(HandoffError, match="cannot be read"):
        read_handoff("verify", None, file)
    secret = tmp_path / "secret.json"
    secret.write_text('{"passed": true}')
    file.symlink_to(secret)
    with pytest.raises(HandoffError, match="cannot be read"):
        read_handoff("verify", None, file)
    file.unlink()
    file.mkdir()
    with pytest.raises(HandoffError, match="cannot be read"):
        read_handoff("verify", None, file)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    file = tmp_path / "handoff.json"
    file.write_text('{"passed": true, "x": "' + "x" * LARGEST + '"}')
    with pytest.raises(HandoffError, match="cannot be read"):
        read_handoff("verify", None, file)


@pytest.mark.parametrize("bead", ["analyze", "verify", "mr"])
def test_the_schema_asks_only_for_what_is_required(bead: str) -> None:
    asked = build_schema(bead)
    assert asked is not None
    required = {"analyze": ["result"], "verify": ["passed"], "mr": ["title", "summary"]}
    assert asked["required"] == required[bead]
    assert json.loads(json.dumps(asked)) == asked
