"""Records in files; an invalid record is an error of one line."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.bead_results import (
    AnalysisCandidate,
    AnalysisResult,
    BeadStatus,
    CommandResult,
    Draft,
    Verdict,
)
from gitlab_nightshift.records.fleet_records import FleetPlan
from gitlab_nightshift.records.products import Bundle, Outcome, Plan
from gitlab_nightshift.records.run_results import RESULT_VERSION, RunResult
from gitlab_nightshift.records.storage import read_record, to_json, write_record
from tests.support.samples import ANALYSIS, BEADS, BUNDLE, PLAN, PROPOSAL, PUBLISHED, QUIET, RESULT
from tests.support.tables import each


@pytest.mark.parametrize("record", [PLAN, BUNDLE, QUIET, PUBLISHED, RESULT])
def test_a_record_survives_its_file(record: Any, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    write_record(file, record)
    assert read_record(type(record), file) == record
    assert len(file.read_text().splitlines()) > 3, "a person can read it"
    assert file.read_bytes().isascii()


def test_result_json_has_the_keys_of_the_contract() -> None:
    names = """run_id outcome error_code reason summary task mr_url branch base_sha commit_sha
        category_used is_fallback files_scanned files_scanned_at_least total_cost_usd total_tokens
        assumed_cost_usd assumed_tokens total_duration_s isolation beads
        project pipeline_url started_at scheduled title change commands reported evidence flags
        gates notes attempts said upkeep version""".split()
    data = json.loads(to_json(RESULT))
    assert list(data) == names
    assert data["version"] == RESULT_VERSION == 2


def test_a_result_of_version_1_is_read_with_defaults(tmp_path: Path) -> None:
    old = json.loads(to_json(RESULT))
    new = """project pipeline_url started_at scheduled title change commands reported evidence flags
        gates notes attempts said""".split()
    file = tmp_path / "result.json"
    file.write_text(json.dumps({key: old[key] for key in old if key not in new} | {"version": 1}))
    read = read_record(RunResult, file)
    assert (read.outcome, read.beads, read.version) == (RESULT.outcome, RESULT.beads, 2)
    assert (read.project, read.change, read.said) == ("", None, None)
    file.write_text(json.dumps({**old, "version": 3}))
    with pytest.raises(NightshiftError, match="of version 3, from a newer nightshift"):
        read_record(RunResult, file)


def test_a_result_has_empty_defaults() -> None:
    data = json.loads(to_json(RunResult("4711", Outcome.SKIPPED)))
    filled = {key: value for key, value in data.items() if value}
    assert filled == {
        "run_id": "4711",
        "outcome": "SKIPPED",
        "category_used": "none",
        "isolation": "none",
        "version": RESULT_VERSION,
    }
    known = ("files_scanned", "total_cost_usd", "total_tokens", "assumed_cost_usd")
    assert not [name for name in known if data[name] is None]


def test_outcomes_are_those_of_the_contract() -> None:
    assert [outcome.value for outcome in Outcome] == [
        "MR_CREATED",
        "NO_IMPROVEMENT",
        "MR_READY",
        "SKIPPED",
        "APPROVAL_REQUIRED",
        "FAILED",
    ]


def test_unknown_fields_of_a_bundle_are_ignored(tmp_path: Path) -> None:
    data = json.loads(to_json(BUNDLE))
    data["added_later"] = data["proposal"]["added_later"] = {"x": 1}
    assert read_record(Bundle, write_data(tmp_path, data)) == BUNDLE


def write_data(folder: Path, data: Any) -> Path:
    file = folder / "bundle.json"
    file.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return file


def altered(**values: Any) -> dict[str, Any]:
    return {**json.loads(to_json(BUNDLE)), **values}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b'{"\xff"}', "codec can't decode"),
        (b"[" * 100_000, "recursion"),
        (b"[]", "it is not a version 2 bundle"),
        (b"{}", "it is not a version 2 bundle"),
        (altered(version="1"), "it is not a version 2 bundle"),
        (altered(version=[1]), "it is not a version 2 bundle"),
        (
            altered(version=1),
            "of version 1, from an older nightshift; this one reads version 2: ",
        ),
        (
            altered(version=3),
            "of version 3, from a newer nightshift; this one reads version 2: ",
        ),
        (altered(outcome="GREAT"), "outcome: "),
        (altered(base_sha=None), "base_sha: "),
        (altered(usage={"cost_usd": "much"}), "usage.cost_usd: "),
        (altered(beads=[{}]), "beads.0.bead: "),
        (altered(proposal={"change": {}}), "proposal.change.files: "),
        ({"version": 2}, "run_id: "),
    ],
    ids=lambda value: str(value)[:20],
)
def test_invalid_bundles_are_refused(data: Any, why: str, tmp_path: Path) -> None:
    file = write_data(tmp_path, data)
    with pytest.raises(NightshiftError) as caught:
        read_record(Bundle, file)
    assert caught.value.code is Code.PARSE_ERROR
    assert caught.value.message.startswith(f"{file}: not a bundle that can be used: ")
    assert why in caught.value.message
    assert len(caught.value.message.splitlines()) == 1


@pytest.mark.parametrize(
    "limit",
    [
        {"max_diff_lines": -1},
        {"max_diff_lines": 10**13},
        {"max_budget_usd": -0.5},
        {"max_budget_usd": float("nan")},
        {"max_budget_usd": float("inf")},
        {"max_tokens": 0},
    ],
    ids=str,
)
def test_limits_of_a_plan_are_checked(limit: Any, tmp_path: Path) -> None:
    file = write_data(tmp_path, {**json.loads(to_json(PLAN)), **limit})
    with pytest.raises(NightshiftError) as caught:
        read_record(Plan, file)
    assert caught.value.code is Code.PARSE_ERROR
    assert f"{next(iter(limit))}: " in caught.value.message


@pytest.mark.parametrize("size", [{"added": -1}, {"deleted": -1}], ids=str)
def test_a_change_has_no_negative_size(size: Any, tmp_path: Path) -> None:
    data = json.loads(to_json(BUNDLE))
    data["proposal"]["change"].update(size)
    with pytest.raises(NightshiftError, match=r"proposal\.change\."):
        read_record(Bundle, write_data(tmp_path, data))


def test_a_missing_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(NightshiftError, match=r"plan\.json: there is no plan") as caught:
        read_record(Plan, tmp_path / "plan.json")
    assert caught.value.code is Code.CONFIG
    with pytest.raises(NightshiftError, match="Is a directory") as caught:
        read_record(Plan, tmp_path)
    assert caught.value.code is Code.CONFIG
    with pytest.raises(NightshiftError, match="there is no fleet plan; the step before writes it"):
        read_record(FleetPlan, tmp_path / "fleet-plan.json")


CANDIDATE = {"files": ["a"], "description": "x"}


@each(
    ("kind", "data"),
    [
        (AnalysisResult, {"result": "MAYBE"}),
        (AnalysisResult, {"result": "NO_IMPROVEMENT", "reason": "x" * 20_001}),
        (AnalysisResult, {"result": "NO_IMPROVEMENT", "files_scanned": "many"}),
        (AnalysisResult, {"result": "IMPROVEMENT_FOUND", "candidates": 6 * [CANDIDATE]}),
        (AnalysisCandidate, {"files": ["a"], "description": ""}),
        (AnalysisCandidate, {"files": [""], "description": "x"}),
        (AnalysisCandidate, {"files": ["a" * 4097], "description": "x"}),
        (AnalysisCandidate, {"files": ["a"] * 201, "description": "x"}),
        (AnalysisCandidate, {"files": "a.py", "description": "x"}),
        (Verdict, {}),
        (Verdict, {"passed": True, "commands_run": ["x"] * 201}),
        (Draft, {"title": "", "summary": "x"}),
        (Draft, {"title": "x"}),
        (Draft, {"title": "x" * 501, "summary": "x"}),
        (Draft, {"title": "x", "summary": "x", "rejected_alternatives": ["x"] * 21}),
    ],
)  # fmt: skip
def test_hand_offs_are_limited(kind: Any, data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(data)


@each(
    ("kind", "data"),
    [
        (AnalysisResult, {"result": "NO_IMPROVEMENT"}),
        (AnalysisResult, {"result": "IMPROVEMENT_FOUND", "selected": CANDIDATE}),
        (Verdict, {"passed": False}),
        (Draft, {"title": "x", "summary": "y", "mood": "good"}),
    ],
)
def test_most_fields_of_hand_offs_are_optional(kind: Any, data: dict[str, Any]) -> None:
    assert TypeAdapter(kind).validate_python(data)


@each("status", list(BeadStatus))
def test_only_the_status_ok_is_ok(status: BeadStatus) -> None:
    assert dataclasses.replace(BEADS[0], status=status).ok == (status is BeadStatus.OK)


@each(("status", "ok"), [(0, True), (1, False), (-9, False), (None, False)])
def test_only_exit_status_0_is_ok(status: int | None, ok: bool) -> None:
    assert CommandResult("x", status, 0.0).ok is ok


def test_records_are_frozen() -> None:
    for record in (PLAN, BUNDLE, PUBLISHED, RESULT, PROPOSAL, ANALYSIS):
        with pytest.raises(dataclasses.FrozenInstanceError):
            record.run_id = "x"  # type: ignore[misc,union-attr]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    write_record(file, PLAN)
    with pytest.raises(TypeError):
        write_record(file, dataclasses.replace(PLAN, notes=(object(),)))  # type: ignore[arg-type]
    assert read_record(Plan, file) == PLAN
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
