"""JSON answers: found in a text, and held against the schema."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.agents.model.blocks import MalformedError
from gitlab_nightshift.agents.model.json_answers import parse_json_answer
from gitlab_nightshift.stages.work.handoff import build_schema
from tests.support.shop import DRAFT, FOUND, PASSED

HONEST: dict[str, dict[str, Any]] = {"analyze": FOUND, "verify": PASSED, "mr": DRAFT}


def read(bead: str, text: str) -> dict[str, Any]:
    own = build_schema(bead)
    assert own
    return parse_json_answer(text, own)


@pytest.mark.parametrize("bead", HONEST)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        " {}\n",
        "```json\n{}\n```",
        "Here it is:\n\n```\n{}\n```\nDone.",
        "```json  \n{}\n``` ",
    ],
)
def test_an_object_alone_or_in_the_only_fence(bead: str, around: str) -> None:
    text = around.replace("{}", json.dumps(HONEST[bead], indent=1))
    assert read(bead, text) == HONEST[bead]


@pytest.mark.parametrize(
    "around",
    [
        "It is right.\n{}",
        "```JSON\n{}\n```",
        "I looked at {{x}} first.\n\n{}\n\nThat is all.",
        'In the file: {{"x": 1}}. My verdict: {}',
        "{} (once more: {})",
    ],
)
def test_an_object_in_prose_is_found(around: str) -> None:
    assert read("verify", around.format(*[json.dumps(PASSED)] * 2)) == PASSED


def test_a_fence_within_a_text_of_the_json_is_no_fence_around_it() -> None:
    draft = {**DRAFT, "changes": "```\ncode\n```"}
    assert read("mr", json.dumps(draft)) == draft


@pytest.mark.parametrize(
    ("bead", "text", "why"),
    [
        ("verify", "passed: true", "not one JSON object alone"),
        ("verify", '```json\n{"passed": true}\n```\n```json\n{"passed": false}\n```', "alone"),
        ("verify", "[true]", "alone"),
        ("verify", "[" * 100_000, "alone"),
        ("verify", "{}", "the answer: passed is missing"),
        ("verify", '{"passed": "yes"}', "passed: boolean expected"),
        ("verify", '{"passed": 1}', "passed: boolean expected"),
        ("verify", '{"passed": true, "commands_run": [1]}', "commands_run: string expected"),
        ("mr", '{"title": "x"}', "the answer: summary is missing"),
        ("analyze", '{"result": "FOUND"}', "result: one of IMPROVEMENT_FOUND, NO_IMPROVEMENT"),
        ("analyze", '{"result": "NO_IMPROVEMENT", "files_scanned": true}', "integer expected"),
        ("analyze", '{"result": "IMPROVEMENT_FOUND"}', "selected: with IMPROVEMENT_FOUND"),
        (
            "analyze",
            '{"result": "IMPROVEMENT_FOUND", "selected": {"files": [], "description": "x"}}',
            "selected: with IMPROVEMENT_FOUND",
        ),
        (
            "analyze",
            '{"result": "IMPROVEMENT_FOUND", "selected": {"files": ["x"]}}',
            "selected: description is missing",
        ),
    ],
)
def test_what_is_wrong_is_said(bead: str, text: str, why: str) -> None:
    with pytest.raises(MalformedError, match=why):
        read(bead, text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["passed", "selected", "files", "result", "x"]), inner)
    ),
)


@given(st.sampled_from(sorted(HONEST)), JSON)
def test_any_json_is_an_answer_or_malformed(bead: str, value: object) -> None:
    try:
        assert read(bead, json.dumps(value)) == value
    except MalformedError as error:
        assert str(error)
