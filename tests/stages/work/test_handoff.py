"""A hand-off is validated, and in doubt it is never a pass."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from gitlab_nightshift.records.bead_results import AnalysisCandidate, AnalysisResult, Draft, Verdict
from gitlab_nightshift.stages.work.handoff import (
    HANDOFF_TYPES,
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


def test_required_fields_are_enough() -> None:
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
    with pytest.raises(HandoffError, match="still holds the stub"):
        read_handoff(bead, None, file)
    with pytest.raises(HandoffError, match="still holds the stub"):
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


INVALID: list[tuple[str, Any, str]] = [
    ("verify", {"passed": "true"}, "passed: expected true or false"),
    ("verify", {"passed": 1}, "passed: expected true or false"),
    ("verify", {}, "passed: expected true or false"),
    ("verify", [True], "not a JSON object"),
    ("verify", "passed", "not a JSON object"),
    ("analyze", {"result": "FOUND"}, "result: "),
    ("analyze", {"selected": SELECTED}, "result: "),
    ("analyze", {"result": "IMPROVEMENT_FOUND"}, "selected: files and description"),
    ("analyze", {**FOUND, "selected": {"description": "x"}}, "selected: files and"),
    ("analyze", {**FOUND, "selected": {"files": [], "description": "x"}}, "selected: files and"),
    ("analyze", {**FOUND, "selected": {"files": ["a"], "description": ""}}, "selected: files"),
    ("mr", {"title": "T"}, "summary: "),
    ("mr", {"title": "", "summary": "S"}, "title: "),
]


@pytest.mark.parametrize(("bead", "data", "text"), INVALID)
def test_invalid_hand_offs(bead: str, data: Any, text: str) -> None:
    with pytest.raises(HandoffError, match=text.replace(".", r"\.")):
        read_handoff(bead, data, NOWHERE)


DRAFT = {"title": "T", "summary": "S"}
TOO_MUCH: list[tuple[str, Any, Any]] = [
    ("verify", {"passed": True, "commands_run": "make"}, Verdict(passed=True)),
    ("verify", {"passed": True, "doubts": None, "checked": {"a": 1}}, Verdict(passed=True)),
    (
        "verify",
        {"passed": True, "error_details": "x" * 20_001, "checked": ["y" * 600, 5] * 100},
        Verdict(passed=True, error_details="x" * 20_000, checked=("y" * 500,) * 50),
    ),
    ("verify", {"passed": False, "doubts": ["a\ud800b"]}, Verdict(passed=False, doubts=("a?b",))),
    ("mr", {"title": "T" * 501, "summary": "S"}, Draft(title="T" * 500, summary="S")),
    ("mr", {**DRAFT, "answers": [{"thread": 10**30, "text": "x"}]}, Draft("T", "S")),
    (
        "mr",
        {**DRAFT, "rejected_alternatives": [None, "a", {}]},
        Draft("T", "S", "", "", "", "", ("a",)),
    ),
    ("analyze", {"result": "NO_IMPROVEMENT", "selected": 5}, AnalysisResult("NO_IMPROVEMENT")),
]
INVALID_NUMBERS: tuple[Any, ...] = ("many", -1.5, float("nan"), float("inf"), None, [], 10**4000)
CANDIDATES: tuple[Any, ...] = ({"files": []}, 5, None, {**SELECTED, "rank": None}, *[SELECTED] * 50)


@pytest.mark.parametrize(("bead", "data", "fitted"), TOO_MUCH)
def test_an_agent_that_says_too_much_loses_only_that(bead: str, data: Any, fitted: Any) -> None:
    assert read_handoff(bead, data, NOWHERE) == fitted


@pytest.mark.parametrize("count", INVALID_NUMBERS)
def test_an_invalid_number_is_dropped(tmp_path: Path, count: Any) -> None:
    file = tmp_path / "handoff.json"
    file.write_text(json.dumps({**FOUND, "files_scanned": 0}).replace(": 0", ": 9" + "9" * 5000))
    least = read_handoff("analyze", FOUND, NOWHERE)
    assert read_handoff("analyze", None, file) == least
    if count != 10**4000:
        assert read_handoff("analyze", {**FOUND, "files_scanned": count}, NOWHERE) == least


def test_invalid_members_of_a_list_are_dropped() -> None:
    made = read_handoff("analyze", {**FOUND, "candidates": list(CANDIDATES)}, NOWHERE)
    candidate = AnalysisCandidate(("a.py",), "Do it.")
    assert made == AnalysisResult(
        "IMPROVEMENT_FOUND", candidates=(candidate,) * 5, selected=candidate
    )


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"\xff\xfe{}", b'{"passed": true}}', b"[" * 100_000, b"nul", b"\x00"],
)
def test_files_that_are_not_json(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "handoff.json"
    file.write_bytes(raw)
    with pytest.raises(HandoffError, match="not JSON"):
        read_handoff("verify", None, file)


def test_a_file_that_is_missing_or_not_regular(tmp_path: Path) -> None:
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
def test_the_schema_requires_only_what_is_needed(bead: str) -> None:
    schema = build_schema(bead)
    assert schema is not None
    required = {"analyze": ["result"], "verify": ["passed"], "mr": ["title", "summary"]}
    assert schema["required"] == required[bead]
    assert json.loads(json.dumps(schema)) == schema


DROPPED_KEYS = ("title", "maxItems", "maxLength")


def drop_limits(schema: Any) -> Any:
    """Pydantic's schema of a record, without what agents are not told."""
    if isinstance(schema, list):
        return [drop_limits(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    properties = schema.get("properties", {})
    loose = {key: drop_limits(part) for key, part in schema.items() if key not in DROPPED_KEYS}
    if properties:
        loose["properties"] = {name: drop_limits(part) for name, part in properties.items()}
    if isinstance(loose.get("items"), dict):
        loose["items"].pop("minLength", None)
    return loose


@pytest.mark.parametrize("bead", HANDOFF_TYPES)
def test_the_schema_is_pydantics_without_limits(bead: str) -> None:
    assert build_schema(bead) == drop_limits(TypeAdapter(HANDOFF_TYPES[bead]).json_schema())
