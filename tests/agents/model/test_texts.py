"""The form of an answer that an endpoint is asked to keep to."""

from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from gitlab_nightshift.agents.model.texts import build_answer_format
from gitlab_nightshift.stages.work.handoff import build_schema
from tests.support.shop import DRAFT, FOUND, PASSED

NOTHING = {"result": "NO_IMPROVEMENT", "reason": "All is tested."}


def find_schema(bead: str) -> Any:
    strictest = build_answer_format(bead, build_schema(bead))
    assert strictest
    return strictest["json_schema"]["schema"]


@pytest.mark.parametrize(
    ("bead", "report"),
    [
        ("analyze", FOUND),
        ("analyze", NOTHING),
        ("analyze", {**NOTHING, "selected": None, "candidates": []}),
        ("verify", PASSED),
        ("mr", DRAFT),
    ],
)
def test_a_report_fits_its_schema(bead: str, report: dict[str, Any]) -> None:
    jsonschema.validate(report, find_schema(bead))


@pytest.mark.parametrize(
    "selected",
    [
        {},
        {"selected": None},
        {"selected": {"files": [], "description": "Test it."}},
        {"selected": {"files": ["a.py"]}},
        {"selected": {"description": "Test it."}},
    ],
)
def test_what_was_found_has_to_be_selected_with_its_files(selected: dict[str, Any]) -> None:
    report = {**{key: value for key, value in FOUND.items() if key != "selected"}, **selected}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, find_schema("analyze"))


def test_a_server_that_reads_nothing_beside_any_of_knows_all_the_same() -> None:
    """llama.cpp makes its grammar of the alternatives alone, and looks references up at the top."""
    schema = find_schema("analyze")
    assert set(schema) == {"$defs", "anyOf"}
    assert [{*part["properties"]} for part in schema["anyOf"]] == [{*FOUND, "reason"}] * 2
