"""What a record of the notary lets through, and for which change."""

import dataclasses
from typing import Any

import pytest

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.notary_records import (
    NotarizedCommand,
    NotarizedRun,
    NotaryRecord,
    find_refusal,
)

ABOUT: dict[str, Any] = {"run_id": "4711", "base_sha": "b" * 40, "tree_id": "a" * 40}
PASSED, FAILED = NotarizedRun(0, 1.0), NotarizedRun(1, 1.0)
ENDED = NotarizedRun(None, 60.0, "ended by this program: timeout")
GOOD = NotarizedCommand("make test", (PASSED,))


def judge(*commands: NotarizedCommand, **more: Any) -> Code | None:
    record = NotaryRecord(**ABOUT, asked=("make test",), commands=commands)
    refusal = find_refusal(dataclasses.replace(record, **more), **ABOUT)
    return refusal.code if refusal else None


@pytest.mark.parametrize(
    ("runs", "base", "code"),
    [
        ((PASSED,), None, None),
        ((FAILED,), None, Code.TEST_FAILED),
        ((FAILED, PASSED), None, None),
        ((PASSED, FAILED), None, Code.TEST_FAILED),
        ((FAILED,), FAILED, None),
        ((FAILED,), PASSED, Code.TEST_FAILED),
        # A time that is too short, as work may say, makes both of them end.
        ((ENDED,), ENDED, Code.TEST_FAILED),
        ((FAILED,), ENDED, Code.TEST_FAILED),
    ],
)
def test_what_lets_a_change_through(
    runs: tuple[NotarizedRun, ...], base: NotarizedRun | None, code: Code | None
) -> None:
    assert judge(NotarizedCommand("make test", runs, base)) is code


def test_what_is_no_answer_to_what_was_asked() -> None:
    assert judge() is Code.PARSE_ERROR
    assert judge(GOOD, NotarizedCommand("make more", (PASSED,))) is Code.PARSE_ERROR
    assert judge(NotarizedCommand("true", (PASSED,))) is Code.PARSE_ERROR
    assert judge(why="it died") is Code.INCOMPLETE
    assert judge(asked=()) is None


@pytest.mark.parametrize("name", ABOUT)
def test_it_is_about_one_run_one_base_and_one_tree(name: str) -> None:
    assert judge(GOOD) is None
    assert judge(GOOD, **{name: "c" * 40}) is Code.PUBLISH
    assert judge(GOOD, **{name: ""}) is Code.PUBLISH
