"""The output formats of ``nightshift check`` for programs: Code Quality, SARIF, JSON, and files."""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from gitlab_nightshift.commands.change_check import Judgement
from gitlab_nightshift.commands.check_formats import (
    as_codequality,
    as_sarif,
    parse_formats,
    write_formats,
)
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.proof.reviewed_change import Context
from gitlab_nightshift.records.verdicts import Finding
from gitlab_nightshift.registry.flag_registry import FLAGS
from gitlab_nightshift.settings.model import Settings
from tests.support.tables import each

FAIL, WARN, NOTE = "test-skipped", "broken-link", "tool-settings"
FINDINGS = (
    Finding(FAIL, "fail", "src/a b.py", 3, "A test is skipped."),
    Finding(FAIL, "fail", "src/a b.py", 9, "A test is skipped."),
    Finding(WARN, "warn", "docs/ü#1.md", 0, "No file `x`."),
    Finding(WARN, "warn", "", 0, "The whole change."),
    Finding(NOTE, "note", "tox.ini", 2, "Tool settings differ: testenv."),
)
# https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
CODE_QUALITY = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "minLength": 1, "not": {"pattern": r"^(\./|/)"}},
                    "lines": {
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
    },
}


def judgement(*findings: Finding) -> Judgement:
    context = Context(Settings(), "", (), frozenset(), "")
    return Judgement("b" * 40, None, findings, Path(), "a" * 40, context)


def issues(*findings: Finding) -> list[dict[str, Any]]:
    report: list[dict[str, Any]] = json.loads(as_codequality(judgement(*findings)))
    jsonschema.validate(report, CODE_QUALITY)
    return report


def test_code_quality_has_the_fields_that_gitlab_reads() -> None:
    report = issues(*FINDINGS)
    assert [(each["check_name"], each["severity"]) for each in report] == [
        (FAIL, "major"),
        (FAIL, "major"),
        (WARN, "minor"),
        (WARN, "minor"),
        (NOTE, "info"),
    ]
    assert [each["location"] for each in report] == [
        {"path": "src/a b.py", "lines": {"begin": 3}},
        {"path": "src/a b.py", "lines": {"begin": 9}},
        {"path": "docs/ü#1.md", "lines": {"begin": 1}},
        {"path": ".", "lines": {"begin": 1}},
        {"path": "tox.ini", "lines": {"begin": 2}},
    ]
    assert len({each["fingerprint"] for each in report}) == 5
    assert issues() == []


def test_a_moved_issue_keeps_its_fingerprint() -> None:
    moved = [Finding(f.name, f.level, f.file, f.line + 5, f.detail) for f in FINDINGS]
    fingerprints = [each["fingerprint"] for each in issues(*FINDINGS)]
    assert [each["fingerprint"] for each in issues(*moved)] == fingerprints


def test_sarif_has_rules_levels_and_locations() -> None:
    log = json.loads(as_sarif(judgement(*FINDINGS)))
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    [run] = log["runs"]
    rules = {
        rule["id"]: rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"]
    }
    assert rules == {name: FLAGS[name].why for name in (FAIL, WARN, NOTE)}
    levels = [result["level"] for result in run["results"]]
    assert levels == ["error", "error", "warning", "warning", "note"]
    first, _, third, fourth, _ = [result.get("locations") for result in run["results"]]
    assert first == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "src/a%20b.py"},
                "region": {"startLine": 3},
            }
        }
    ]
    assert third == [{"physicalLocation": {"artifactLocation": {"uri": "docs/%C3%BC%231.md"}}}]
    assert fourth is None


def test_files_are_written_besides_the_printed_format(tmp_path: Path) -> None:
    formats = parse_formats(["codequality=found.json", "sarif=found.sarif"])
    printed = write_formats(judgement(*FINDINGS), formats, tmp_path, colour=True)
    assert "\033[31mfail\033[0m" in printed
    assert len(json.loads((tmp_path / "found.json").read_text())) == 5
    assert json.loads((tmp_path / "found.sarif").read_text())["version"] == "2.1.0"
    text = write_formats(judgement(), parse_formats(["text=x", "json"]), tmp_path, colour=True)
    assert json.loads(text)["flags"] == []
    assert (tmp_path / "x").read_text().startswith("No red flags")


@each("values", [["xml"], ["sarif="], ["json", "sarif"]])
def test_an_invalid_format(values: list[str]) -> None:
    with pytest.raises(NightshiftError, match="--format") as caught:
        parse_formats(values)
    assert caught.value.code is Code.CONFIG


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    formats = {"json": "no/such/folder", "text": ""}
    with pytest.raises(NightshiftError, match="no/such/folder: No such file"):
        write_formats(judgement(), formats, tmp_path, colour=False)
