"""The published JSON Schema of ``result.json``."""

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]

from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import to_json
from gitlab_nightshift.stages.report.result_schema import build_result_schema
from tests.support.pages import FAILED, HOSTILE, QUIET, build_full_result
from tests.support.samples import RESULT
from tests.support.tables import each
from tests.support.world import ROOT

PUBLISHED = ROOT / "docs/result.schema.json"
VALIDATOR: Any = jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text()))


def as_data(result: RunResult) -> Any:
    return json.loads(to_json(result))


def test_the_published_schema_is_that_of_the_code() -> None:
    text = json.dumps(build_result_schema(), indent=2) + "\n"
    assert PUBLISHED.read_text() == text, "nightshift config schema result > docs/…"
    VALIDATOR.check_schema(json.loads(text))


def test_results_are_of_that_schema() -> None:
    for result in (RESULT, QUIET, FAILED, build_full_result("x"), build_full_result(HOSTILE[:400])):
        VALIDATOR.validate(as_data(result))


@each(
    ("name", "value"),
    [
        ("version", 1),
        ("outcome", "GREEN"),
        ("total_cost_usd", "0.54"),
        ("flags", [{"name": "x"}]),
        ("commands", [{**as_data(build_full_result("x"))["commands"][0], "level": "green"}]),
        ("change", {}),
    ],
)
def test_what_is_no_result_is_refused(name: str, value: object) -> None:
    assert not VALIDATOR.is_valid({**as_data(build_full_result("x")), name: value})


def test_every_field_is_there_and_new_ones_are_allowed() -> None:
    data = as_data(build_full_result("x"))
    for name in data:
        assert not VALIDATOR.is_valid({key: data[key] for key in data if key != name}), name
    VALIDATOR.validate({**data, "of a later version": 1})
