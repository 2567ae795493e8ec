"""The schema that an endpoint is asked to enforce on an answer."""

from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from gitlab_nightshift.agents.model.texts import build_answer_format
from gitlab_nightshift.stages.work.handoff import build_schema
from tests.support.shop import DRAFT, FOUND, PASSED

NOTHING = {"result": "NO_IMPROVEMENT", "reason": "All is tested."}


def find_schema(bead: str) -> Any:
    response_format = build_answer_format(bead, build_schema(bead))
    assert response_format
    return response_format["json_schema"]["schema"]


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
def test_an_improvement_has_to_be_selected_with_its_files(selected: dict[str, Any]) -> None:
    report = {**{key: value for key, value in FOUND.items() if key != "selected"}, **selected}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, find_schema("analyze"))


def test_each_alternative_is_a_whole_object() -> None:
    """llama.cpp builds its grammar from the alternatives alone, and finds references at the top."""
    schema = find_schema("analyze")
    assert set(schema) == {"$defs", "anyOf"}
    assert [{*option["properties"]} for option in schema["anyOf"]] == [{*FOUND, "reason"}] * 2
