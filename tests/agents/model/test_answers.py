"""Answers as text: blocks, parsed and rendered; JSON, checked against its schema."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.agents.model.answers import (
    LARGEST_TEXT,
    MOST_BLOCKS,
    Block,
    MalformedError,
    find_no_change_reason,
    parse_blocks,
    parse_json_answer,
    render_blocks,
)
from gitlab_nightshift.stages.work.handoff import build_schema
from tests.support.shop import DRAFT, FOUND, PASSED

ONE = "a.py\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n"
OLD_NEW = Block(1, "a.py", ("old",), ("new",))


@pytest.mark.parametrize(
    "text",
    [
        ONE,
        f"I change it.\n\n{ONE}\nThat is all.",
        "a.py\n```python\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n```",
        "```\na.py\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n```",
        ONE.replace("\n", "\r\n"),
        ONE.replace("=======", "=======  "),
        ONE.replace("<<<<<<<", "<" * 9).replace("=======", "=" * 9).replace(">>>>>>>", ">" * 9),
    ],
)
def test_one_block(text: str) -> None:
    assert parse_blocks(text) == (OLD_NEW,)


def test_several_blocks_are_numbered_and_a_text_without_any_has_none() -> None:
    new = "b/c d.txt\n<<<<<<< SEARCH\n=======\nnew\n\n>>>>>>> REPLACE\n"
    deleted = "d.py\n<<<<<<< DELETE\n>>>>>>> DELETE\n"
    assert parse_blocks(ONE + new + deleted) == (
        OLD_NEW,
        Block(2, "b/c d.txt", (), ("new", "")),
        Block(3, "d.py", delete=True),
    )
    assert parse_blocks("Nothing to do.\n=======\n") == ()


def test_longer_marks_let_a_text_contain_marks() -> None:
    text = ONE.replace("old", "Title\n=======").replace("<<<<<<<", "<<<<<<<<")
    text = text.replace("=======\nnew", "========\nnew").replace(">>>>>>>", ">>>>>>>>")
    assert parse_blocks(text) == (Block(1, "a.py", ("Title", "======="), ("new",)),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (ONE.removeprefix("a.py\n"), "line before it has to be its path"),
        (f"\n{ONE}".replace("a.py\n", "\n"), "line before it has to be its path"),
        ("```\n```\n" + ONE.removeprefix("a.py\n"), "line before it has to be its path"),
        (ONE + ONE.removeprefix("a.py\n"), "block 2 .line 7.: the line before it"),
        (ONE.replace(">>>>>>> REPLACE\n", ""), "it has no end"),
        (ONE.replace("=======\n", ""), "no line of = between"),
        (ONE.replace("new", "=======\nnew"), "a second line ======="),
        (ONE.replace("new", "<<<<<<< SEARCH"), "before the block's own end"),
        (ONE.replace("new", ">>>>>>> DELETE"), "before the block's own end"),
        (ONE.replace("=======", "========"), "no line of = between"),
        (ONE.replace(">>>>>>>", ">>>>>>>>"), "it has no end"),
        (">>>>>>> REPLACE\n", "line 1: >>>>>>> REPLACE ends a block that never began"),
        ("a\n<<<<<<< DELETE\nold\n>>>>>>> DELETE", "nothing between its two marks"),
        ("a\n<<<<<<< DELETE\n>>>>>>> REPLACE", "before the block's own end"),
        (ONE.replace("new", "n\0w"), "a NUL character"),
        (ONE.replace("new", "n\ud800w"), "not UTF-8"),
        ("x" * (LARGEST_TEXT + 1), "larger than"),
        (ONE * (MOST_BLOCKS + 1), "more than 500 blocks"),
    ],
)
def test_malformed_blocks_are_refused(text: str, why: str) -> None:
    with pytest.raises(MalformedError, match=why):
        parse_blocks(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NO CHANGE: it is right as it is", "it is right as it is"),
        ("I looked.\nNO CHANGE\n", "no reason given"),
        ("There is NO CHANGE here.", None),
        ("", None),
    ],
)
def test_an_answer_that_changes_nothing(text: str, reason: str | None) -> None:
    assert find_no_change_reason(text) == reason


MARKS = ["=======", "<<<<<<< SEARCH", ">>>>>>> REPLACE", "========", ">>>>>>>> DELETE", "```", ""]
LINES = st.lists(
    st.sampled_from([*MARKS, "x", "  y", "="])
    | st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=9),
    max_size=6,
).map(tuple)
PATHS = st.sampled_from(["a.py", "dir/ä b.txt", "=x", ".hidden"])


@given(st.lists(st.tuples(PATHS, LINES, LINES, st.booleans()), max_size=5))
def test_rendered_blocks_are_parsed_as_the_same(
    rows: list[tuple[str, tuple[str, ...], tuple[str, ...], bool]],
) -> None:
    blocks = tuple(
        Block(number, path, () if delete else old, () if delete else new, delete)
        for number, (path, old, new, delete) in enumerate(rows, 1)
    )
    assert parse_blocks(render_blocks(blocks)) == blocks


@given(st.lists(st.sampled_from([*MARKS, "a.py", "x", "\r"])).map("\n".join) | st.text())
def test_any_text_has_blocks_or_a_reason(text: str) -> None:
    try:
        blocks = parse_blocks(text)
    except MalformedError as error:
        assert str(error)
    else:
        assert parse_blocks(render_blocks(blocks)) == blocks


HONEST: dict[str, dict[str, Any]] = {"analyze": FOUND, "verify": PASSED, "mr": DRAFT}


def read(bead: str, text: str) -> dict[str, Any]:
    schema = build_schema(bead)
    assert schema
    return parse_json_answer(text, schema)


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
def test_the_problem_of_a_json_answer_is_named(bead: str, text: str, why: str) -> None:
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
